"""What follows each result of training: evaluation, the best policy, the user's callbacks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.learning.results import DEFAULT_POLICY
from rillflow.rl.metrics import Progress
from rillflow.runs.best_policy import EPISODES, BestPolicy, Score
from rillflow.runs.callbacks import Callbacks
from rillflow.runs.evaluate_while_training import Evaluations, GivenUp, PolicyEvaluation
from rillflow.runs.evaluator import Evaluator
from rillflow.runs.film_while_training import Films, films_of
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.learned import Learned
from rillflow.runs.limits import reached
from rillflow.runs.process_beside_training import players_for
from rillflow.runs.status import add_facts
from rillflow.runs.training_run import TrainingRun

if TYPE_CHECKING:
    from rillflow.runs.checkpointer import Checkpointer
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.job import Job
    from rillflow.runs.loop import Ending
    from rillflow.scheduler.run import Run

Row = dict[str, float]


class FollowUp:
    """Follows one run.

    Args:
        run: what callbacks are given.
        progress: what the run has counted.
        best: keeps the best policy.
        learned: what the run knows now.
        callbacks: of the user.
        evaluations: of the run; None: there are none.
        directory: of the run, for its summary.
        films: of the run; None: there are none.
    """

    def __init__(
        self,
        run: TrainingRun,
        progress: Progress,
        best: BestPolicy,
        learned: Learned,
        callbacks: Callbacks,
        evaluations: Evaluations | None,
        directory: RunDirectory | None,
        films: Films | None = None,
    ) -> None:
        self.films = films
        self.run, self.best, self.callbacks, self.evaluations = run, best, callbacks, evaluations
        self._progress, self._weights, self._directory = progress, learned.weights, directory
        self._episodes: list[dict[str, Any]] = []
        self._evaluated: list[PolicyEvaluation] = []

    def listen(self, run: Run[Any]) -> None:
        """Hear of episodes, if a callback is to hear of them."""
        if self.callbacks.wants("on_episode"):
            run.on_metrics(self.record)

    def record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        """What came with one answer of a worker, for `on_episode`."""
        by_policy = metrics.get("policies") or {DEFAULT_POLICY: metrics.get("episodes", ())}
        infos = metrics.get("infos") or {}
        for policy, episodes in by_policy.items():
            own = infos.get(policy, ()) if isinstance(infos, Mapping) else infos
            for index, (total, length) in enumerate(episodes):
                info = own[index] if index < len(own) else {}
                about = {"policy": policy, "worker": actor, "info": info}
                self._episodes.append({"return": float(total), "length": int(length), **about})

    def completed(self, row: Row) -> Row:
        """A row of figures, with those of an evaluation if one has ended; begin what is due."""
        if self.evaluations is not None:
            found = self.evaluations.after_step(int(row["steps"]))
            if found is not None:
                row = {**row, **self._judged(found)}
        if self.films is not None:
            self.films.after_step(int(row["steps"]))
        if len(self._progress.returns) >= EPISODES:
            score = Score("training", row["return"], int(row["steps"]))
            self.best.consider(score, self._weights)
        return row

    def _judged(self, evaluation: PolicyEvaluation) -> Row:
        assert self.evaluations is not None, "it is one of them"
        finished = self.evaluations.take_finished()
        assert finished is not None, "it has just ended"
        _, weights = finished
        score = Score("evaluation", evaluation.mean, evaluation.steps)
        best = self.best.consider(score, lambda: weights)
        self._evaluated.append(evaluation.marked(best))
        return evaluation.figures()

    def tell(self, row: Mapping[str, float]) -> str | None:
        """Let callbacks hear of a row, and of what came with it; why the run is to end, if it is.

        All hear of it, also when one of them says that the run is to end.
        """
        self.run.result = row
        episodes, self._episodes = self._episodes, []
        evaluated, self._evaluated = self._evaluated, []
        for evaluation in evaluated:
            self.run.evaluation = evaluation
        told: list[tuple[str, Any]] = [("on_episode", episode) for episode in episodes]
        told += [("on_evaluation", evaluation) for evaluation in evaluated]
        said = [self.callbacks.tell(event, self.run, what) for event, what in told]
        said.append(self.callbacks.tell("on_result", self.run, row))
        return next(filter(None, said), None) or self.run.stopped_by or None

    def saved(self, path: Path | None) -> str | None:
        """Let callbacks hear of a checkpoint; None: there is no new one."""
        if path is None:
            return None
        return self.callbacks.tell("on_checkpoint", self.run, path) or self.run.stopped_by or None

    def last_rows(self, ending: Ending, interrupts: Interrupts | None) -> list[Row]:
        """The last row again, for each evaluation of the end of the run, with its figures.

        Nobody is waited for if the user hurries, or an evaluation has ended the run.
        """
        row = ending.row

        def wanted() -> bool:
            return interrupts is None or not interrupts.wished

        if row is None or ending.state != "finished" or ending.hurry:
            return []
        if self.films is not None:
            self.films.finish(int(row["steps"]), wanted)
        if self.evaluations is None or "eval_return" in reached(self.run.until, row):
            return []
        plain = {name: value for name, value in row.items() if "eval_" not in name}
        rows = []
        for found in self.evaluations.finish(int(row["steps"]), wanted):
            rows.append(
                {**plain, "seconds": self._progress.row()["seconds"], **self._judged(found)}
            )
            for evaluation in self._evaluated:
                self.run.evaluation = evaluation
                self.callbacks.tell("on_evaluation", self.run, evaluation)
            self._evaluated = []
        return rows

    def facts(self) -> dict[str, Any]:
        """For status.json."""
        evaluations = None if self.evaluations is None else self.evaluations.facts()
        return {
            "evaluation": evaluations,
            "best": self.best.facts(),
            "callbacks": self.callbacks.facts(),
            **({} if self.films is None else {"films": self.films.facts()}),
        }

    def close(self, row: Row | None) -> None:
        """End whoever plays, write what is not written, and sum up the run with its last row."""
        if self.evaluations is not None:
            self.evaluations.close()
        if self.films is not None:
            self.films.close()
        self.best.save(quiet=sys.exc_info()[0] is not None)
        if self._directory is None or row is None:
            return
        names = ("steps", "episodes", "seconds", "return")
        evaluations = {} if self.evaluations is None else self.evaluations.facts()
        self._directory.write_summary(
            {
                **{name: row.get(name) for name in names},
                "evaluation": evaluations.get("last"),
                "evaluations_failed": evaluations.get("failed", 0),
                "best": self.best.facts(),
            }
        )


def followed(
    job: Job,
    learned: Learned,
    run: Run[Any],
    progress: Progress,
    checkpointer: Checkpointer | None,
    interrupts: Interrupts | None,
    callbacks: Callbacks | None,
    seen: TrainingRun | None = None,
    record_every: int | None = None,
) -> FollowUp:
    """Whoever follows the results of a job's run; nothing is started."""
    directory = None if checkpointer is None else checkpointer.directory
    best = BestPolicy(learned, None if directory is None else directory.best_policy)
    best.go_on()
    evaluations = None
    if job.config.eval_every is not None:

        def watch() -> None:
            if interrupts is not None and interrupts.wished:
                raise GivenUp

        evaluator = Evaluator(learned.task(job.config.eval_episodes))
        limit = job.config.eval_timeout
        players = players_for(evaluator, job.engine_name, "evaluator", limit, watch)
        evaluations = Evaluations(job.config, players, learned.weights, progress.steps)
    films = None
    if record_every is not None and directory is not None:
        films = films_of(
            record_every, *learned.shape(), job.engine_name, directory.path,
            weights=learned.weights, steps=progress.steps,
        )  # fmt: skip
    if seen is None:
        seen = TrainingRun(job.config, job.until, None if directory is None else directory.path)
    seen.begins(learned, best, run, interrupts)
    found = callbacks or Callbacks()
    follow = FollowUp(seen, progress, best, learned, found, evaluations, directory, films)
    add_facts(run, follow.facts)
    return follow
