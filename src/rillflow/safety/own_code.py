"""Which code a run names because its user named it here, on this machine: a seal in its run.json.

A directory does not tell whose it is. So whoever begins a run seals what it names, with a key that
only this user can read: the names, the settings they came with, and the files they were found in.
What was changed since, what comes from somebody else, and a module that is now found in another
file, has no seal that fits: then the user is asked, as for any file from a stranger.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rillflow.safety import bounded
from rillflow.safety.consent import named_code

_KEY_BYTES = 32
_LARGEST = 16 << 20
"""bytes of a run.json"""


def sealed(about: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to write into a new run.json, as its `consent`; None: it names no code that a file has.

    Args:
        about: the rest of run.json, whose names the user has given just now.
    """
    names = named_code(about.get("config"), about.get("algorithm"))
    files = {name: file for name in names if (file := _file_of(name)) is not None}
    key = _key(make=True) if files and len(files) == len(names) else None
    if key is None:
        return None
    return {"files": files, "seal": _seal(key, about, files)}


def consented(run: str | Path) -> set[str]:
    """The names in a run.json that this user gave, and that still are the same files.

    Where the modules are is put last on the path, if nothing else has them; nothing is imported.
    """
    about = _about(Path(run))
    consent = about.get("consent")
    if not isinstance(consent, Mapping):
        return set()
    files, seal = consent.get("files"), consent.get("seal")
    key = _key()
    if key is None or not isinstance(files, Mapping) or not isinstance(seal, str):
        return set()
    if not hmac.compare_digest(_seal(key, about, files).encode(), seal.encode()):
        return set()
    return {name for name, file in files.items() if _still_there(name, str(file))}


def run_with(path: str | Path) -> Path | None:
    """The directory of the run that a policy lies in; None: it lies in none."""
    path = Path(path)
    near = (path, path.parent, path.parent.parent)
    return next((one for one in near if (one / "run.json").is_file()), None)


def setting_of(run: str | Path, name: str) -> Any:
    """A setting in a run.json."""
    config = _about(Path(run)).get("config")
    return config.get(name) if isinstance(config, Mapping) else None


def _about(run: Path) -> dict[str, Any]:
    try:
        content = bounded.read_json(run / "run.json", _LARGEST)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _seal(key: bytes, about: Mapping[str, Any], files: Mapping[str, Any]) -> str:
    """Of everything that says what is imported and how it is called, and of whose run it is."""
    what = {name: about.get(name) for name in ("id", "algorithm", "config")}
    text = json.dumps({**what, "files": dict(files)}, sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _key(*, make: bool = False) -> bytes | None:
    """This user's key; None: there is none, it is not theirs alone, or it cannot be written."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(root) / "rillflow" / "key"
    try:
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(path, secrets.token_bytes(_KEY_BYTES))
        about = path.stat()
        private = about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o077
        key = path.read_bytes() if private else b""
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _write(path: Path, key: bytes) -> None:
    """As a whole, for this user alone; whoever was first has made the key."""
    part = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(key)
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()


def _file_of(name: str) -> str | None:
    """Where the module of a name comes from, at its top; None: from no file."""
    top = name.partition(":")[0].partition(".")[0]
    if top == "__main__":
        return None  # another program's
    try:
        spec = find_spec(top)
    except (ValueError, ImportError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    found = spec.origin if spec.has_location else next(iter(places), None)
    return None if found is None else os.path.realpath(found)


def _still_there(name: str, file: str) -> bool:
    now = _file_of(name)
    if now is None:
        of_package = Path(file).name == "__init__.py"
        root = Path(file).parents[1] if of_package else Path(file).parent
        sys.path.append(str(root))
        now = _file_of(name)
        if now != file:
            sys.path.remove(str(root))
    return now == file
