"""Environments that are a family of tasks: what meta-learning asks of them.

An environment (or vector environment) takes part by having `sample_tasks(count, seed) -> list`
and `set_task(task)`.
"""

from __future__ import annotations

from typing import Any

from rillflow.envs.vector import Envs
from rillflow.errors import BuildError


def sample_tasks(envs: Envs, count: int, seed: int) -> list[Any]:
    """`count` tasks of the family, the same for the same seed."""
    tasks: list[Any] = _call(envs, "sample_tasks", count, seed)
    return tasks


def set_task(envs: Envs, task: Any) -> None:
    """Make every copy an environment of this task; reset afterwards."""
    _call(envs, "set_task", task)
    if envs.mending is not None:
        envs.mending.prepare = lambda made: getattr(made, "unwrapped", made).set_task(task)


def _call(envs: Envs, method: str, *arguments: Any) -> Any:
    """Call the vector's own method, or that of every copy inside it (the first answer counts)."""
    vector = envs.vector
    own = getattr(vector, method, None)
    if own is not None:
        return own(*arguments)
    copies = [env.unwrapped for env in getattr(vector, "envs", ())]
    if not copies or not all(hasattr(env, method) for env in copies):
        raise BuildError(
            f"environment {envs.name!r} is no family of tasks: meta-learning needs "
            f"sample_tasks(count, seed) and set_task(task), and it has no {method}"
        )
    answers = [getattr(env, method)(*arguments) for env in copies]
    return answers[0]
