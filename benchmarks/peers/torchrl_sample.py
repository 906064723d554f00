"""TorchRL: its multi-process collectors, sampling only."""

from __future__ import annotations

from typing import Any

from _driver import arguments, emit, quit_now, steps_per_second, tried


def make_env(backend: str, copies: int, name: str) -> Any:
    """What a collector steps."""
    import gymnasium
    import torch
    from torchrl.envs import GymEnv, GymWrapper

    torch.set_num_threads(1)
    if backend == "default":
        return GymEnv(name)
    if backend == "native":
        envs = gymnasium.make_vec(name, copies, vectorization_mode="vector_entry_point")
    else:  # its wrapper takes vectors that reset in the same step
        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        envs = gymnasium.make_vec(
            name, copies, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
        )
    return GymWrapper(envs)


if __name__ == "__main__":
    options = arguments(cases="sync:8:CartPole-v1", secs=3.0, workers=2, frames=4096, mode="async")
    from functools import partial

    import torch
    import torchrl
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.collectors import MultiAsyncCollector, MultiSyncCollector
    from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor

    torch.set_num_threads(options.threads)

    def measure(backend: str, copies: int, env: str) -> float:
        make = partial(make_env, backend, copies, env)
        one = make()
        observation = one.observation_spec["observation"].shape[-1]
        network = MLP(
            in_features=observation,
            out_features=one.action_spec_unbatched.shape[-1],
            num_cells=[64, 64],
            activation_class=nn.Tanh,
        )
        actor = ProbabilisticActor(
            TensorDictModule(network, ["observation"], ["logits"]),
            in_keys=["logits"],
            spec=one.action_spec_unbatched,
            distribution_class=OneHotCategorical,
            return_log_prob=True,
        )
        one.close()
        asynchronous = options.mode == "async"
        kind = MultiAsyncCollector if asynchronous else MultiSyncCollector
        more = {} if asynchronous else {"cat_results": "stack"}
        frames = max(options.frames, 8 * copies) if copies else 1000
        collector = kind(
            [make] * options.workers, actor, frames_per_batch=frames, total_frames=-1, **more
        )
        batches = iter(collector)
        next(batches)
        rate = steps_per_second(lambda: next(batches).numel(), options.secs)
        collector.shutdown()
        return rate

    emit("torchrl", version=torchrl.__version__, **tried(measure, options.cases))
    quit_now()
