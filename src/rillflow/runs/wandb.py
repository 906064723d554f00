"""Weights & Biases: the settings, and every figure over environment steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError
from rillflow.runs.listeners import Listener, Row
from rillflow.runs.tensorboard import figures

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run


class WandbLogger(Listener):
    """Sends rows to Weights & Biases; account, mode and address are those of `wandb` itself.

    Args:
        project: where the run appears.
        name: of the run.
        directory: where `wandb` keeps its own files.
        config: the settings to show.
        every: seconds between two rows that are sent at least; the last is always sent.
        identity: of the run there; one that is resumed with the same goes on there as one run.
    """

    def __init__(
        self,
        project: str = "rillflow",
        name: str | None = None,
        directory: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        every: float = 1.0,
        identity: str | None = None,
    ) -> None:
        if find_spec("wandb") is None:
            raise BuildError("Weights & Biases is not installed: pip install 'rillflow[wandb]'")
        self.project, self.name, self.directory = project, name, directory
        self.config = dict(config or {})
        self.every = every
        self.identity = identity
        self._run: Any = None
        self._next = 0.0
        self._kept: Row | None = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Begin a run there."""
        import wandb

        self._run = wandb.init(
            project=self.project,
            name=self.name,
            dir=None if self.directory is None else str(self.directory),
            id=self.identity,
            resume=None if self.identity is None else "allow",
            config={**self.config, "flow": flow.explain()},
        )
        # an evaluation is one of earlier weights: its figures are drawn over their steps
        self._run.define_metric("eval_steps", hidden=True)
        self._run.define_metric("eval_*", step_metric="eval_steps")

    def on_row(self, row: Row) -> None:
        """As often as a person can look."""
        now = time.monotonic()
        self._kept = row
        if now >= self._next or "eval_return" in row:
            self._next = now + self.every
            self._send(row)

    def _send(self, row: Row) -> None:
        self._kept = None
        if self._run is not None:
            self._run.log(dict(figures(row)), step=int(row["steps"]))

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """The last row, then whether it went well."""
        if self._kept is not None:
            self._send(self._kept)
        if self._run is not None:
            self._run.finish(exit_code=1 if state == "failed" else 0)
