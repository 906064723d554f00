"""Policies on the command line: a run's directory or a file, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rillflow.cli.parser import Parser
from rillflow.cli.problems import Usage


def add_policy_flags(parser: Parser) -> None:
    """Which policy, and what its file cannot hold."""
    parser.add_argument("run", metavar="RUN", help="a run's directory, or a saved policy")
    parser.add_argument(
        "--env", metavar="ID", help="another environment than it was trained in; id or module:name"
    )
    parser.add_argument(
        "--model",
        metavar="module:name",
        help="its network, if that was one of your own: code is not saved",
    )


def load_policy(options: Any, several: str) -> Any:
    """The trained policy that a command is about.

    Args:
        options: of the command line.
        several: what to say if there are the policies of several agents; "{first}" is one of them.
    """
    path = policy_file(options.run)
    if path.is_dir():
        first = min(path.glob("*.npz"), default=path)
        what = several.format(first=first)
        raise Usage(f"{options.run!r} has the policies of several agents: {what}")
    return _loaded(path, options)


def load_policies(options: Any) -> Any:
    """The trained policy, or the policies of several agents."""
    return _loaded(policy_file(options.run), options)


def _loaded(path: Path, options: Any) -> Any:
    from rillflow.runs.names import pointed_at
    from rillflow.trained import TrainedAgents, load

    model = None if options.model is None else pointed_at(options.model)
    read = TrainedAgents.load if path.is_dir() else load
    return read(path, env=options.env, model=model)


def policy_file(given: str) -> Path:
    """The policy of a run, or the file itself; of several agents, their directory."""
    path = Path(given)
    if path.is_dir():
        if (path / "agents.json").is_file():
            return path
        for policy in (path / "policy.npz", path / "policies"):
            if policy.exists():
                return policy
        if not (path / "run.json").is_file():
            raise Usage(f"{given!r} is no run: it has neither run.json nor policy.npz")
        raise Usage(
            f"{given!r} has no policy yet: the run goes on, or ended before its first update; "
            f"`rillflow resume {given}` goes on with it"
        )
    if not path.is_file():
        raise Usage(f"there is no run and no file {given!r}; `rillflow list runs` shows the runs")
    return path


def beside(run: str, name: str) -> Path:
    """Where a command writes by default: into the run's directory, or beside the policy's file."""
    path = Path(run)
    return path / name if path.is_dir() else path.with_name(f"{path.stem}-{name}")
