"""A network of your own as an ONNX graph, by torch's exporter."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rillflow.envs.layout import rebuilt
from rillflow.errors import BuildError
from rillflow.policies.action_masks import rule_out, with_numbers
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_network import wrong
from rillflow.results.onnx_builtin_networks import Weights, bounds, output_name
from rillflow.results.onnx_parity import feeds, generated
from rillflow.results.optional_libraries import needs


class Acting(nn.Module):
    """What is exported: one step of the network, and the action that follows from its outputs."""

    def __init__(self, spec: PolicySpec, model: nn.Module) -> None:
        super().__init__()
        self.spec, self.model = spec, model
        if spec.actions.numbers:
            parts = spec.action_scale if spec.bounded else bounds(spec)
            for name, bound in zip(("middle", "half") if spec.bounded else ("low", "high"), parts,
                                   strict=True):  # fmt: skip
                self.register_buffer(name, torch.tensor(bound), persistent=False)

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """`(action, outputs)`, and the next state if there is one."""
        mask = None
        parts = list(given)
        remembered = [parts.pop(), parts.pop()][::-1] if self.spec.recurrent else []
        if self.spec.masked:
            mask = with_numbers(self.spec, parts.pop())
        if not remembered:
            results = self.model(self._observation(parts))
            outputs: Tensor = results if isinstance(results, Tensor) else results[0]
            outputs = rule_out(outputs, mask)
            return self._action(outputs), outputs
        outputs, after = self._remembering(parts, *remembered)
        outputs = rule_out(outputs, mask)
        return self._action(outputs), outputs, after

    def _remembering(
        self, parts: list[Tensor], state: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Outputs and the next state of a network with a memory."""
        model: Any = self.model
        if isinstance(self.spec.model, str):  # where episodes begin, its own loop looks at values
            features = model.trunk(self._observation(parts))
            known, after = model.one_step(features, state, start)
            return model.heads(known)[0], after
        seen = self._observation([part[None] for part in parts])
        outputs, *_, after = model(seen, state, start[None])
        return outputs[0], after

    def _observation(self, parts: list[Tensor]) -> Any:
        """What the network is given, from the inputs one by one."""
        layout = self.spec.layout
        if layout is None:
            return parts[0]
        pieces = dict(zip(layout.parts, parts, strict=True))
        if self.spec.normalize_observations:
            pieces = self._normalized(pieces)
        if isinstance(self.spec.model, str):  # a built-in one takes them by their paths
            return pieces
        return rebuilt(layout.tree, lambda path: pieces[path])

    def _normalized(self, pieces: dict[Any, Tensor]) -> dict[Any, Tensor]:
        """The parts, normalised as the whole that they are."""
        layout = self.spec.layout
        assert layout is not None, "the observation has parts"
        first, part = next(iter(pieces.values())), next(iter(layout.parts.values()))
        lead = first.shape[: first.ndim - len(part.shape)]
        flat = [piece.reshape(*lead, -1) for piece in pieces.values()]
        normalize: Any = self.model.normalizer
        return layout.pieces(
            normalize(torch.cat([*flat, first.new_zeros(*lead, layout.mask_size)], -1))
        )

    def _action(self, outputs: Tensor) -> Tensor:
        actions = self.spec.actions
        if actions.kind == "discrete":
            return outputs.argmax(1)
        if actions.kind == "multidiscrete":
            return self._best(outputs).reshape(-1, *actions.shape)
        if actions.kind == "mixed":
            width = sum(actions.choices)
            best = self._best(outputs[:, :width]).float()
            return torch.cat([best, self._clipped(outputs[:, width:])], 1)
        if self.spec.bounded:
            squeezed = torch.tanh(outputs[:, : actions.width])
            within = self.get_buffer("middle") + self.get_buffer("half") * squeezed
            return within.reshape(-1, *actions.shape)
        return self._clipped(outputs.reshape(-1, *actions.shape))

    def _best(self, logits: Tensor) -> Tensor:
        parts = torch.split_with_sizes(logits, self.spec.actions.choices, 1)
        return torch.stack([part.argmax(1) for part in parts], 1)

    def _clipped(self, means: Tensor) -> Tensor:
        low, high = self.get_buffer("low"), self.get_buffer("high")
        return torch.minimum(torch.maximum(means, low), high)


def trace(spec: PolicySpec, weights: Weights) -> Any:
    """The acting network as an ONNX model, with the inputs and outputs of the built-in ones."""
    needs("onnxscript", "onnx", "the export of a network of your own, or of one for several parts")
    policy = TorchPolicy(spec)
    policy.set_weights(weights)
    acting = Acting(spec, policy.model).eval()
    batch = 2  # with one, torch would take the size of the batch for a constant
    inputs = feeds(spec, generated(spec, batch, np.random.default_rng(0)))
    given = [torch.tensor(array) for array in inputs.values()]
    names, outputs = list(inputs), ["action", output_name(spec)]
    if spec.recurrent:
        given += [torch.tensor(policy.initial_state(batch)), torch.zeros(batch, dtype=torch.bool)]
        names, outputs = [*names, "state", "start"], [*outputs, "next_state"]
    shapes: Any = (({0: torch.export.Dim("batch")},) * len(given),)
    try:
        with _quiet():
            program = torch.onnx.export(
                acting,
                tuple(given),
                dynamo=True,
                input_names=names,
                output_names=outputs,
                dynamic_shapes=shapes,
                verbose=False,
            )
    except Exception as error:
        raise wrong(
            spec,
            f"torch cannot export it ({_first_line(error)}): a network "
            "that is exported may not branch on the values in its tensors",
        ) from error
    if program is None:
        raise BuildError("torch.onnx.export returned nothing: use torch 2.6 or newer")
    return program.model_proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter prints of its progress, and warns of in its own code."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(nowhere), redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_line(error: BaseException) -> str:
    """What went wrong at the bottom of it: above, the exporter talks about its own steps."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
