"""One stream of rollouts, two consumers at their own pace, one output: the multi-agent shape."""

import rillflow as rf


class Worker:
    """Counts, for two policies at once."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.n = 100 * info.index

    def sample(self) -> dict[str, int]:
        self.n += 1
        return {"ppo": self.n, "dqn": -self.n}


workers = rf.Actors.of(Worker, 2, name="worker")
left, right = rf.from_actors(workers, "sample").gather_async().split()
ppo_op = left.for_each(lambda batch: batch["ppo"], name="select ppo").batch(4)
dqn_op = right.for_each(lambda batch: batch["dqn"], name="select dqn")
flow = rf.Union(
    ppo_op.for_each(lambda items: ("ppo trains on", items)),
    dqn_op.for_each(lambda item: ("dqn stores", item)),
)

print(flow.explain(), end="\n\n")
for what, items in flow.take(10, engine="sim"):
    print(what, items)
