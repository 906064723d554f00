"""An actor that runs some of the rollout workers in a flow of its own: a tree of two levels.

The driver of many workers spends its time joining fragments and answering with weights. Aggregators
do both for it, each for its share of the workers, and give whole training batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rillflow.experience.batch import Array, SampleBatch
from rillflow.rl.faults import worker_policy
from rillflow.rl.rollouts import ConcatBatches, ParallelRollouts
from rillflow.rl.weights import Published, UpdateWorkerWeights
from rillflow.rl.workers import Share
from rillflow.types import ActorInfo

_PATIENCE = 4.0
"""seconds for which its workers' states are waited for: less than the driver waits for its own"""


class Aggregator:
    """Stands for a share of the workers: samples whole training batches, passes weights on.

    Its flow runs on the same kind of engine as the one it belongs to, and only inside `sample`; its
    workers go on meanwhile.
    """

    def __init__(self, share: Share, info: ActorInfo) -> None:
        self.share = share
        cfg: Any = share.config
        fragments = ParallelRollouts(
            share, mode="async", num_async=cfg.max_sample_requests_in_flight_per_worker
        )
        batches = fragments.for_each(UpdateWorkerWeights(share)).combine(
            ConcatBatches(cfg.train_batch_size)
        )
        engine: Any = info.engine
        self.run = batches.run(engine, seed=info.seed, on_failure=worker_policy(cfg))
        self.run.on_metrics(self._record)
        self.version = 0
        self.steps = 0
        self.episodes: list[Any] = []
        self.infos: list[Any] = []
        self.notes: list[str] = []
        """what is to be told to the user"""
        self.run.on_fault(self.notes.append)

    def sample(self) -> SampleBatch:
        """The next training batch of its workers."""
        batch: SampleBatch = next(self.run)
        return batch

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Each worker gets the newest weights with the next request."""
        self.version += 1
        first = Published(self.share, {})
        published: Published = self.run.shared.setdefault(self.share.weights_key, first)
        published.renew(weights, self.version)

    def _record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        self.steps += metrics.get("steps", 0)
        self.episodes += metrics.get("episodes", ())
        self.infos += metrics.get("infos", ())
        self.notes += [f"{actor}: {note}" for note in metrics.get("notes", ())]

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps made and episodes that ended in its workers since the last answer."""
        steps, self.steps = self.steps, 0
        episodes, self.episodes = self.episodes, []
        more = {"infos": self.infos, "notes": list(self.notes)}
        self.infos = []
        self.notes.clear()
        if not steps and not more["notes"]:
            return None
        told = {name: found for name, found in more.items() if found}
        return {"steps": steps, "episodes": episodes, **told}

    def get_state(self) -> dict[str, Any]:
        """That of the flow inside, with its workers."""
        taken = self.run.get_state(timeout=_PATIENCE, partial=True)
        return {"run": taken, "version": self.version}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there; before the first sample."""
        self.run.set_state(state["run"])
        self.run.start()  # now: weights that come before the first sample are newer
        self.version = state["version"]

    def close(self) -> None:
        """End its workers."""
        self.run.stop()
