"""rillflow: the PPO loop of the paper's appendix A.1, with the Spark loop's sampler and learner."""

from __future__ import annotations

from typing import Any

import ppo_loop_work as work
from _driver import arguments, emit

import rillflow as rf


class Sampler:
    """Keeps its environments and its networks."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.net = work.networks()
        self.envs, self.obs = work.make_envs()

    def set_weights(self, weights: dict[str, Any]) -> None:
        import torch

        tensors = {name: torch.tensor(array) for name, array in weights.items()}
        self.net.load_state_dict(tensors)

    def sample(self) -> tuple[dict[str, Any], int, float]:
        began = work.clock()
        columns, self.obs, episodes = work.rollout(self.net, self.envs, self.obs, self.rows)
        return columns, episodes, work.clock() - began


class Train:
    """Keeps its networks and its optimiser; new weights go to all samplers."""

    def __init__(self, samplers: rf.Actors) -> None:
        self.samplers = samplers
        self.version = 0
        self.net: Any = None

    def on_start(self, ctx: rf.Context) -> None:
        self.net = work.networks()
        self.optimizer = work.optimizer_of(self.net)
        self._publish(ctx)

    def _publish(self, ctx: rf.Context) -> None:
        weights = {name: tensor.numpy().copy() for name, tensor in self.net.state_dict().items()}
        ctx.send(self.samplers, "set_weights", weights, version=self.version)
        self.version += 1

    def __call__(self, sampled: list[Any], ctx: rf.Context) -> dict[str, Any]:
        began = work.clock()
        rows = work.train(self.net, self.optimizer, [columns for columns, _, _ in sampled])
        took = work.clock() - began
        self._publish(ctx)
        return {
            "sampling": max(seconds for _, _, seconds in sampled),
            "training": took,
            "init": 0.0,
            "rows": rows,
            "episodes": sum(episodes for _, episodes, _ in sampled),
        }


if __name__ == "__main__":
    options = arguments(batch=20_000, iterations=6)
    samplers = rf.Actors.of(Sampler, 2, options.batch // 2, name="sampler")
    flow = rf.from_actors(samplers, "sample").gather_sync().for_each(Train(samplers))
    log = []
    with flow.run("local", seed=options.seed) as run:
        for entry in run:
            log.append({**entry, "done": work.clock()})
            if len(log) > options.iterations:
                break
    emit("rillflow", **work.summary(log))
