"""PPO on CartPole in torch, as the appendix's A.1 has it: what both sides of `spark.py` do.

Sampling and training are these functions, on Spark and on rillflow; what differs is the loop.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

ENVS = 64
"""environments of each sampler"""


def networks() -> Any:
    """Policy and values, two layers of 64 each."""
    import torch
    from torch import nn

    torch.set_num_threads(1)

    def mlp(out: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)
        )

    return nn.ModuleDict({"pi": mlp(2), "v": mlp(1)})


def optimizer_of(net: Any) -> Any:
    import torch

    return torch.optim.Adam(net.parameters(), lr=3e-4)


def make_envs() -> tuple[Any, Any]:
    """Environments and their first observations."""
    import gymnasium

    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="vector_entry_point")
    return envs, envs.reset()[0]


def rollout(net: Any, envs: Any, obs: Any, rows: int) -> tuple[dict[str, Any], Any, int]:
    """So many rows with advantages, the observation after them, and episodes that ended."""
    import numpy as np
    import torch

    steps = rows // ENVS
    kept: dict[str, list[Any]] = {name: [] for name in ("obs", "act", "logp", "value")}
    rewards, dones, masks = [], [], []
    resetting = np.zeros(ENVS, bool)
    with torch.inference_mode():
        for _ in range(steps):
            seen = torch.as_tensor(obs, dtype=torch.float32)
            logp = torch.log_softmax(net["pi"](seen), 1)
            actions = torch.multinomial(logp.exp(), 1)
            kept["obs"].append(seen.numpy())
            kept["value"].append(net["v"](seen).squeeze(1).numpy())
            kept["logp"].append(logp.gather(1, actions).squeeze(1).numpy())
            kept["act"].append(actions.squeeze(1).numpy())
            obs, reward, terminated, truncated, _ = envs.step(kept["act"][-1])
            rewards.append(np.asarray(reward, np.float32))
            masks.append(~resetting)
            resetting = terminated | truncated
            dones.append(resetting)
        next_value = net["v"](torch.as_tensor(obs, dtype=torch.float32)).squeeze(1).numpy()
    advantages = np.zeros((steps, ENVS), np.float32)
    advantage = np.zeros(ENVS, np.float32)
    for t in range(steps - 1, -1, -1):
        alive = 1.0 - dones[t]
        delta = rewards[t] + 0.99 * next_value * alive - kept["value"][t]
        advantages[t] = advantage = delta + 0.99 * 0.95 * alive * advantage
        next_value = kept["value"][t]
    valid = np.stack(masks).reshape(-1)
    returns = (advantages + np.stack(kept.pop("value"))).reshape(-1)[valid]
    columns = {
        name: np.stack(column).reshape(steps * ENVS, *column[0].shape[1:])[valid]
        for name, column in kept.items()
    }
    columns |= {"adv": advantages.reshape(-1)[valid], "ret": returns}
    return columns, obs, int(np.stack(dones).sum())


def train(net: Any, optimizer: Any, parts: list[dict[str, Any]], minibatch: int = 128) -> int:
    """One pass over all rows in shuffled minibatches; how many rows there were."""
    import numpy as np
    import torch

    rows = {
        name: torch.as_tensor(np.concatenate([part[name] for part in parts])) for name in parts[0]
    }
    rows["adv"] = (rows["adv"] - rows["adv"].mean()) / (rows["adv"].std() + 1e-8)
    count = len(rows["act"])
    order = torch.randperm(count)
    for begin in range(0, count, minibatch):
        at = order[begin : begin + minibatch]
        logp = torch.log_softmax(net["pi"](rows["obs"][at]), 1)
        logp = logp.gather(1, rows["act"][at].long()[:, None]).squeeze(1)
        ratio, advantage = (logp - rows["logp"][at]).exp(), rows["adv"][at]
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        errors = net["v"](rows["obs"][at]).squeeze(1) - rows["ret"][at]
        loss = 0.005 * (errors**2).mean() - surrogate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return count


def summary(log: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over iterations, the first left out, in seconds.

    `sampling` is the slowest sampler's, `init` everything that is made anew, `io` the rest: files,
    detection, scheduling, serialisation, transfer.
    """
    found: dict[str, list[float]] = {}
    for before, now in itertools.pairwise(log):
        total = now["done"] - before["done"]
        parts = {name: now[name] for name in ("sampling", "training", "init")}
        row = {"total": total, **parts, "io": total - sum(parts.values())}
        row["overhead"] = row["init"] + row["io"]
        for name, seconds in row.items():
            found.setdefault(name, []).append(seconds)
    medians = {
        f"{name}_s": round(sorted(values)[len(values) // 2], 4) for name, values in found.items()
    }
    last = log[-1]
    return {
        **medians,
        "totals_s": [round(total, 4) for total in found["total"]],
        "last_return": round(last["rows"] / max(1, last["episodes"]), 1),
    }


def clock() -> float:
    """Seconds that all processes of a machine agree on."""
    return time.time()
