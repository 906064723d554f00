"""Where a dataset is: a directory, or the id of one that Minari has on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rillflow.errors import BuildError

MAIN, METADATA = "main_data.hdf5", "metadata.json"
"""the two files of a dataset, in its folder `data`"""


def folder_of(data: str | os.PathLike[str]) -> Path:
    """The folder with the files of a dataset.

    Args:
        data: the dataset's directory, its folder `data`, or an id under `MINARI_DATASETS_PATH`
            (by default ~/.minari/datasets).
    """
    name = os.fspath(data)
    for place in (Path(name), minari_root() / name):
        for folder in (place / "data", place):
            if (folder / METADATA).is_file() or (folder / MAIN).is_file():
                return folder
    if Path(name).exists():
        raise wrong(name, f"it has no data/{METADATA}: Minari's datasets have that and {MAIN}")
    raise wrong(
        name,
        "there is no such directory, and no dataset with this id in "
        f"{minari_root()}; `rillflow record-data RUN -o DIR` makes one, `minari download ID` "
        "fetches one",
    )


def minari_root() -> Path:
    """Where Minari keeps the datasets of this machine."""
    given = os.environ.get("MINARI_DATASETS_PATH")
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def wrong(data: object, problem: str) -> BuildError:
    """The error for a dataset that cannot be learned from."""
    return BuildError(f"dataset {str(data)!r}: {problem}.")


def h5py_of(what: str) -> Any:
    """The library that reads and writes HDF5, or one line that says how to get it."""
    try:
        import h5py
    except ImportError:
        raise BuildError(f"{what} needs h5py: pip install 'rillflow[offline]'") from None
    return h5py
