"""`rf.load`: a policy from its file, or the newest or best one from the directory of a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError
from rillflow.results.trained import TrainedAgents
from rillflow.results.trained import load as load_file
from rillflow.runs.code_by_name import pointed_at
from rillflow.runs.own_names import OwnCode
from rillflow.safety.consent import named_code, refusal, untrusted

if TYPE_CHECKING:
    from rillflow.results.trained import Trained


def load(
    path: str | Path,
    *,
    env: Any = None,
    model: Any = None,
    best: bool = False,
    trust: Collection[str] = (),
) -> Any:
    """A policy that was saved: `Trained`, or `TrainedAgents` of several agents.

    To load a file imports and calls nothing that it names, so a policy from anybody can act. To be
    evaluated it needs its environment: one that Gymnasium knows is made, code of the form
    `module:name` only if you name it too, by `env` or `trust`.

    Args:
        path: a file, the directory of several agents' policies, or that of a run, also of one that
            goes on: then its newest policy.
        env: to evaluate in; by default the one it was trained in, if that had a name.
        model: the network, if it was one of your own.
        best: the best policy of a run, instead of its newest.
        trust: names of code in the file that may be imported, such as "my_envs:Maze".
    """
    path = Path(path)
    if not path.exists():
        raise BuildError(
            f"there is no file and no run {str(path)!r}; `rillflow list runs` shows the runs."
        )
    how: dict[str, Any] = {"env": env, "model": model, "trust": trust}
    if not path.is_dir():
        if best:
            raise BuildError(f"best=True is about a run's directory, and {str(path)!r} is a file.")
        return load_file(path, **_with_own(path, how))
    if (path / "agents.json").is_file():
        return TrainedAgents.load(path, **_with_own(path, how))
    return _of_run(path, best, how)


def _with_own(path: Path, how: dict[str, Any]) -> dict[str, Any]:
    """What is given, and what the user gave when the run began."""
    own = OwnCode(path)
    if not own.names:
        return how
    model = how["model"]
    name = own.model()
    if model is None and name is not None:
        model = pointed_at(name)
    trust = [*how["trust"], *own.names]
    return {"env": how["env"] or own.env(), "model": model, "trust": trust}


def saved_policy(run: Path, *, best: bool = False) -> Path | None:
    """Where a run has its last or its best policy; None: it has none."""
    names = ("best_policy.npz", "best_policies") if best else ("policy.npz", "policies")
    return next((run / name for name in names if (run / name).exists()), None)


def steps_of(found: Trained | TrainedAgents) -> float:
    """Environment steps that a policy has learned from; 0 if its file does not say."""
    steps = found.history[-1].get("steps") if found.history else 0
    return steps if isinstance(steps, int | float) else 0


def _of_run(run: Path, best: bool, how: dict[str, Any]) -> Any:
    from rillflow.checkpoint import newest_checkpoint
    from rillflow.runs.newest_policy import newest_step

    there = saved_policy(run, best=best)
    if best and there is None:
        raise BuildError(
            f"{str(run)!r} has no best policy yet: it is kept once an evaluation, or 20 episodes "
            "of training, have judged one."
        )
    if there is not None:
        found = load(there, **how)
        if best or newest_step(run) <= steps_of(found):
            return found
    checkpoint = newest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise BuildError(
            f"{str(run)!r} is no run that has saved a policy: it has neither policy.npz nor a "
            "checkpoint."
        )
    return _from_checkpoint(run, checkpoint, how)


def _from_checkpoint(run: Path, checkpoint: Any, how: dict[str, Any]) -> Any:
    """What the newest checkpoint of a run holds; code that its run.json names has to be trusted."""
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.newest_policy import from_checkpoint, settings_to_act

    about = RunDirectory.open(run).about
    settings = settings_to_act(about, None, None)
    given = {name: how[name] for name in ("env", "model") if how[name] is not None}
    asked = {name: value for name, value in settings.items() if name not in given}
    trust = [*how["trust"], *OwnCode(run).names]
    missing = untrusted(named_code(asked, about.get("algorithm")), trust)
    if missing:
        way = f"load it with trust={[*missing]!r}."
        raise BuildError(refusal(run / "run.json", missing, way))
    return from_checkpoint(checkpoint, about, {**settings, **given})
