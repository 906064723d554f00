"""The shape of Ape-X: rollouts into replay actors, a learner on a thread, priorities back.

Run it with a file name to write the picture: python examples/apex_shape.py apex.svg
"""

import random
import sys

import rillflow as rf


class RolloutWorker:
    """Makes batches of made-up experience."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.rng = random.Random(info.seed)
        self.weights = 0

    def sample(self) -> list[float]:
        return [self.rng.random() for _ in range(32)]

    def set_weights(self, version: int) -> None:
        self.weights = version


class ReplayActor:
    """Keeps the newest batches; says `NotReady` until it has enough."""

    def __init__(self, info: rf.ActorInfo, learning_starts: int) -> None:
        self.rng = random.Random(info.seed)
        self.learning_starts = learning_starts
        self.batches: list[list[float]] = []
        self.priorities = 0

    def add(self, batch: list[float]) -> None:
        self.batches = [*self.batches[-99:], batch]

    def replay(self) -> list[float]:
        if len(self.batches) < self.learning_starts:
            raise rf.NotReady
        return self.rng.choice(self.batches)

    def update_priorities(self, error: float) -> None:
        self.priorities += 1


class StoreToReplay(rf.Operator[rf.Ref, rf.Ref]):
    """Send each batch, unread, to one of the replay actors in turn."""

    takes_ref = True

    def __init__(self, replay: rf.Actors) -> None:
        self.replay, self.turn = replay, 0

    def __call__(self, batch: rf.Ref, ctx: rf.Context) -> rf.Ref:
        self.turn += 1
        ctx.send(self.replay[self.turn % len(self.replay)], "add", batch)
        ctx.mark("stored")
        return batch


class Learner:
    """Learns the mean; runs on a thread of its own."""

    def __init__(self) -> None:
        self.mean = 0.0

    def __call__(self, batch: list[float]) -> dict[str, float]:
        error = sum(batch) / len(batch) - self.mean
        self.mean += 0.05 * error
        return {"mean": self.mean, "error": error}


class Publish(rf.Operator[dict[str, float], dict[str, float]]):
    """Send priorities back to the replay actor of the batch, and new weights to all workers."""

    def __init__(self, workers: rf.Actors) -> None:
        self.workers, self.version = workers, 0

    def __call__(self, result: dict[str, float], ctx: rf.Context) -> dict[str, float]:
        self.version += 1
        ctx.send(ctx.sources, "update_priorities", result["error"])
        ctx.send(self.workers, "set_weights", self.version, version=self.version)
        ctx.mark("trained")
        return result


workers = rf.Actors.of(RolloutWorker, 2, name="worker")
replay = rf.Actors.of(ReplayActor, 2, learning_starts=4, name="replay")
learner = rf.Background(Learner(), name="learner")

store_op = (
    rf.from_actors(workers, "sample").gather_async(num_async=2).for_each(StoreToReplay(replay))
)
replay_op = (
    rf.from_actors(replay, "replay").gather_async(num_async=4).for_each(rf.Enqueue(learner.inqueue))
)
update_op = rf.Dequeue(learner.outqueue).for_each(Publish(workers))
flow = rf.Concurrently([store_op, replay_op, update_op], mode="async", output_indexes=[2])

if len(sys.argv) > 1:
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(flow.to_svg())
print(flow.explain())
with flow.run("local", seed=0) as run:
    for _step, result in zip(range(300), run, strict=False):
        pass
    print(f"\nmean: {result['mean']:.2f}", run.stats(), run.ledger(), sep="\n\n")
