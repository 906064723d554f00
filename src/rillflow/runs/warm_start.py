"""`init_from=`, `--init-from`: a run begins with the policy of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rillflow.errors import BuildError
from rillflow.policies.action_units import in_other_units
from rillflow.policies.fitting import network_shapes
from rillflow.policies.spec import PolicySpec
from rillflow.rl.multi_agent import MultiAgentWorkers
from rillflow.rl.workers import Workers
from rillflow.runs.load_policy import load

_MATTER = (
    "head", "model", "hidden", "activation", "memory", "memory_size", "shared", "dueling",
    "normalize_observations", "scale_observations", "image_features",
)  # fmt: skip
"""choices of a network by which a policy may differ from another"""
_SHOWN = 4


def begin_with(workers: Workers | MultiAgentWorkers, init_from: Any) -> None:
    """Let the policies of these workers begin as others are; None: as the run's seed says.

    Args:
        workers: not started.
        init_from: a run's directory, the file of a policy, a run, or a policy.

    Raises:
        BuildError: it has another network, and that is told setting by setting.
    """
    own = workers.policies if isinstance(workers, MultiAgentWorkers) else {"": workers}
    if init_from is None:
        for one in own.values():
            one.initial = None
        return
    found = _policy(init_from, next(iter(own.values())).spec)
    several = getattr(found, "policies", None)
    what = str(init_from) if isinstance(init_from, str | Path) else repr(init_from)
    for name, one in own.items():
        policy = found if several is None else several.get(name)
        if policy is None:
            raise BuildError(
                f"init_from={what!r} has the policies {', '.join(sorted(several or ()))}, and this "
                f"run trains {name or 'one of one agent'}: give the file of one of them."
            )
        _require_same(policy.spec, one.spec, what)
        one.initial = in_other_units(policy.weights, policy.spec.mean_units, one.spec.mean_units)


def told(init_from: Any) -> str | None:
    """For run.json: what a run began with."""
    if init_from is None or isinstance(init_from, str | Path):
        return None if init_from is None else str(init_from)
    directory = getattr(init_from, "directory", None)
    return str(directory or type(init_from).__name__)


def _policy(init_from: Any, spec: PolicySpec) -> Any:
    if isinstance(init_from, str | Path):
        return load(init_from, model=None if isinstance(spec.model, str) else spec.model)
    found = getattr(init_from, "policy", init_from)  # of a run, its own
    if not hasattr(found, "policies") and not hasattr(found, "weights"):
        raise BuildError(
            "init_from is a run's directory, the file of a policy, a run or a policy, found "
            f"{type(init_from).__name__}."
        )
    return found


def _require_same(theirs: PolicySpec, ours: PolicySpec, what: str) -> None:
    """Refuse a policy whose weights mean something else in this run's network."""
    wrong = [
        f"{name} is {_shown(theirs, name)} there and {_shown(ours, name)} here"
        for name in _MATTER
        if _shown(theirs, name) != _shown(ours, name)
        and (name != "memory_size" or (theirs.memory and ours.memory))
    ]
    for name in ("observation_space", "action_space"):
        space, own = getattr(theirs, name), getattr(ours, name)
        if _size(space) != _size(own):
            wrong.append(f"{name.replace('_', ' ')} is {space} there and {own} here")
    if not wrong and isinstance(ours.model, str):
        here, there = network_shapes(ours), network_shapes(theirs)
        wrong = [
            f"{name} is {there.get(name)} there and {here.get(name)} here"
            for name in sorted({*here, *there})
            if here.get(name) != there.get(name)
        ]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise BuildError(
            f"init_from={what!r} has another network than this run: {'; '.join(wrong[:_SHOWN])}"
            f"{more}. Give this run the settings of that one, or begin without init_from."
        )


def _shown(spec: PolicySpec, name: str) -> str:
    value = getattr(spec, name)
    return str(getattr(value, "__name__", value))


def _size(space: Any) -> str:
    """What weights depend on: not the bounds, which may differ in another task."""
    kind = type(space).__name__
    if kind == "Box":
        return f"Box {space.shape} {space.dtype}"
    return f"{kind} {space}"
