"""How exactly a run that is resumed goes on: said when it begins and when it is resumed.

exact          it is the run that was not interrupted (and was saved at the same points), to the bit
timing         everything goes on as it was saved; what follows depends on who is first
new-episodes   as the above, but environments that cannot save their state begin new episodes
"""

from __future__ import annotations

from typing import Any

from rillflow.envs.make import make_envs
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.errors import BuildError
from rillflow.graph.program import Program
from rillflow.runs.job import Job

MEANING = {
    "exact": "the same run, bit for bit",
    "timing": "from exactly what was saved; what follows depends on which worker is first",
    "new-episodes": "environments begin new episodes; policy, optimiser, counters, replay and "
    "random numbers go on exactly",
}


def exactness(job: Job, flow: Any, began_on: str = "sim", began_with: int | None = None) -> str:
    """How exactly a job, with this flow, goes on after it was saved: one of `MEANING`.

    Args:
        job: what is trained, and on which engine.
        flow: of the job.
        began_on: the engine of the run so far, if that may be another one.
        began_with: the number of its workers, if that may be another one.
    """
    if not envs_are_exact(job):
        return "new-episodes"
    repeats = job.engine_name == began_on == "sim" or is_synchronous(flow)
    repeats = repeats and began_with in (None, job.config.num_workers)
    # sums on a GPU are in the order of its threads
    gpus = job.config.num_gpus or job.config.num_gpus_per_worker
    return "exact" if repeats and not gpus else "timing"


def envs_are_exact(job: Job) -> bool:
    """Whether environments go on where they were."""
    config = job.config
    if not config.plays:
        return True
    try:
        if job.agents is None:
            return _closed(make_envs(config.env, 1, **config.env_settings))
        return _closed(
            make_multi_agent_envs(
                config.env,
                1,
                job.agents,
                env_config=config.env_config,
                preprocessing=config.preprocessing,
            )
        )
    except BuildError:
        return False


def _closed(envs: Any) -> bool:
    exact = bool(envs.exact)
    envs.close()
    return exact


def is_synchronous(flow: Any) -> bool:
    """Whether nothing in a flow depends on who is first, so that any engine repeats it."""
    nodes = Program(flow.node).nodes
    gathers = [node for node in nodes if node.kind == "gather"]
    if any(node.kind in ("dequeue", "route") for node in nodes):
        return False
    if any(node["mode"] == "async" for node in gathers):
        return False
    # branches of one stream are ready when its rounds are; those of several, when they happen to be
    merged = any(node.kind == "union" and node["mode"] == "async" for node in nodes)
    return not merged or len(gathers) == 1
