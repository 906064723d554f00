"""What an environment promised, compared with what it returned; one message per broken promise.

The same function judges one observation against the space of one environment and a batch against
the batched space, so every level has the same rules: structure, shape and dtype at every step
(cheap: no value is looked at), values only where an index would go wrong. Finiteness is looked at
once per vector step, on the encoded batch; only a failure searches for the offending key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rillflow.envs.finite import finite
from rillflow.errors import RunError, dual_error, user_frame

if TYPE_CHECKING:
    from gymnasium.spaces import Space


class EnvError(RunError):
    """An environment raised, or returned what its spaces or the Gymnasium contract forbid."""


class EnvFailed(EnvError):  # noqa: N818 - what it is
    """An environment raised: unlike a broken promise, that may pass."""


def where(name: str, index: int | None = None, step: int | None = None) -> str:
    """The beginning of every message: which environment, which copy of it, when."""
    copy = "" if index is None else f" (index {index})"
    time = "" if step is None else (" at its first reset" if step == 0 else f" at step {step}")
    return f"environment {name!r}{copy}{time}"


def raised(
    error: Exception, doing: str, name: str, index: int | None = None, step: int | None = None
) -> EnvFailed:
    """The error for user code that raised: its type, its words and its own line.

    It is an instance of that type too, so that whoever expects it can still catch it.
    """
    text = f"{where(name, index, step)} raised {type(error).__name__} in {doing}: {error}"
    frame = user_frame(error)
    return dual_error(EnvFailed, f"{text}\n  your code: {frame}" if frame else text, error)


def method_of(env: Any, name: str) -> str:
    """Where a method of an environment is written, as a line of a message; empty if nobody knows.

    What came back is wrong, so there is no traceback that would lead there.
    """
    method = getattr(type(getattr(env, "unwrapped", env)), name, None)
    code = getattr(method, "__code__", None)
    if code is None:
        return ""
    return f"\n  your code: {code.co_filename}:{code.co_firstlineno} in {code.co_qualname}"


def mismatch(space: Space[Any], value: Any, key: str = "observation") -> str | None:
    """What is wrong with `value` as an element (or batch) of `space`, or None."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return _array_mismatch(space.shape, space.dtype, value, key)
    if isinstance(space, spaces.Discrete):
        return _index_mismatch(space, value, key)
    if isinstance(space, spaces.MultiDiscrete):
        return _indices_mismatch(space, value, key)
    if isinstance(space, spaces.MultiBinary):
        return _binary_mismatch(space, value, key)
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict):
            return f"{key}: expected a dict with the keys {list(space)}, found {found(value)}"
        if value.keys() != space.keys():
            return f"{key}: expected the keys {sorted(space)}, found {sorted(map(str, value))}"
        parts = [(part, value[k], f"{key}[{k!r}]") for k, part in space.items()]
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space):
            return f"{key}: expected a tuple of {len(space)} elements, found {found(value)}"
        parts = [(part, value[i], f"{key}[{i}]") for i, part in enumerate(space)]
    else:
        return None  # refused when the environment was made
    return next((text for part in parts if (text := mismatch(*part))), None)


def _array_mismatch(shape: tuple[int, ...], dtype: Any, value: Any, key: str) -> str | None:
    # numpy scalars are arrays of no dimension; lists are not: they hide their dtype
    if not isinstance(value, np.ndarray | np.generic):
        return f"{key}: expected a numpy array of shape {shape} and {dtype}, found {found(value)}"
    if value.shape != shape:
        return f"{key}: expected shape {shape} as its space says, found shape {value.shape}"
    if value.dtype != dtype and not np.can_cast(value.dtype, dtype):
        return (
            f"{key}: expected dtype {dtype} as its space says, found {value.dtype}; "
            f"return x.astype(np.{dtype}), or declare the space with dtype=np.{value.dtype}"
        )
    return None


def _index_mismatch(space: Any, value: Any, key: str) -> str | None:
    low, high = int(space.start), int(space.start + space.n)
    # a bool is an int to Python, but an environment that returns one confused two things
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    scalar = isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iu"
    if not (whole or scalar):
        return f"{key}: expected an integer of {space}, found {found(value)}"
    if not low <= value < high:
        return f"{key}: expected an integer from {low} to {high - 1}, found {value}"
    return None


def _indices_mismatch(space: Any, value: Any, key: str) -> str | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        return f"{key}: expected an integer array of shape {space.shape}, found {found(value)}"
    if value.shape != space.shape:
        return f"{key}: expected shape {space.shape} as its space says, found shape {value.shape}"
    if (value < space.start).any() or (value >= space.start + space.nvec).any():
        return f"{key}: expected integers of {space}, found {value.tolist()}"
    return None


def _binary_mismatch(space: Any, value: Any, key: str) -> str | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iub":
        return f"{key}: expected an array of 0 and 1 of shape {space.shape}, found {found(value)}"
    if value.shape != space.shape:
        return f"{key}: expected shape {space.shape} as its space says, found shape {value.shape}"
    if ((value != 0) & (value != 1)).any():
        return f"{key}: expected only 0 and 1, found {value.tolist()}"
    return None


def found(value: Any) -> str:
    """A value in a few words: its type, and its shape or the value itself where short."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and {value.dtype}"
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)} elements"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def result_mismatch(result: Any, expected: tuple[str, ...], call: str) -> str | None:
    """What is wrong with the tuple that `reset` or `step` returned, or None."""
    if not isinstance(result, tuple):
        return f"{call}() must return ({', '.join(expected)}), found {found(result)}"
    if len(result) != len(expected):
        names = f"({', '.join(expected)})"
        hint = ""
        if call == "step" and len(result) == 4:
            hint = " (the old Gym API: split `done` into terminated and truncated)"
        return f"{call}() must return {len(expected)} values {names}, found {len(result)}{hint}"
    if not isinstance(result[-1], dict):
        return f"{call}() must return info as a dict, found {found(result[-1])}"
    return None


def number_mismatch(value: Any, key: str) -> str | None:
    """What is wrong with one reward, or None; Python and numpy numbers are both fine."""
    if type(value) is float or isinstance(value, int | float | np.integer | np.floating):
        return None
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "fiub":
        return None
    if isinstance(value, np.bool_):
        return None
    return f"{key}: expected a number, found {found(value)}"


def rewards_of(raw: Any, num_envs: int, name: str, step: int) -> npt.NDArray[np.float32]:
    """A batch of rewards as an array of the caller's, checked."""
    rewards = np.asarray(raw)
    if rewards.shape != (num_envs,) or rewards.dtype.kind not in "fiub":
        expected = f"numbers of shape ({num_envs},)"
        problem = f"rewards: expected {expected}, found {found(raw)}"
        raise EnvError(f"{where(name, step=step)}: {problem}")
    out = rewards.astype(np.float32)
    if not finite(out):
        raise not_finite(name, step, rewards, out, "reward")
    return out


def flag_mismatch(value: Any, key: str) -> str | None:
    """What is wrong with one `terminated` or `truncated`, or None."""
    if value is True or value is False or isinstance(value, np.bool_):
        return None
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype == bool:
        return None
    return f"{key}: expected a bool, found {found(value)}"


def flags_mismatch(value: Any, key: str, num_envs: int) -> str | None:
    """What is wrong with a batch of `terminated` or `truncated`, or None."""
    if isinstance(value, np.ndarray) and value.shape == (num_envs,) and value.dtype == bool:
        return None
    return f"{key}: expected a bool array of shape ({num_envs},), found {found(value)}"


def actions_mismatch(space: Space[Any], actions: Any, num_envs: int) -> str | None:
    """What is wrong with the actions a policy gave, or None."""
    expected = (num_envs, *(space.shape or ()))
    floats = space.dtype is not None and space.dtype.kind == "f"
    if actions.shape != expected or actions.dtype.kind not in ("f" if floats else "iu"):
        kind = "floats" if floats else "integers"
        return f"actions: expected {kind} of shape {expected} for {space}, found {found(actions)}"
    if floats and not np.isfinite(actions).all():
        return "actions: expected finite numbers from the policy, found NaN or infinity"
    return None


def not_finite(
    name: str, step: int, raw: Any, encoded: Any, key: str = "observation", rows: Any = None
) -> EnvError:
    """The error for a batch that holds a NaN or an infinity; `rows` if it is only some of them."""
    hit = first_not_finite(raw, key) or first_not_finite(encoded, key)
    assert hit is not None, "only called when a value is not finite"
    key, row, value = hit
    index = row if rows is None else int(rows[row])
    return EnvError(f"{where(name, index, step)}: {key}: expected a finite number, found {value}")


def first_not_finite(value: Any, key: str = "observation") -> tuple[str, int, float] | None:
    """Key, row and value of the first NaN or infinity in a batch; None if there is none."""
    if isinstance(value, dict):
        parts = [(part, f"{key}[{k!r}]") for k, part in value.items()]
    elif isinstance(value, tuple | list):
        parts = [(part, f"{key}[{i}]") for i, part in enumerate(value)]
    else:
        array = np.asarray(value)
        if array.dtype.kind != "f" or np.isfinite(array).all():
            return None
        place = np.argwhere(~np.isfinite(array))[0]
        inner = "".join(f"[{i}]" for i in place[1:])
        return f"{key}{inner}", int(place[0]), float(array[tuple(place)])
    return next((hit for part in parts if (hit := first_not_finite(*part))), None)
