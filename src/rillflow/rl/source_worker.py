"""An actor whose batches come from somewhere else than environments: files, a model, self-play."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rillflow.errors import EndOfStream, RunError
from rillflow.experience.batch import SampleBatch
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.spec import PolicySpec
from rillflow.rl.acting_worker import ActingWorker
from rillflow.types import ActorInfo


class SourceWorker(ActingWorker):
    """Yields what the settings' `source` yields: a function of this worker that gives batches.

        def source(worker):
            data = np.load("expert.npz")
            rng = np.random.default_rng(worker.info.seed)
            while True:
                yield a_batch_of(data, rng)

    The function is called in the worker, which has `policy` (with the newest weights), `spec`,
    `config` and `info`. A source that ends, ends its shard. One with `get_state` and `set_state`
    goes on from a checkpoint; any other begins anew.
    """

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.source = self.source_of(config)(self)
        self.batches: Iterator[Any] = iter(self.source)
        self.steps = 0
        self.total_steps = 0
        """since the worker began"""

    def source_of(self, config: AlgorithmConfig) -> Callable[..., Any]:
        """The source that the settings name."""
        assert config.source is not None, "this worker is for settings with a source"
        return config.source

    def sample(self) -> SampleBatch:
        """The next batch."""
        try:
            batch = next(self.batches)
        except StopIteration:
            raise EndOfStream from None
        if not isinstance(batch, SampleBatch):
            name = getattr(self.config.source, "__qualname__", repr(self.config.source))
            raise RunError(
                f"a source yields SampleBatch, time-major columns [T, B, ...], found "
                f"{type(batch).__name__} from {name}."
            )
        self.steps += batch.steps
        self.total_steps += batch.steps
        return batch

    def steps_of_all(self) -> int:
        """Steps of all workers, if they are as far as this one."""
        return self.total_steps * max(1, self.config.num_workers)

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps that were given since the last answer; there are no episodes."""
        steps, self.steps = self.steps, 0
        return {"steps": steps, "episodes": [], "seconds": {}} if steps else None

    def get_state(self) -> dict[str, Any]:
        """The policy, and the source if it can be saved."""
        saved = self.source.get_state() if hasattr(self.source, "get_state") else None
        return {
            "policy": self.policy.get_state(),
            "weights": dict(self.weights),
            "source": saved,
            "turns": self.turns,
            "total_steps": self.total_steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        if state["weights"]:
            self.set_weights(state["weights"])
        self.policy.set_state(state["policy"])
        self.turns = state["turns"]
        self.total_steps = state.get("total_steps", 0)
        if state["source"] is not None:
            self.source.set_state(state["source"])

    def close(self) -> None:
        """Close the source, if it can be."""
        if hasattr(self.source, "close"):
            self.source.close()
