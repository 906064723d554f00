"""RLlib: its environment runners as Ray actors, asked for fragments as they are ready."""

from __future__ import annotations

import logging
from typing import Any

from _driver import arguments, emit, quit_now, steps_per_second, tried

if __name__ == "__main__":
    options = arguments(cases="sync:8:CartPole-v1", secs=3.0, workers=2)
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    ray.init(
        num_cpus=options.workers + 1,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        object_store_memory=10**9,
    )

    def config_of(backend: str, copies: int, env: str) -> Any:
        config = PPOConfig().environment(env).debugging(log_level="ERROR")
        if backend == "default":
            return config.env_runners(num_env_runners=0)
        mode = "vector_entry_point" if backend == "native" else "sync"
        config.env_runners(
            num_env_runners=0, num_envs_per_env_runner=copies, gym_env_vectorize_mode=mode
        )
        model = DefaultModelConfig(
            fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
        )
        return config.rl_module(model_config=model)

    class Host:
        """A process with a runner, and another one later: imports take longer than measuring."""

        def make(self, config: Any, index: int) -> None:
            """Begin anew."""
            self.runner = SingleAgentEnvRunner(config=config, worker_index=index)

        def sample(self, steps: int) -> Any:
            """As the runner does."""
            return self.runner.sample(num_timesteps=steps)

    hosts = [ray.remote(num_cpus=1)(Host).remote() for _ in range(options.workers)]

    def measure(backend: str, copies: int, env: str) -> float:
        config = config_of(backend, copies, env)
        fragment = max(2000, 4 * copies) if copies else 500
        ray.get([host.make.remote(config, i + 1) for i, host in enumerate(hosts)])
        ray.get([host.sample.remote(copies + 1) for host in hosts])
        waiting = {host.sample.remote(fragment): host for host in hosts}

        def step() -> int:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            host = waiting.pop(ready)
            waiting[host.sample.remote(fragment)] = host
            return sum(len(episode) for episode in ray.get(ready))

        rate = steps_per_second(step, options.secs)
        ray.get(list(waiting))
        return rate

    emit("rllib", version=ray.__version__, **tried(measure, options.cases))
    quit_now()
