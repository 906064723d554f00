"""From fragments of experience to transitions over n steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rillflow.errors import BuildError
from rillflow.experience.columns import Array, at_least
from rillflow.experience.fragment import ENDS, as_fragment, flags

_NEEDED = ("rewards", *ENDS)


def n_step_transitions(
    columns: Mapping[str, Array], n: int, gamma: float, first: int | None = None
) -> dict[str, Array]:
    """One flat row for each step of a time-major fragment [T, B, ...], looking n steps ahead.

    `next_obs` must be the true next observation of each step, also where an episode ends. The row
    of step t covers the k steps t, ..., t+k-1, where k is n, or less where the episode or the
    fragment ends before. It has

    - `rewards`: r_t + gamma r_t+1 + ... + gamma^(k-1) r_t+k-1
    - `discount`: gamma^k, or 0 if the k-th step terminated, so that a target is always
      `rewards + discount * value(next_obs)`; a truncated episode goes on in that value
    - columns that begin with `next_`: from the k-th step
    - all other columns: from step t, without a copy where none is needed; `terminated` and
      `truncated` are gone into `discount`

    Only the `first` steps get a row, if a number is given: the others are there to be looked at.

    >>> no = np.zeros((3, 1), bool)
    >>> steps = {"obs": np.array([[0], [1], [2]]), "next_obs": np.array([[1], [2], [3]])}
    >>> steps |= {"rewards": np.ones((3, 1)), "terminated": no, "truncated": no}
    >>> rows = n_step_transitions(steps, 2, 0.5)
    >>> rows["rewards"], rows["discount"], rows["next_obs"]
    (array([1.5, 1.5, 1. ]), array([0.25, 0.25, 0.5 ], dtype=float32), array([2, 3, 3]))
    """
    n = at_least("n", n, 1)
    if not 0 <= gamma <= 1:
        raise BuildError(f"gamma must be between 0 and 1, got {gamma!r}")
    arrays, steps, lanes = as_fragment(columns, *_NEEDED)
    made = steps if first is None else min(first, steps)
    rewards = arrays["rewards"].astype(np.float64)
    summed, last = _windows(rewards, flags(arrays, *ENDS), n, gamma, made)
    lane = np.arange(lanes)
    powers = gamma ** (last - np.arange(made)[:, None] + 1.0)
    flat: dict[str, Array] = {}
    for name, array in arrays.items():
        if name.startswith("next_"):
            flat[name] = array[last, lane].reshape(made * lanes, *array.shape[2:])
        elif name not in _NEEDED:
            flat[name] = array[:made].reshape(made * lanes, *array.shape[2:])
    dtype = arrays["rewards"].dtype
    flat["rewards"] = summed.astype(dtype if dtype.kind == "f" else np.float32).ravel()
    powers[flags(arrays, "terminated")[last, lane]] = 0
    flat["discount"] = powers.astype(np.float32).ravel()
    return flat


def n_step_windows(columns: Mapping[str, Array], n: int, gamma: float) -> dict[str, Array]:
    """What each step of a time-major fragment [T, B] sees n steps ahead, in place, [T, B].

    As `n_step_transitions`, for models with memory: `rewards` and `discount` as there, and `last`,
    the row of the k-th step, whose next observation the value is of. Rows that are not `valid` end
    a window.
    """
    arrays, steps, _ = as_fragment(columns, *_NEEDED)
    ended = flags(arrays, *ENDS)
    if "valid" in arrays:
        ended |= ~flags(arrays, "valid")
    summed, last = _windows(arrays["rewards"].astype(np.float64), ended, n, gamma, steps)
    powers = gamma ** (last - np.arange(steps)[:, None] + 1.0)
    powers[np.take_along_axis(flags(arrays, "terminated"), last, 0)] = 0
    return {
        "rewards": summed.astype(np.float32),
        "discount": powers.astype(np.float32),
        "last": last,
    }


def _windows(rewards: Array, ended: Array, n: int, gamma: float, made: int) -> tuple[Array, Array]:
    """For each of the first `made` steps the discounted rewards and the last step of its window."""
    steps, shape = len(rewards), (made, *rewards.shape[1:])
    summed, going = np.zeros(shape), np.ones(shape, np.bool_)
    last = np.empty(shape, np.int64)
    # The loop is over the n offsets and not over time: at offset i all windows that are still open
    # take in the step i after their first one, all environments and all times in one operation.
    # Slices keep a window from reaching beyond the fragment, `still` keeps it in its episode.
    for i in range(min(n, steps)):
        count = min(made, steps - i)
        still, sums = going[:count], summed[:count]
        np.add(sums, gamma**i * rewards[i : i + count], out=sums, where=still)
        np.copyto(last[:count], np.arange(i, i + count)[:, None], where=still)
        still &= ~ended[i : i + count]
    return summed, last
