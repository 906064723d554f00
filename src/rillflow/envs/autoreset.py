"""Where each autoreset mode of Gymnasium keeps the last observation of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def autoreset_mode(vector: Any, name: str) -> str:
    """The mode a vector environment declares: "NextStep", "SameStep" or "Disabled"."""
    from gymnasium.vector import VectorEnv

    # ale-py writes its mode into the dict that all vector environments without metadata of their
    # own share; so the instance's word goes first, and the shared dict says nothing
    mode = getattr(vector, "autoreset_mode", None)
    if mode is None and vector.metadata and vector.metadata is not VectorEnv.metadata:
        mode = vector.metadata.get("autoreset_mode")
    value = getattr(mode, "value", mode)
    if value not in ("NextStep", "SameStep", "Disabled"):
        raise BuildError(
            f"environment {name!r}: a vector environment must say how it begins the next episode; "
            'set metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode, '
            f"found {mode!r}"
        )
    return str(value)


def missing_final(info: dict[str, Any]) -> str:
    """What to say when an episode ended and its last observation is nowhere."""
    return (
        'an episode ended in the SAME_STEP mode, but info has no "final_obs": '
        f"found the keys {sorted(info)}"
    )


def final_observations(space: Space[Any], info: dict[str, Any], rows: npt.NDArray[np.intp]) -> Any:
    """The raw final observations of `rows` as one batch; None if `info` does not hold them.

    Vectors of single environments keep them one by one in an array of objects, native ones in a
    batch like any other.
    """
    final = info.get("final_obs", info.get("final_observation"))
    if final is None:
        return None
    if not isinstance(final, np.ndarray) or final.dtype != object:
        return _take(final, rows)
    from gymnasium.vector.utils import concatenate, create_empty_array

    empty: Any = create_empty_array(space, n=len(rows))
    return concatenate(space, [final[i] for i in rows], empty)


def _take(batch: Any, rows: npt.NDArray[np.intp]) -> Any:
    if isinstance(batch, dict):
        return {key: _take(value, rows) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_take(value, rows) for value in batch)
    return batch[rows]
