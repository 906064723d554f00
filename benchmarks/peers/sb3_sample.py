"""Stable-Baselines3: its vector environments and its policy, sampling only."""

from __future__ import annotations

from typing import Any

from _driver import arguments, emit, quit_now, steps_per_second, tried

if __name__ == "__main__":
    options = arguments(cases="sync:8:CartPole-v1", secs=3.0)
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    torch.set_num_threads(options.threads)

    def measure(backend: str, copies: int, env: str) -> float:
        kinds: dict[str, Any] = {"sync": DummyVecEnv, "subproc": SubprocVecEnv}
        if backend == "native":
            raise TypeError("SB3's VecEnv does not take a Gymnasium vector environment")
        kind = kinds.get(backend, DummyVecEnv)  # default: what PPO("MlpPolicy", env) makes
        envs = make_vec_env(env, n_envs=max(1, copies), seed=options.seed, vec_env_cls=kind)
        policy = sb3.PPO("MlpPolicy", envs, device="cpu").policy
        obs = envs.reset()

        def step() -> int:
            nonlocal obs
            for _ in range(10):
                actions, _, _ = policy(torch.as_tensor(obs))
                obs = envs.step(actions.numpy())[0]
            return 10 * envs.num_envs

        with torch.inference_mode():
            rate = steps_per_second(step, options.secs)
        envs.close()
        return rate

    emit("sb3", version=sb3.__version__, **tried(measure, options.cases))
    quit_now()
