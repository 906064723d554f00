"""From a spec to a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rillflow.errors import BuildError
from rillflow.policies.cnn import Cnn
from rillflow.policies.combined import Combined
from rillflow.policies.initial import weights_at_first
from rillflow.policies.mlp import Mlp
from rillflow.policies.recurrent import Recurrent
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_normalizer import normalize_before

MODELS: dict[str, type[nn.Module]] = {"mlp": Mlp, "cnn": Cnn}
"""built-in networks without memory"""


def built_in(spec: PolicySpec) -> nn.Module:
    """The built-in network of a spec, with weights as torch gives them."""
    assert isinstance(spec.model, str), "a network of the user's own is made by its own function"
    if spec.memory is not None:
        return Recurrent(spec)
    return Combined(spec) if spec.model == "cnn" and spec.packed else MODELS[spec.model](spec)


def make_model(spec: PolicySpec, seed: int = 0) -> nn.Module:
    """The network of a spec; the same seed gives the same weights.

    torch's global random state is left as it was. Your own module keeps the weights it gives
    itself, drawn after `torch.manual_seed(seed)`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach for the GPUs
        if not isinstance(spec.model, str):
            own = _own_model(spec)
            if spec.normalize_observations:
                # of several parts it is given what was normalised before it was split
                normalize_before(own, spec, called=spec.layout is None)
            return own
        model = built_in(spec)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    weights = weights_at_first(spec, shapes, seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    if spec.normalize_observations:
        normalize_before(model, spec)
    return model


def _own_model(spec: PolicySpec) -> nn.Module:
    assert not isinstance(spec.model, str)
    model = spec.model(spec)
    if not isinstance(model, nn.Module):
        name = getattr(spec.model, "__name__", repr(spec.model))
        raise BuildError(
            f"model={name} must return a torch.nn.Module when it is called with the spec, "
            f"found {type(model).__name__}"
        )
    if spec.has_log_std:
        _ensure_log_std(model, spec.actions.numbers)
    return model


def _ensure_log_std(model: nn.Module, width: int) -> None:
    if not hasattr(model, "log_std"):
        model.register_parameter("log_std", nn.Parameter(torch.zeros(width)))
    found = model.log_std
    if not isinstance(found, Tensor) or tuple(found.shape) != (width,):
        shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise BuildError(
            f"log_std of {type(model).__name__} must be a parameter or buffer of shape [{width}], "
            f"one number for each continuous part of an action; found {shape}"
        )
