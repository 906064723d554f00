"""rillflow: rollouts of worker processes, gathered as they are ready, sampling only."""

from __future__ import annotations

from typing import Any

from _driver import arguments, emit, steps_per_second, tried


def scalar(spec: Any) -> Any:
    """The paper's dummy policy: one number that can be trained, whatever is seen."""
    import torch
    from torch import nn

    class Scalar(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.number = nn.Parameter(torch.zeros(1))

        def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            values = self.number.expand(len(obs))
            return values[:, None].expand(-1, spec.actions.width), values

    return Scalar()


def one_by_one(env: str) -> Any:
    """What becomes a `SyncVectorEnv`: a factory, if the name alone would give a native vector."""
    import gymnasium

    spec = gymnasium.make(env).spec  # `gymnasium.spec` does not import what a name asks for
    if spec is None or spec.vector_entry_point is None:
        return env

    def make() -> Any:
        import gymnasium

        return gymnasium.make(env)

    return make


if __name__ == "__main__":
    options = arguments(cases="native:512:CartPole-v1", secs=3.0, workers=2, policy="mlp", ahead=2)
    import rillflow as rf
    from rillflow.algorithms import ppo
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    def measure(backend: str, copies: int, env: str) -> float:
        config = ppo.Config(
            env=one_by_one(env) if backend == "sync" else env, num_workers=options.workers
        )
        settings: dict[str, Any] = {} if backend == "default" else {"num_envs_per_worker": copies}
        if options.policy == "scalar":
            settings["model"] = scalar
        workers = create_rollout_workers(config, **settings)
        flow = ParallelRollouts(workers, mode="async", num_async=options.ahead)
        with flow.run("local", seed=options.seed) as run:
            for _ in range(2 * options.workers):
                next(run)
            return steps_per_second(lambda: next(run).steps, options.secs)

    emit("rillflow", version=rf.__version__, **tried(measure, options.cases))
