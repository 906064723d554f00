"""A search for settings: which are tried next, what came of each, and which was best.

Each trial is a run of its own, in a process and a directory of its own; the first has the settings
as they are. Optuna proposes the others, and says which may be given up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rillflow.cli.flags.search_space import suggest, usual_values
from rillflow.cli.request import Request, flags_of
from rillflow.cli.side_by_side import Member

_TRIES = 20
"""proposals in a row that are refused before a search ends"""


class Search:
    """Asks for settings, hears of trials, and keeps account.

    Args:
        study: of Optuna.
        request: what the user has said: the settings that stay as they are.
        names: of the settings that are varied.
        arguments: of the command line, for each run.
        directory: in which each trial has its own.
        told: hears of each trial that has ended: its member, its trial, how it ended.
    """

    def __init__(
        self,
        study: Any,
        request: Request,
        names: Sequence[str],
        arguments: Sequence[str],
        directory: Path,
        told: Callable[[Member, Any, str], None],
    ) -> None:
        self.study, self.request, self.names = study, request, names
        self.arguments, self.directory, self._told = list(arguments), directory, told
        self.stopping: Callable[[], bool] = lambda: False
        self._trials: dict[str, tuple[Any, Watch]] = {}

    def enqueue_defaults(self) -> None:
        """The settings as they are, first, if the study has no trial yet."""
        if not self.study.trials:
            config = self.request.config
            usual = {name: usual_values(name, getattr(config, name)) for name in self.names}
            self.study.enqueue_trial(usual, user_attrs={"defaults": True})

    def members(self, count: int) -> Iterator[Member]:
        """So many trials, each proposed when there is room for it."""
        refused = begun = 0
        while begun < count and refused < _TRIES:
            trial = self.study.ask()
            values = {n: self._rounded(n, self._suggested(trial, n)) for n in self.names}
            member = Member(f"trial {trial.number}", self._flags(trial, values))
            self._trials[member.name] = trial, Watch(self.request.options.steps, trial)
            trial.set_user_attr("settings", {n: str(value) for n, value in values.items()})
            try:
                dataclasses.replace(self.request.config, **values).validate()
            except (ValueError, ArithmeticError, RuntimeError) as error:
                refused += 1
                member.state = "failed"
                member.said.append(str(error))
                self._end(member, "not possible")
                continue
            refused, begun = 0, begun + 1
            yield member

    def _suggested(self, trial: Any, name: str) -> Any:
        return suggest(trial, name, getattr(self.request.config, name))

    def _rounded(self, name: str, value: Any) -> Any:
        """Four digits: more of them mean nothing, and fill the command line."""
        if value == getattr(self.request.config, name) or not isinstance(value, float):
            return value
        return float(f"{value:.4g}")

    def _flags(self, trial: Any, values: Mapping[str, Any]) -> list[str]:
        options = self.request.options
        return [
            *self.arguments,
            *flags_of(self.request, dict(values)),
            *("--until", f"steps={options.steps}", "--seed", str(options.seed)),
            *("--run-dir", str(self.directory), "--name", f"trial-{trial.number}"),
        ]

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """What a trial's run says."""
        trial, watch = self._trials[member.name]
        if event["event"] == "start":
            trial.set_user_attr("run", member.run)
        elif event["event"] in ("row", "end"):
            row = event if event["event"] == "row" else event.get("row") or {}
            if watch(row) and not self.stopping():
                member.stop()
        elif event["event"] == "ended":
            self._end(member, self._how(member, watch))

    def _how(self, member: Member, watch: Watch) -> str:
        if watch.pruned:
            return "pruned"
        if member.state == "finished":
            return "complete" if math.isfinite(watch.last) else "too few episodes"
        return "aborted" if self.stopping() or member.code in (130, 143, -15) else "failed"

    def _end(self, member: Member, how: str) -> None:
        from optuna.trial import TrialState

        trial, watch = self._trials[member.name]
        trial.set_user_attr("how", how)
        if how == "complete":
            self.study.tell(trial, watch.last)
        else:
            state = TrialState.PRUNED if how == "pruned" else TrialState.FAIL
            self.study.tell(trial, state=state)
        self._told(member, trial, how)

    # -- what came of it ------------------------------------------------------------------------

    @property
    def counted(self) -> list[Any]:
        """Trials that came to a return, or were given up because others did better."""
        return [t for t in self.study.trials if t.state.name in ("COMPLETE", "PRUNED")]

    @property
    def best(self) -> Any:
        """The best trial; None if none came to a return."""
        complete = [t for t in self.study.trials if t.state.name == "COMPLETE"]
        return max(complete, key=lambda trial: trial.value, default=None)

    def settings_of(self, trial: Any) -> dict[str, Any]:
        """What a trial chose, as settings."""
        from optuna.trial import FixedTrial

        fixed = FixedTrial(trial.params)
        return {
            name: self._rounded(name, self._suggested(fixed, name))
            for name in self.names
            if name in trial.params
        }

    def importances(self) -> dict[str, float]:
        """How much of the differences between trials each setting explains; none of too few."""
        complete = [t for t in self.study.trials if t.state.name == "COMPLETE"]
        if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
            return {}
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        try:
            evaluator = PedAnovaImportanceEvaluator()
            found: dict[str, float] = get_param_importances(self.study, evaluator=evaluator)
        except (ValueError, RuntimeError):  # trials of too many kinds, from an older search
            return {}
        return found


class Watch:
    """Reports a trial's return a few times, and says when to give it up."""

    def __init__(self, steps: float, trial: Any) -> None:
        self.every = steps / 10
        self.pruned = False
        self.last = -math.inf
        """the newest return; there is none before 100 episodes"""
        self._trial, self._reported = trial, 0

    def __call__(self, row: Mapping[str, Any]) -> bool:
        """One row of the trial; True, once, gives it up."""
        from rillflow.rl.metrics import WINDOW

        value = row.get("return")
        if isinstance(value, int | float) and math.isfinite(value) and row["episodes"] >= WINDOW:
            self.last = float(value)
        tenth = int(row.get("steps", 0) / self.every)
        if self.pruned or tenth <= self._reported or not math.isfinite(self.last):
            return False
        self._reported = tenth
        self._trial.report(self.last, tenth)
        self.pruned = tenth < 10 and bool(self._trial.should_prune())
        return self.pruned
