"""Three agents of one environment: two train with PPO, one four times as often, one with DQN."""

from collections import Counter

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import create_rollout_workers

config = MultiAgentConfig(
    env="MultiAgentCartPole",
    env_config={"agents": 3},
    policies={
        "often": ppo.Config(train_batch_size=512),  # each round of 2 x 8 x 32 steps
        "seldom": ppo.Config(train_batch_size=2048),  # every fourth round
        "dqn": dqn.Config(training_intensity=1.0, learning_starts=256),
    },
    policy_mapping={"agent_0": "often", "agent_1": "seldom", "agent_2": "dqn"},
    num_workers=2,
    num_envs_per_worker=8,
    rollout_fragment_length=32,
)
workers = create_rollout_workers(config)
r1, r2, r3 = ParallelRollouts(workers).split(3)
flow = rf.Union(
    ppo.plan(Select(r1, policy="often"), workers),
    ppo.plan(Select(r2, policy="seldom"), workers),
    dqn.plan(Select(r3, policy="dqn"), workers),  # a row learned for each row sampled
)

if __name__ == "__main__":
    print(flow.explain(), end="\n\n")
    batches: Counter[str] = Counter()
    with flow.run("sim", seed=0) as run:
        while batches["seldom"] < 4:
            batches[next(run).policy] += 1
        for name, one in workers.policies.items():
            updates = run.shared[one.learner_key].updates
            print(f"{name}: {batches[name]} batches, {updates} updates")
