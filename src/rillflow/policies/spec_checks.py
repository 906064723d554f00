"""What is wrong with the names and sizes in a `PolicySpec`, each with the way out."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from gymnasium import spaces

from rillflow.errors import BuildError
from rillflow.images import CHANNELS, image_in
from rillflow.policies.memory_choice import check_memory

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec


def below_memory(spec: PolicySpec) -> Literal["mlp", "cnn"]:
    """What the older spelling of a memory has below it."""
    if spec.layout is not None:
        return "cnn" if spec.packed else "mlp"
    space: Any = spec.observation_space
    seen = isinstance(space, spaces.Box) and image_in(space, spec.channels) is not None
    return "cnn" if seen else "mlp"


def check_choices(spec: PolicySpec) -> None:
    """Refuse names that there are not."""
    choices = {
        "activation": ("tanh", "relu"),
        "model": ("mlp", "cnn", "lstm"),
        "head": ("actor_critic", "categorical", "q", "squashed_gaussian", "deterministic"),
        "channels": CHANNELS,
        "normalize_observations": (False, True, "loosely"),
    }
    for name, valid in choices.items():
        found = getattr(spec, name)
        if found in valid or (name == "model" and callable(found)):
            continue
        near = get_close_matches(str(found), [str(one) for one in valid], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if name == "model" and not isinstance(found, str):
            hint = ", or a function that takes the spec and returns a torch.nn.Module"
        raise BuildError(f"{name} must be one of {', '.join(map(str, valid))}, got {found!r}{hint}")
    check_memory(spec)


def check_sizes(spec: PolicySpec) -> None:
    """Refuse widths that are none."""
    if not isinstance(spec.hidden, tuple) or not all(_positive(width) for width in spec.hidden):
        raise BuildError(
            f"hidden must be a tuple of positive whole numbers, such as (64, 64); "
            f"got {spec.hidden!r}"
        )
    for name in ("image_features", "memory_size"):
        found = getattr(spec, name)
        if not _positive(found) and not (name == "image_features" and found is None):
            raise BuildError(f"{name} must be a positive number, got {found!r}")


def _positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0
