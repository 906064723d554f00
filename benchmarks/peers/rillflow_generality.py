"""rillflow: PPO or SAC with its defaults, without its settings for single environments."""

from __future__ import annotations

import argparse
import json
import time
from functools import partial

from _generality import START, make, options, score, tell

import rillflow as rf
from rillflow.envs.spaces import actions_of, observations_of

given: argparse.Namespace = options()
space = make(given.env)
read = observations_of(space.observation_space, given.env).encode
write = actions_of(space.action_space, given.env).to_env

settings = {"num_workers": 2, **json.loads(given.settings)}
engine = settings.pop("engine", "local")
began = time.time()
# a factory has no name, so no environment's own settings are found for it
trained = rf.train(
    given.algorithm,
    partial(make, given.env),
    until={"steps": given.steps},
    seed=given.seed,
    engine=engine,
    **settings,
)
train_s = time.time() - began
told = [(int(row["steps"]), row["return"]) for row in trained.history if "return" in row]
last = score(given.env, lambda seen: write(trained.act(read(seen))), given.episodes)
tell(
    peer="rillflow",
    version=rf.__version__,
    algorithm=given.algorithm,
    env=given.env,
    seed=given.seed,
    steps=int(trained.history[-1]["steps"]),
    score=last,
    training=told[:: max(1, len(told) // 40)],  # of the last 100 episodes, with exploration
    train_s=train_s,
    wall_s=time.time() - START,
)
