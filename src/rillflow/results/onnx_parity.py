"""Whether an exported network does what the policy does, found out by running both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.envs.layout import MASK, named
from rillflow.errors import BuildError, RunError
from rillflow.policies.action_masks import mask_of, network_input, rule_out
from rillflow.policies.make import make_actor
from rillflow.policies.normalizer import MEAN, VARIANCE
from rillflow.policies.spec import PolicySpec
from rillflow.results.onnx_builtin_networks import Weights, bounds, output_name
from rillflow.results.optional_libraries import needs

Arrays = dict[str, NDArray[Any]]

CLOSE = 1e-4
"""of the size of the outputs: the same sums in another order differ by far less"""
_BATCHES = (1, 64, 3)
"""sizes of the batches tried, one after the other: the axis is free"""
_STEPS = 6
"""for which a policy that remembers is followed, with episodes that end on the way"""


def check_parity(path: Path, spec: PolicySpec, weights: Weights, seed: int = 0) -> str:
    """Run the file and the policy on generated observations; raise if they differ.

    Actions must be equal, save where two are equally good up to rounding.

    Returns:
        What ran the file.
    """
    run, runner = _runner(path)
    policy: Any = make_actor(spec)
    policy.set_weights(weights)
    rng = np.random.default_rng(seed)
    for size in _BATCHES:
        if spec.recurrent:
            _check_sequence(run, policy, size, rng, weights)
        else:
            obs = generated(spec, size, rng)
            obs = _at_home(obs, weights)
            expected = _numpy(policy.outputs(obs))
            _compare(spec, run(feeds(spec, obs)), expected, policy.greedy(obs))
    return runner


def _check_sequence(
    run: Callable[[Arrays], Arrays],
    policy: Any,
    size: int,
    rng: np.random.Generator,
    weights: Weights,
) -> None:
    """Each side goes on from its own state."""
    spec = policy.spec
    ours = theirs = policy.initial_state(size)
    for step in range(_STEPS):
        obs = _at_home(generated(spec, size, rng), weights)
        start = rng.random(size) < (0.3 if step else 1.0)
        expected = _recurrent_outputs(policy, obs, ours, start)
        actions, ours = policy.greedy_recurrent(obs, ours, start)
        found = run({**feeds(spec, obs), "state": theirs, "start": start})
        _compare(spec, found, expected, actions)
        theirs = found["next_state"]
        _require(theirs.shape == ours.shape and _near(theirs, ours), "state", theirs, ours)


def _compare(spec: PolicySpec, found: Arrays, outputs: Any, actions: NDArray[Any]) -> None:
    name = output_name(spec)
    _require(_near(found[name], outputs), name, found[name], outputs)
    action = found["action"]
    if spec.actions.numbers:
        first = len(spec.actions.choices) if spec.actions.kind == "mixed" else 0
        own, numbers = actions, action
        if first:
            own, numbers = actions[:, first:], action[:, first:]
        own = np.clip(own, *bounds(spec))
        _require(_near(numbers, own), "action", action, actions)
        if not first:
            return
        action, actions = (part[:, :first].astype(np.int64) for part in (action, actions))
    same = action.shape == actions.shape
    if same and (action != actions).any():
        # a tie that rounding decides: the action taken must be as good as the policy's own
        same = _as_good(spec, outputs, action, actions)
    _require(same, "action", action, actions)


def _as_good(spec: PolicySpec, outputs: Any, action: NDArray[Any], own: NDArray[Any]) -> bool:
    begin, rows = 0, np.arange(len(outputs))
    pairs = zip(action.reshape(len(rows), -1).T, own.reshape(len(rows), -1).T, strict=True)
    for size, (taken, best) in zip(spec.actions.choices, pairs, strict=True):
        part = outputs[:, begin : begin + size]
        if not _near(part[rows, taken], part[rows, best]):
            return False
        begin += size
    return True


def _near(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    if found.shape != expected.shape:
        return False
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    return np.allclose(found, expected, rtol=CLOSE, atol=CLOSE * scale)


def _require(fine: bool, name: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    if fine:
        return
    told = f"shape {list(found.shape)} and not {list(expected.shape)}"
    if found.shape == expected.shape:
        worst = float(np.abs(found.astype(np.float64) - expected).max())
        told = f"up to {worst:.3g} away from those of the policy"
    raise RunError(
        f"export: the exported network does not do what the policy does ({name}: {told}), so it "
        "was not written. If the network is your own, compare the operations it uses with those "
        "that torch.onnx supports; otherwise this is a mistake of rillflow: please report it."
    )


def feeds(spec: PolicySpec, obs: NDArray[Any]) -> Arrays:
    """Observations as the inputs of an exported network, by name."""
    if spec.layout is None:
        return {"observation": obs}
    pieces = spec.layout.pieces(obs)
    inputs = {named(path): np.ascontiguousarray(pieces[path]) for path in spec.layout.parts}
    return inputs | ({MASK: spec.layout.mask(obs)} if spec.masked else {})


def generated(spec: PolicySpec, size: int, rng: np.random.Generator) -> NDArray[Any]:
    """Observations [size, ...] as environments give them: float32, or whole numbers."""
    if spec.layout is not None:
        return spec.layout.invented((size,), rng)
    space: Any = spec.observation_space
    shape = (size, *spec.observation_shape)
    if np.issubdtype(space.dtype, np.floating):
        return np.clip(rng.standard_normal(shape), space.low, space.high).astype(np.float32)
    low, high = int(space.low.min()), int(space.high.max())
    return rng.integers(low, high, shape, endpoint=True).astype(space.dtype)


def _at_home(obs: NDArray[Any], weights: Weights) -> NDArray[Any]:
    """Observations as a policy has met them, if it normalises them: others are all cut off."""
    if MEAN not in weights or obs.dtype == np.uint8:
        return obs
    spread = np.sqrt(weights[VARIANCE]) + 1e-3
    met: NDArray[Any] = (weights[MEAN] + spread * obs).astype(np.float32)
    return met


def _recurrent_outputs(policy: Any, obs: Any, state: Any, start: Any) -> NDArray[Any]:
    import torch

    observation, starts = torch.tensor(obs)[None], torch.tensor(start)[None]
    with torch.no_grad():
        seen = network_input(policy.spec, observation, policy.normalizer)
        outputs = policy.model(seen, torch.tensor(state), starts)[0]
    return _numpy(rule_out(outputs[0], mask_of(policy.spec, observation[0])))


def _numpy(outputs: Any) -> NDArray[Any]:
    return np.asarray(outputs.detach() if hasattr(outputs, "detach") else outputs)


def _runner(path: Path) -> tuple[Callable[[Arrays], Arrays], str]:
    """What runs the file: onnxruntime, or the reference that comes with onnx."""
    try:
        runtime = needs("onnxruntime", "onnx", "an export")
    except BuildError:
        reference = needs("onnx.reference", "onnx", "an export").ReferenceEvaluator(str(path))
        names = list(reference.output_names)
        return (lambda feeds: dict(zip(names, reference.run(None, feeds), strict=True))), "onnx"
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return (lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))), "onnxruntime"
