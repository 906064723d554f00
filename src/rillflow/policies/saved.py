"""A policy in one file: plain arrays and JSON, never pickle, so that any file can be opened safely.

The file is NumPy's `.npz`: `weights/<name>` for each parameter, and `settings`, the bytes of a JSON
object with the format's number, the policy's spec, and whatever its owner wants to remember.

Opening one imports nothing and calls nothing that the file names. How large its arrays, its JSON,
its spaces and its layers are is compared before any is made: arrays take as much memory as the file
has bytes, and all else is bounded.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rillflow.errors import BuildError
from rillflow.policies.archive import PROBLEMS, read_arrays
from rillflow.policies.fitting import check_fit
from rillflow.policies.saved_spaces import space_from_data, space_to_data
from rillflow.policies.spec import PolicySpec
from rillflow.safety.bounded import parse_json

FORMAT = 1
"""raised when an older reader could no longer understand the file"""
_WEIGHTS = "weights/"
_LAYERS = 1000
"""of a saved policy's network"""


def save_policy(
    path: str | Path,
    spec: PolicySpec,
    weights: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
) -> None:
    """Write a policy; a file of that name is replaced as a whole, or stays as it was."""
    head = {"format": FORMAT, "spec": spec_to_data(spec), "about": dict(about)}
    arrays: dict[str, Any] = {_WEIGHTS + name: value for name, value in weights.items()}
    arrays["settings"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:  # given a name, NumPy would add its own ending
            np.savez(file, **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load_policy(
    path: str | Path, model: Callable[[PolicySpec], Any] | None = None
) -> tuple[PolicySpec, dict[str, NDArray[Any]], dict[str, Any]]:
    """What `save_policy` wrote: spec, weights, and what its owner wanted to remember.

    Args:
        path: the file.
        model: the network, if it was one of your own: code is not saved.
    """
    try:
        arrays = read_arrays(path)
        head = parse_json(arrays.pop("settings").tobytes())
        if head["format"] != FORMAT:
            raise BuildError(
                f"{str(path)!r} has format {head['format']!r}, and this rillflow reads format "
                f"{FORMAT}: use the version that wrote it, or a newer one."
            )
        weights = {name.removeprefix(_WEIGHTS): array for name, array in arrays.items()}
        spec = spec_from_data(head["spec"], model)
        check_fit(spec, weights)
        return spec, weights, dict(head["about"])
    except BuildError:
        raise
    except FileNotFoundError:
        raise BuildError(f"there is no file {str(path)!r}.") from None
    except (OSError, AssertionError, *PROBLEMS) as error:
        raise BuildError(
            f"{str(path)!r} is not a policy saved by rillflow ({type(error).__name__}: {error})."
        ) from error


def about_policy(path: str | Path) -> dict[str, Any]:
    """What the owner of a saved policy wanted to remember, without the policy.

    Raises:
        OSError: it cannot be read; one of `archive.PROBLEMS`: it is not what `save_policy` writes.
    """
    about = parse_json(read_arrays(path)["settings"].tobytes())["about"]
    return dict(about)


def spec_to_data(spec: PolicySpec) -> dict[str, Any]:
    """A spec as JSON can hold it; of a network of your own, the name."""
    data = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}
    if not isinstance(spec.model, str):
        data["model"] = {"own": getattr(spec.model, "__qualname__", type(spec.model).__name__)}
    for name in ("observation_space", "action_space"):
        data[name] = space_to_data(data[name])
    return data


def spec_from_data(
    data: Mapping[str, Any], model: Callable[[PolicySpec], Any] | None = None
) -> PolicySpec:
    """The reverse of `spec_to_data`; a network of your own has to be given again."""
    fields = dict(data)
    own = fields["model"]["own"] if isinstance(fields["model"], dict) else None
    if own and model is None:
        raise BuildError(
            f"this policy has a network of your own, {own!r}, and code is not saved: "
            f"load it with model={own}."
        )
    if own:
        fields["model"] = model
    fields["hidden"] = tuple(fields["hidden"])
    if len(fields["hidden"]) > _LAYERS:
        raise BuildError(
            f"a policy of {len(fields['hidden']):,} layers; at most {_LAYERS} are read."
        )
    if "lstm_size" in fields:  # as version 0.1 called it
        fields["memory_size"] = fields.pop("lstm_size")
    for name in ("observation_space", "action_space"):
        fields[name] = space_from_data(fields[name])
    if "channels" not in data:
        fields |= _as_before_channels(fields)
    return PolicySpec(**fields)


def _as_before_channels(fields: Mapping[str, Any]) -> dict[str, Any]:
    """How a file of a version whose specs had no `channels` has to be read: as that version did.

    The shorter of the outer axes had the channels of an image, and white was 255, whatever the
    bounds were.
    """
    space: Any = fields["observation_space"]
    if space.dtype != np.uint8 or len(space.shape) != 3:
        return {}
    first = space.shape[0] <= space.shape[-1]
    whole = spaces.Box(0, 255, space.shape, np.uint8)
    return {"channels": "first" if first else "last", "observation_space": whole}
