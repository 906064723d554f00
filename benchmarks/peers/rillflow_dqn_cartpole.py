"""rillflow: DQN on CartPole-v1, default settings, or the network and batch that SB3 is given."""

from __future__ import annotations

from typing import Any

from _driver import Tracker, arguments, emit

import rillflow as rf
from rillflow.algorithms import dqn
from rillflow.policies.make import make_actor
from rillflow.rl.metrics import Progress
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers

EVERY = 16
"""updates between two marks"""
options = arguments(evaluate=1, variant="default", engine="local", workers=2)
SAME = {
    "hidden": (256, 256),
    "train_batch_size": 64,
    "training_intensity": 32.0,  # an update of 64 rows every second step
    "target_network_update_freq": 640,
    "lr": 2.3e-3,
    "final_lr": None,
    "n_step": 1,
    "double_q": False,
    "dueling": False,
    "prioritized_replay": False,
    "buffer_size": 100_000,
}
"""as `sb3_dqn_cartpole.py`: the same network, batch, kind of update and updates per step"""


tracker = Tracker(options.budget, least=0 if options.evaluate else 8)
tracker.start()  # what follows makes the environments, starts the workers and trains
settings: dict[str, Any] = SAME if options.variant == "same" else {}
workers = Workers(dqn.Config.make(env="CartPole-v1", num_workers=options.workers, **settings))
flow = dqn.plan(ParallelRollouts(workers), workers)
policy: Any = make_actor(workers.spec)
progress = Progress()


def act(obs: Any) -> Any:
    """The best action by the newest weights."""
    return policy.greedy(obs)


with flow.run(options.engine, seed=options.seed) as run:
    run.on_metrics(progress.record)
    for _ in run:
        updates = run.shared[workers.learner_key].version * workers.config.batches_per_draw
        if not tracker.marks or updates >= (tracker.marks[-1][2] or 0) + EVERY:
            tracker.mark(progress.steps, updates)
        if options.evaluate and progress.steps >= tracker.next_evaluation:
            policy.set_weights(run.shared[workers.weights_key].weights)
            tracker.evaluate(act, progress.steps)
        if tracker.done:
            break
found = {"seed": options.seed, "version": rf.__version__, **tracker.fields()}
emit("rillflow", variant=options.variant, **found)
