"""No library: the environment and a NumPy policy in a loop, in one process per worker.

The backend `single` is without a policy, too: one copy without the wrappers that `gymnasium.make`
puts around it, which a library may step past, and actions that were drawn before.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.queues import Queue
from typing import Any

from _driver import arguments, emit, steps_per_second, tried


def alone(env: str, seconds: float, out: Queue[Any]) -> None:
    """One worker, one environment, nothing else."""
    import gymnasium as gym

    single = gym.make(env).unwrapped
    single.reset(seed=os.getpid())
    actions = [single.action_space.sample() for _ in range(1000)]

    def step() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = single.step(action)
            if terminated or truncated:
                single.reset()
        return len(actions)

    step()
    out.put(steps_per_second(step, seconds))


def loop(backend: str, copies: int, env: str, policy: str, seconds: float, out: Queue[Any]) -> None:
    """One worker."""
    import gymnasium as gym
    import numpy as np

    mode = "vector_entry_point" if backend == "native" else "sync"
    envs = gym.make_vec(env, copies, vectorization_mode=mode)
    rng = np.random.default_rng(os.getpid())
    obs, _ = envs.reset()
    actions = int(envs.single_action_space.n)  # type: ignore[attr-defined]
    shapes = (obs.shape[1], 64), (64, 64), (64, actions)
    first, second, last = (rng.standard_normal(s).astype(np.float32) * 0.1 for s in shapes)
    logits = np.zeros((copies, actions), np.float32)
    if policy == "scalar":
        logits[:, 1] = 0.1  # one number, whatever is seen

    def step() -> int:
        nonlocal obs
        scores = logits
        if policy == "mlp":
            scores = np.tanh(np.tanh(obs.astype(np.float32) @ first) @ second) @ last
        drawn = scores - np.log(-np.log(rng.random(scores.shape, np.float32)))
        obs = envs.step(drawn.argmax(1))[0]
        return copies

    for _ in range(20):
        step()
    out.put(steps_per_second(step, seconds))


if __name__ == "__main__":
    options = arguments(cases="native:512:CartPole-v1", secs=3.0, workers=2, policy="mlp")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # one thread a process: several would be in each other's way

    def measure(backend: str, copies: int, env: str) -> float:
        context = multiprocessing.get_context("spawn")
        out: Queue[Any] = context.Queue()
        target: Any = loop
        given: tuple[Any, ...] = backend, copies, env, options.policy, options.secs, out
        if backend == "single":
            target, given = alone, (env, options.secs, out)
        workers = [context.Process(target=target, args=given) for _ in range(options.workers)]
        for worker in workers:
            worker.start()
        total = sum(out.get(timeout=60) for _ in workers)
        for worker in workers:
            worker.join()
        return total

    emit("bare", version=sys.version.split()[0], **tried(measure, options.cases))
