"""What a run names because its user did: it is trusted without being named again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rillflow.safety.own_code import consented, run_with, setting_of


class OwnCode:
    """The code in a run that this user gave it here, as a policy in its directory may use it.

    Args:
        path: a run, or a file or a directory of policies that lies in one.
    """

    def __init__(self, path: str | Path) -> None:
        self.run = run_with(path)
        names = set() if self.run is None else consented(self.run)
        self.names = names if not names or self._agrees(Path(path)) else set()

    def _agrees(self, path: Path) -> bool:
        """Whether policies say of their environment what run.json says, which is sealed."""
        from rillflow.policies.archive import PROBLEMS  # with NumPy: help needs neither
        from rillflow.policies.saved import about_policy

        try:
            found = [about_policy(file)["settings"] for file in _policies(path)]
        except (OSError, TypeError, *PROBLEMS):
            return False
        return all(
            one.get("env") in (None, self.setting("env"))
            and one.get("env_config", {}) == self.setting("env_config")
            for one in found
        )

    def setting(self, name: str) -> Any:
        """A setting of the run."""
        return None if self.run is None else setting_of(self.run, name)

    def model(self) -> str | None:
        """The name of its network, if that is code that its user gave it."""
        name = self.setting("model")
        return name if isinstance(name, str) and name in self.names else None

    def env(self) -> str | None:
        """The name of its environment, if that is code that its user gave it."""
        name = self.setting("env")
        return name if isinstance(name, str) and name in self.names else None

    def unnamed_model(self) -> str | None:
        """The name of its network, if that is code that is not known to be its user's."""
        name = self.setting("model")
        return name if isinstance(name, str) and ":" in name and name not in self.names else None


def _policies(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif (path / "agents.json").is_file():
        yield from path.glob("*.npz")
