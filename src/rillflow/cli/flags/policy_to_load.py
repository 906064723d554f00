"""Policies on the command line: a file, or the newest that a run has, loaded."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.trust import add_trust_flag, program, require_trust, take_named
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import fitted
from rillflow.runs.own_names import OwnCode

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.results.trained import Trained, TrainedAgents

_ABOUT_BYTES = 16 << 20
"""of a run.json"""


def add_policy_flags(parser: Parser) -> None:
    """Which policy, and what its file cannot hold."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="a run's directory, also of one that goes on; a packed run; or a saved policy",
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="the best policy of the run instead of its newest: by evaluation, or else by training",
    )
    parser.add_argument(
        "--env", metavar="ID", help="another environment than it was trained in; id or module:name"
    )
    parser.add_argument(
        "--model",
        metavar="module:name",
        help="its network, if that was one of your own: code is not saved",
    )
    add_trust_flag(parser)


class Asked:
    """A command that is about a policy, and what the user has said of it.

    Args:
        parser: of the command, with the flags of `add_policy_flags`.
        arguments: of the command.
        plays: whether the environment is needed, too.
    """

    def __init__(self, parser: Parser, arguments: Sequence[str], *, plays: bool = True) -> None:
        self.command, self.arguments, self.plays = parser.command, arguments, plays
        self.options = parser.parse(arguments)

    def one(self, several: str) -> Trained:
        """The trained policy.

        Args:
            several: what to say if there are those of several agents; "{first}" is one of them.
        """
        from rillflow.results.trained import TrainedAgents

        found = self.all()
        if isinstance(found, TrainedAgents):
            there = Path(self.options.run)
            if not there.is_dir():
                raise Usage(
                    f"{self.options.run!r} has the policies of several agents: `rillflow unpack "
                    f"{self.options.run}` makes a directory of it, in which each has its own file"
                )
            at_its_end = there / "policies" / f"{next(iter(found.policies))}.npz"
            what = several.format(first=min(there.glob("**/*.npz"), default=at_its_end))
            raise Usage(f"{self.options.run!r} has the policies of several agents: {what}")
        return found

    def all(self) -> Trained | TrainedAgents:
        """The trained policy, or the policies of several agents."""
        options = self.options
        from rillflow.results.unpack import is_packed

        take_named([*options.trust, options.env, options.model])
        run = Path(options.run)
        if not run.exists():
            raise Usage(
                f"there is no run and no file {options.run!r}; `rillflow list runs` shows the runs"
            )
        if is_packed(run):
            return self._packed(run)
        if options.best and not run.is_dir():
            raise Usage(f"--best is about a run's directory, and {options.run!r} is a file")
        if not run.is_dir() or (run / "agents.json").is_file():
            return self._saved(run)
        if options.best:
            return self._best(run)
        final = next((p for p in (run / "policy.npz", run / "policies") if p.exists()), None)
        return self._newest(run, final)

    def _packed(self, file: Path) -> Trained | TrainedAgents:
        """What is in a packed run, which may come from anybody."""
        from tempfile import TemporaryDirectory

        from rillflow.results.unpack import unpack_run

        names = ("best_policy.npz", "best_policies")
        if not self.options.best:
            names = ("policy.npz", "policies")
        with TemporaryDirectory(prefix="rillflow-") as where:
            run = unpack_run(file, Path(where) / file.stem)
            path = next((run / name for name in names if (run / name).exists()), None)
            if path is None:
                what = "best policy" if self.options.best else "policy"
                raise Usage(
                    f"{str(file)!r} has no {what}; `rillflow unpack --card` says what it has"
                )
            found = self._saved(path, of=file)
        _say(f"policy: {path.name} of {file}, {_steps(found):,.0f} steps")
        return found

    def _best(self, run: Path) -> Trained | TrainedAgents:
        """What the run was at its best; and say how good that was."""
        names = ("best_policy.npz", "best_policies")
        path = next((run / name for name in names if (run / name).exists()), None)
        if path is None:
            raise Usage(
                f"{str(run)!r} has no best policy yet: it is kept once an evaluation, or 20 "
                "episodes of training, have judged one; without --best you get the newest"
            )
        found = self._saved(path)
        judged = next(iter(_each(found))).judged
        if judged is not None:
            how = f"{judged['by']} gave it {judged['score']:.1f} after {judged['steps']:,} steps"
            _say(f"policy: {path}, {how}")
        return found

    def _newest(self, run: Path, final: Path | None) -> Trained | TrainedAgents:
        """What a run saved at its end, unless it has gone on from there; and say which it is."""
        from rillflow.checkpoint import newest_checkpoint
        from rillflow.runs.newest_policy import newest_step

        if final is not None:
            found = self._saved(final)
            step = _steps(found)
            if newest_step(run) <= step:
                _say(f"policy: {final}, {step:,.0f} steps")
                return found
        checkpoint = newest_checkpoint(run / "checkpoints")
        if checkpoint is None:
            raise _nothing(run)
        found = self._from(checkpoint, run)
        for note in checkpoint.notes:
            _say(f"note: {note}")
        why = "it has saved no policy yet" if final is None else "its saved policy is older"
        _say(f"policy: the newest checkpoint of {run}, {checkpoint.step:,} steps: {why}")
        return found

    def _saved(self, path: Path, of: Path | None = None) -> Trained | TrainedAgents:
        """A policy, or those of a directory; `of` is the file that they were packed in."""
        from rillflow.results.trained import TrainedAgents, load

        given = self.options
        own = OwnCode(path)
        trust = [*given.trust, *own.names]
        env = given.env or own.env()
        how = {"env": env, "model": self._model(own), "trust": trust}
        found = TrainedAgents.load(path, **how) if path.is_dir() else load(path, **how)
        if self.plays:
            for one in _each(found):
                require_trust(
                    of or one.origin.path, one.origin.untrusted, (), self.command, self.arguments
                )
        return found

    def _from(self, checkpoint: Checkpoint, run: Path) -> Trained | TrainedAgents:
        from rillflow.runs.directory import RunDirectory
        from rillflow.runs.newest_policy import from_checkpoint, settings_to_act
        from rillflow.safety.bounded import read_json
        from rillflow.safety.consent import named_code

        file = run / "run.json"
        try:
            about = read_json(file, _ABOUT_BYTES)
        except (OSError, ValueError) as error:
            raise Usage(f"{str(run)!r} is no run: {file.name}: {error}") from None
        RunDirectory.open(run)  # what another version has written is refused
        given = [self.options.env, self.options.model]
        settings = settings_to_act(about, *given)
        named = named_code(settings, about.get("algorithm"))
        trust = [*self.options.trust, *given, *OwnCode(run).names]
        require_trust(file, named, trust, self.command, self.arguments)
        return from_checkpoint(checkpoint, about, settings)

    def _model(self, own: OwnCode) -> Any:
        """The network that the user has named, now or when the run began."""
        from rillflow.runs.code_by_name import pointed_at
        from rillflow.safety.consent import refusal

        unnamed, name = own.unnamed_model(), self.options.model or own.model()
        if name is None and unnamed in self.options.trust:
            name = unnamed
        if name is None and unnamed is not None and own.run is not None:
            words = [program(), self.command, *self.arguments, "--model", unnamed]
            way = f"name it with `{shlex.join(words)}`"
            raise Usage(refusal(own.run / "run.json", {unnamed: "its model"}, way))
        return None if name is None else pointed_at(name)


def _each(found: Trained | TrainedAgents) -> Iterable[Any]:
    return getattr(found, "policies", {"": found}).values()


def _steps(found: Trained | TrainedAgents) -> float:
    """Environment steps that a policy has learned from; 0 if its file does not say."""
    steps = found.history[-1].get("steps") if found.history else 0
    return steps if isinstance(steps, int | float) else 0


def _say(line: str) -> None:
    print("\n".join(fitted([line])), file=sys.stderr)


def _nothing(run: Path) -> Usage:
    if not (run / "run.json").is_file():
        return Usage(f"{str(run)!r} is no run: it has neither run.json nor policy.npz")
    return Usage(
        f"{str(run)!r} has no policy yet, and no checkpoint: it has not saved so far, or ended "
        "before it could; `rillflow train --checkpoint-seconds N` saves more often"
    )


def beside(run: str, name: str) -> Path:
    """Where a command writes by default: into the run's directory, or beside the policy's file."""
    path = Path(run)
    return path / name if path.is_dir() else path.with_name(f"{path.stem}-{name}")
