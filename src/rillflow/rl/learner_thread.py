"""A learner on a thread of its own, between two queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.graph.handles import Background, Queue
from rillflow.rl.pairs import unpaired
from rillflow.rl.results import Learned, RowStats
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo, Placement

if TYPE_CHECKING:
    from rillflow.rl.learner import Learner


class Learn:
    """Learns from each batch that comes; its results carry a snapshot of the weights."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.seed = 0
        self.learner: Learner | None = None

    def begin(self, info: ActorInfo) -> None:
        """Start from the weights that all operators of the run start from."""
        self.seed = self.workers.seed(info.run_seed)

    def __call__(self, batch: Any) -> Learned:
        """One optimiser step."""
        learner = self._learner()
        result = learner.train(unpaired(batch))
        rows = result.rows if isinstance(result, RowStats) else {}
        return Learned(result.steps, result.stats, rows, learner.get_weights(), learner.version)

    def _learner(self) -> Learner:
        if self.learner is None:
            from rillflow.rl.learner import Learner

            self.learner = Learner(self.workers.spec, self.workers.config, self.seed)
        return self.learner

    def get_state(self) -> dict[str, Any]:
        """The learner's."""
        return self._learner().get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._learner().set_state(state)


class LearnerThread(Background):
    """The learner of some workers on its own thread, between `inqueue` and `outqueue`.

    Put training batches on `inqueue` with `Enqueue`; what `Dequeue` takes from `outqueue` goes
    through `TrainOneStep`, which publishes the weights. With `placement="process"` it is an actor.
    """

    def __init__(
        self, workers: Workers, *, queue_size: int = 16, placement: Placement = "thread"
    ) -> None:
        super().__init__(
            Learn(workers),
            name="learner",
            inqueue=Queue(capacity=queue_size, name="learner.in"),
            outqueue=Queue(capacity=queue_size, name="learner.out"),
            placement=placement,
        )

    def start(self) -> None:
        """Nothing to do: it comes to life when a run starts."""
