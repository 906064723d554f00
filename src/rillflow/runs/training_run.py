"""A training run as an object: while it goes on, and when it is over."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import RillflowError, RunError
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.progress.curve_svg import CurvePicture

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.results.trained import Trained, TrainedAgents
    from rillflow.runs.best_policy import BestPolicy
    from rillflow.runs.evaluate_while_training import PolicyEvaluation
    from rillflow.runs.learned import Learned
    from rillflow.scheduler.run import Run
    from rillflow.scheduler.stats import RunStats

_LOOK = 0.1
"""seconds between two looks at a signal, while a run in another thread is waited for"""
_TRIES = 20
AROUND = "around training (figures, files, callbacks)"
"""what the driver does between two results"""


class TrainingRun:
    """What `rf.train` gives, and what a callback is given as `run`.

    It has the figures of the run, its policies as they are now, and ways to stop it and to wait for
    it. It acts, is evaluated and saved as its policy is: what it has not itself, its policy has.

    >>> import rillflow as rf
    >>> run = rf.train("ppo", "Bandit", until=500, engine="sim", num_workers=1)
    >>> run.state, run.why, run.act([0.0]).shape
    ('finished', 'the limit of steps is reached', ())
    """

    def __init__(
        self, config: Any, until: Mapping[str, float], directory: Path | None, title: str = ""
    ) -> None:
        self.config = config
        """the settings"""
        self.until = dict(until)
        """its limits"""
        self.directory = directory
        """of its files; None: it has none"""
        self.title = title
        """what is trained on what"""
        self.flow: Flow[Any] | None = None
        """the dataflow; a notebook draws it"""
        self.state = "new"
        """new, running, then finished (a limit, or a callback), stopped (by you) or failed"""
        self.why = ""
        """it ended, in words"""
        self.error: BaseException | None = None
        """why it failed"""
        self.url: str | None = None
        """of its view, while there is one"""
        self.result: Mapping[str, float] = {}
        """the newest row of figures"""
        self.evaluation: PolicyEvaluation | None = None
        """the newest, if there is one"""
        self.stopped_by = ""
        """why it is to end, if a callback has said so"""
        self._learned: Learned | None = None
        self._best: BestPolicy | None = None
        self._run: Run[Any] | None = None
        self._final: Trained | TrainedAgents | None = None
        self._stats: RunStats | None = None
        self._interrupts: Interrupts | None = None
        self._trains_in = threading.get_ident()
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self.drawn_in: int | None = None
        """the cell of a notebook that has shown it while it went on"""

    # -- its life, told by whoever drives it ----------------------------------------------------

    def begins(
        self, learned: Learned, best: BestPolicy, run: Run[Any], interrupts: Interrupts | None
    ) -> None:
        """This is what trains, in this thread."""
        self._learned, self._best, self._run = learned, best, run
        self._trains_in = threading.get_ident()
        if interrupts is not None:
            self._interrupts = interrupts
        self.state = "running"

    def last_result(self) -> None:
        """Nothing is trained any more: a last evaluation that is waited for does not count."""
        if self._run is not None:
            self._stats = _told_to_its_user(self._run.stats())

    def ends(self, trained: Any, state: str, why: str) -> None:
        """It is over: what came of it stays, what was needed to train is given back."""
        self._final = trained
        if trained.history:
            self.result = trained.history[-1]
        self._let_go()
        self.why = why or ("you stopped it" if state == "stopped" else "")
        self.state = state

    def fails(self, error: BaseException) -> None:
        """The same, with what it had learned so far."""
        with suppress(Exception):
            self._final = self.policy
            self._final.best = self.best
        with suppress(Exception):
            self._stats = self.stats()
        self._let_go()
        self.error = error
        self.why = str(error).partition("\n")[0] or type(error).__name__
        self.state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"

    def _let_go(self) -> None:
        self._learned = self._best = self._run = self._interrupts = None

    def in_thread(self, train: Callable[[], None], interrupts: Interrupts) -> None:
        """Train in a thread of its own."""
        self._interrupts = interrupts
        self._thread = threading.Thread(target=train, name="training", daemon=True)
        self._thread.start()

    # -- what there is to see -------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in ("finished", "stopped", "failed")

    @property
    def steps(self) -> int:
        """Of the environments so far."""
        return int(self.result.get("steps", 0))

    @property
    def policy(self) -> Any:
        """What it has learned: `Trained`, or `TrainedAgents` of several agents.

        While it goes on, a copy of what it has learned so far.
        """
        learned = self._learned
        if self._final is None and learned is None:
            raise RunError(f"this run has no policy: {self.why or 'it has not begun to learn'}.")
        if self._final is not None or learned is None:
            return self._final
        return _quietly(learned.policy)

    @property
    def best(self) -> Any:
        """The best policy so far, judged by evaluation if there is one; None: there is none yet."""
        best = self._best
        if best is not None:
            return best.policy()
        return None if self._final is None else self._final.best

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows so far; of a long run, some of them."""
        if self._final is not None:
            return self._final.history
        return [] if self._learned is None else self._learned.rows()

    def stats(self) -> RunStats:
        """Rates of every operator, and what limits the run; `print` it."""
        if self._stats is not None:
            return self._stats
        run = self._run
        if run is None:
            raise RunError("this run has no figures of its operators: it has not begun.")
        return _told_to_its_user(_quietly(run.stats))

    # -- its end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run after this step; `wait` for it, if it trains in a thread.

        In a callback it is the same as to return "stop": a goal that is reached. From elsewhere it
        is the same as Ctrl-C: everything is saved.
        """
        if self.over:
            return
        interrupts = self._interrupts
        if interrupts is None or threading.get_ident() == self._trains_in:
            self.stopped_by = "a callback called run.stop()"
        else:
            interrupts.wish()

    def wait(self, timeout: float | None = None) -> TrainingRun:
        """Wait until it is over, or so many seconds; what it failed with is raised here.

        Ctrl-C ends the run as `stop` does, and then it is over; a second one no longer waits.
        """
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._waiting += 1
            try:
                self._join(thread, timeout)
            finally:
                self._waiting -= 1
        if self.error is not None and not isinstance(self.error, KeyboardInterrupt):
            raise self.error
        return self

    def _join(self, thread: threading.Thread, timeout: float | None) -> None:
        ends = None if timeout is None else time.monotonic() + timeout
        with Interrupts(say_stopping) as heard:
            heard.ready = True  # the run is what there is to save
            while thread.is_alive() and (ends is None or time.monotonic() < ends):
                left = _LOOK if ends is None else max(0.0, min(_LOOK, ends - time.monotonic()))
                thread.join(left)
                if heard.wished:
                    self.stop()
                    own = self._interrupts
                    heard.saving = own is None or own.saving
        heard.pass_on()

    def told(self) -> bool:
        """Whether somebody waits for it, and hears of what it fails with."""
        return self._waiting > 0

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        with suppress(*([] if kind is None else [Exception])):
            self.wait()

    # -- as its policy --------------------------------------------------------------------------

    def act(self, obs: Any, *how: Any, **more: Any) -> Any:
        """The most likely action, as `Trained.act`; of several agents for each of them."""
        return self.policy.act(obs, *how, **more)

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> Any:
        """Returns of whole episodes, acting greedily; of several agents by policy."""
        return self.policy.evaluate(episodes, seed=seed)

    def save(self, path: str | Path) -> None:
        """Save the policy, as `Trained.save` does; of several agents into a directory."""
        self.policy.save(path)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            with suppress(RillflowError):
                return getattr(self.policy, name)
        raise AttributeError(f"a training run has no attribute {name!r}")

    # -- to look at -----------------------------------------------------------------------------

    @property
    def goal(self) -> float | None:
        """The return that ends it, if there is one."""
        return self.until.get("return", self.until.get("eval_return"))

    @property
    def curve(self) -> CurvePicture:
        """Its learning curve so far, which a notebook draws."""
        return CurvePicture(self.history, self.goal)

    def _repr_html_(self) -> str | None:
        """Figures, curve, operators and dataflow; None: it is drawn already, right above."""
        from rillflow.runs.progress.html import run_html  # for notebooks alone

        if self.drawn_in is not None and self.drawn_in == _this_cell():
            return None
        stats = None
        with suppress(RillflowError, RuntimeError):
            stats = self.stats()
        graph = None if self.flow is None else self.flow.to_svg()
        history = self.history
        seconds = history[-1].get("seconds", 0.0) if history else 0.0
        rate = self.steps / seconds if seconds else 0.0
        state = f"{self.state}: {self.why}" if self.why else self.state
        goal = self.goal
        return run_html(self.title, state, history, rate=rate, goal=goal, stats=stats, graph=graph)

    def __repr__(self) -> str:
        what = f" of {self.title}" if self.title else ""
        return f"<training run{what}: {self.state} after {self.steps:,} steps>"


def say_stopping() -> None:
    """What Ctrl-C is answered with."""
    print("stopping after this update; Ctrl-C again stops now", file=sys.stderr, flush=True)


def _told_to_its_user(stats: RunStats) -> RunStats:
    """The loop around this flow is ours; what it does is named."""
    times = [replace(line, name=AROUND) if line.kind == "loop" else line for line in stats.times]
    return replace(stats, times=times)


def _this_cell() -> int | None:
    """The number of the cell of a notebook that runs now."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "execution_count", None)


def _quietly(ask: Callable[[], Any]) -> Any:
    """Ask what another thread may be changing at this moment."""
    for _ in range(_TRIES):
        try:
            return ask()
        except RuntimeError as raced:
            if "changed size" not in str(raced) and "mutated" not in str(raced):
                raise
    return ask()
