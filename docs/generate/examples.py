"""Examples for operators whose docstrings have none; the tests run them."""

# ruff: noqa: RUF001 - what `explain` prints has a multiplication sign

EXAMPLES = {
    "ParallelRollouts": """
>>> from rillflow.algorithms import ppo
>>> workers = create_rollout_workers(ppo.Config(num_workers=2))
>>> ParallelRollouts(workers)
ParallelFlow(rollouts)
>>> batch = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")[0]
>>> batch.shape  # 128 steps of 2 x 8 environments
(128, 16)
""",
    "Dequeue": """
>>> queue = rf.Queue(capacity=2)
>>> fill = rf.from_range(4, 1).gather_sync().flatten().for_each(rf.Enqueue(queue))
>>> flow = rf.Concurrently([fill, rf.Dequeue(queue)], output_indexes=[1])
>>> flow.take(9, engine="sim")
[0, 1, 2, 3]
""",
    "from_items": """
>>> rf.from_items("abcd", num_shards=2).gather_sync().take(2, engine="sim")
[['a', 'b'], ['c', 'd']]
""",
    "from_range": """
>>> rf.from_range(6, num_shards=2).gather_sync().take(3, engine="sim")
[[0, 3], [1, 4], [2, 5]]
""",
    "from_iterators": """
>>> rf.from_iterators([[1, 2], lambda: iter("ab")]).gather_sync().take(2, engine="sim")
[[1, 'a'], [2, 'b']]
""",
    "Actors.of": """
>>> class Counter:
...     def __init__(self, start, info):  # `info` is given to whoever asks for it
...         self.n = start + 100 * info.index
...     def next(self):
...         self.n += 1
...         return self.n
>>> counters = rf.Actors.of(Counter, 2, 10, name="counter")
>>> rf.from_actors(counters).take(4, engine="sim")
[11, 111, 12, 112]
""",
    "Queue": """
>>> rf.Queue(capacity=4, name="samples", when_full="drop_oldest")
<queue 'samples' of 4>
""",
    "Background": """
>>> square = rf.Background(lambda x: x * x, name="square")
>>> feed = numbers(4).for_each(rf.Enqueue(square.inqueue))
>>> flow = rf.Concurrently([feed, rf.Dequeue(square.outqueue)], mode="async", output_indexes=[1])
>>> flow.take(9, engine="sim")
[0, 1, 4, 9]
""",
    "for_each": """
>>> numbers(3).for_each(lambda x: 10 * x).take(9, engine="sim")
[0, 10, 20]
>>> numbers(3).for_each(lambda x, ctx: (x, ctx.provenance[0].actor)).take(1, engine="sim")
[(0, 'range-0')]
""",
    "par_for_each": """
>>> flow = rf.from_range(4, 2).par_for_each(lambda x: 10 * x)  # inside the two actors
>>> flow.gather_sync().take(2, engine="sim")
[[0, 20], [10, 30]]
""",
    "filter": """
>>> numbers(6).filter(lambda x: x % 2 == 0).take(9, engine="sim")
[0, 2, 4]
""",
    "batch": """
>>> numbers(5).batch(2).take(9, engine="sim")
[[0, 1], [2, 3], [4]]
""",
    "flatten": """
>>> numbers(4).batch(2).flatten().take(9, engine="sim")
[0, 1, 2, 3]
""",
    "combine": """
>>> class Pairs(rf.Operator):
...     def __init__(self):
...         self.held = None
...     def __call__(self, x):
...         if self.held is None:
...             self.held = x
...             return []  # nothing yet
...         pair, self.held = (self.held, x), None
...         return [pair]
>>> numbers(4).combine(Pairs()).take(9, engine="sim")
[(0, 1), (2, 3)]
""",
    "shuffle": """
>>> sorted(numbers(6).shuffle(3, seed=1).take(9, engine="sim"))
[0, 1, 2, 3, 4, 5]
""",
    "repeat": """
>>> numbers(4).repeat(2).take(9, engine="sim")
[0, 0, 1, 1, 2, 2, 3, 3]
>>> numbers(4).repeat(2, after=1).take(9, engine="sim")
[0, 1, 0, 2, 1, 3, 2, 3]
""",
    "limit": """
>>> numbers(9).limit(2).take(9, engine="sim")
[0, 1]
""",
    "zip_with_source_actor": """
>>> rf.from_range(2, 2).gather_async().zip_with_source_actor().take(1, engine="sim")[0][0].index
0
""",
    "repartition": """
>>> flow = rf.from_range(4, 2).repartition(4)
>>> flow.num_shards()
4
""",
    "ConcatBatches": """
>>> collect = ConcatBatches(min_batch_size=8)
>>> part = SampleBatch({"rewards": np.ones((3, 2))})  # 3 steps of 2 environments
>>> collect(part), collect(part)[0].shape
([], (3, 4))
""",
    "StandardizeFields": """
>>> batch = SampleBatch({"advantages": np.array([[1.0], [3.0]])})
>>> StandardizeFields(["advantages"])(batch)["advantages"].ravel()
array([-1.,  1.])
""",
    "gather_sync": """
>>> rf.from_range(4, 2).gather_sync().take(2, engine="sim")
[[0, 2], [1, 3]]
""",
    "gather_async": """
>>> flow = rf.from_range(4, 2).gather_async()
>>> sorted(flow.take(4, engine="sim"))
[0, 1, 2, 3]
>>> slow = rf.Sim(latency={"range-0": 1.0, "range-1": 0.1})  # in virtual time
>>> flow.take(4, engine=slow)  # the quick shard does not wait for the slow one
[2, 3, 0, 1]
""",
    "batch_across_shards": """
>>> rf.from_range(4, 2).batch_across_shards().take(1, engine="sim")
[[0, 2]]
""",
    "split": """
>>> left, right = numbers(3).split()
>>> rf.Union(left.for_each(lambda x: ("left", x)), right.batch(3)).take(9, engine="sim")
[('left', 0), ('left', 1), ('left', 2), [0, 1, 2]]
""",
    "Union": """
>>> a, b = numbers(9).for_each(lambda x: "a"), numbers(9).for_each(lambda x: "b")
>>> "".join(rf.Union(a, b, weights=[1, 2]).take(9, engine="sim"))
'abbabbabb'
""",
    "Concurrently": """
>>> seen = []
>>> quiet, loud = numbers(3).for_each(seen.append), numbers(3).for_each(lambda x: 10 * x)
>>> rf.Concurrently([quiet, loud], output_indexes=[1]).take(3, engine="sim"), seen
([0, 10, 20], [0, 1, 2])
""",
    "Enqueue": """
>>> queue = rf.Queue(capacity=1)
>>> numbers(2).for_each(rf.Enqueue(queue))
Flow(enqueue(queue))
""",
    "Select": """
>>> from rillflow.algorithms import dqn, ppo
>>> config = MultiAgentConfig(
...     env_config={"agents": 2},
...     policies={"PPO": ppo.Config(), "DQN": dqn.Config()},
...     policy_mapping={"agent_0": "PPO", "agent_1": "DQN"},
... )
>>> rollouts = ParallelRollouts(create_rollout_workers(config), mode="bulk_sync")
>>> Select(rollouts, policy="PPO").take(1, engine="sim")[0].shape
(32, 32)
""",
    "run": """
>>> with rf.from_range(4, 2).gather_async().run("sim", seed=0) as run:
...     items = list(run)
...     print(run.ledger())
from_range(4): 4 produced = 0 in flight + 0 held + 4 delivered
""",
    "take": """
>>> numbers(9).take(2, engine="sim")
[0, 1]
""",
    "check": """
>>> left, right = numbers(3).split()
>>> print(left.check()[0])
every child of a split must be read, or the others wait for it for ever, ...
""",
    "explain": """
>>> print(rf.from_range(4, 2).gather_async().batch(2).explain())
3 operators, 2 actors in 1 group: 2 × range
<BLANKLINE>
batch(2)             driver
└─ gather_async      driver     as ready, at most 1 open request per shard
   └─ from_range(4)  2 × range
""",
    "to_svg": """
>>> numbers(3).to_svg()[:4]
'<svg'
""",
}

PREAMBLE = '''
import numpy as np

import rillflow as rf
from rillflow.experience.batch import SampleBatch
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.rollouts import ConcatBatches, ParallelRollouts, StandardizeFields
from rillflow.rl.workers import create_rollout_workers


def numbers(n):
    """0 to n-1, in the driver."""
    return rf.from_range(n, 1, placement="driver").gather_sync().flatten()
'''
"""what every example begins with; the page shows it once"""
