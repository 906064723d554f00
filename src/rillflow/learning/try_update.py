"""An update tried on invented rows before anything runs: can NumPy, and who trains what?"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rillflow.experience.batch import BOOTSTRAP, NEXT_OBS, STATE, Array, SampleBatch
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.numpy_modules import NumpyModules, hindrance
from rillflow.learning.schedules import at_first
from rillflow.learning.update import Step, steps_of
from rillflow.policies.explorers import random_actions
from rillflow.policies.spec import PolicySpec

TIME, ENVS = 3, 4


def numpy_hindrance(spec: PolicySpec, config: AlgorithmConfig) -> str | None:
    """Why an algorithm cannot learn in NumPy; None: it can.

    Its networks must be fully connected, and its update must keep to what `learning.losses` and
    the tape have. That is found out by trying it, on a small network and invented rows.
    """
    if config.num_gpus:
        return f"num_gpus={config.num_gpus}"
    if config.num_learners > 1:
        return f"num_learners={config.num_learners}"
    why = hindrance(at_first(config).modules(spec))
    if why is not None:
        return why
    try:
        numpy_steps(spec, config)
    except Exception as error:
        update = config.update or config.algorithm.update
        name = getattr(update, "__qualname__", repr(update))
        return f"{name} uses what the tape has not: {type(error).__name__}: {error}"
    return None


def numpy_steps(spec: PolicySpec, config: AlgorithmConfig) -> list[Step]:
    """The steps of an update in NumPy, on a small network and invented rows, gone back over."""
    config = at_first(config)
    small = dataclasses.replace(spec, hidden=(2,) * len(spec.hidden))
    m = NumpyModules(config.modules(small), 0)
    m.draw_from(np.random.default_rng(0))
    algorithm = config.algorithm
    rows = (config.prepare or algorithm.prepare)(m, invented(small), config)
    steps = []
    m.record()
    try:
        for step in steps_of(config.update or algorithm.update, m, rows, config):
            loss = step.loss() if callable(step.loss) else step.loss
            m.tape.backward(loss)
            steps.append(step)
    finally:
        m.stop()
    return steps


def invented(spec: PolicySpec) -> SampleBatch:
    """A batch with every column that workers and replay give, of random numbers."""
    rng = np.random.default_rng(0)
    shape = (TIME, ENVS)
    ones = np.ones(shape, np.float32)
    columns: dict[str, Array] = {
        "obs": _observations(spec, shape, rng),
        "actions": random_actions(spec, TIME * ENVS, rng).reshape(*shape, *spec.actions.shape),
        "logp": -ones,
        "rewards": ones,
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
        NEXT_OBS: _observations(spec, shape, rng),
        "discount": np.float32(0.9) * ones,
        "weights": ones,
        "keys": np.arange(TIME * ENVS).reshape(shape),
        BOOTSTRAP: _observations(spec, (ENVS,), rng),
    }
    if spec.state_shape is not None:
        columns |= {
            STATE: np.zeros((ENVS, *spec.state_shape), np.float32),
            "starts": np.zeros(shape, bool),
        }
    return SampleBatch(columns)


def _observations(spec: PolicySpec, lead: tuple[int, ...], rng: np.random.Generator) -> Array:
    if spec.layout is not None:
        return spec.layout.invented(lead, rng)
    shape = (*lead, *spec.observation_shape)
    dtype: Any = spec.observation_space.dtype
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
