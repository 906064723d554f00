"""PPO on an Atari game as CleanRL's single-file scripts do it: one process, one GPU, ALE's vector.

It is written anew after what CleanRL documents of `ppo_atari_envpool.py`, with its settings (128
steps, four epochs of four minibatches, learning rate 2.5e-4, clipping at 0.1, values clipped too),
and has ALE's native vector environment in the place of EnvPool. The rate is annealed only if a
number of steps is given. It prints one line of JSON: steps per second, the mean of 100 games, when
the target was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import deque
from typing import Any

import numpy as np
import torch
from ale_py import AtariVectorEnv
from torch import Tensor, nn

STEPS, EPOCHS, MINIBATCHES = 128, 4, 4
RATE, GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, NORM = 2.5e-4, 0.99, 0.95, 0.1, 0.01, 0.5, 0.5


def orthogonal(layer: Any, gain: float = 2**0.5) -> Any:
    """Orthogonal weights, no biases."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """The network of Mnih et al. 2015 with two heads."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            orthogonal(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(),
            orthogonal(nn.Linear(3136, 512)), nn.ReLU(),
        )  # fmt: skip
        self.actor, self.critic = (
            orthogonal(nn.Linear(512, actions), 0.01),
            orthogonal(nn.Linear(512, 1), 1.0),
        )

    def forward(self, obs: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        """What to do, and what it is worth."""
        hidden = self.trunk(obs / 255.0)
        chances = torch.distributions.Categorical(logits=self.actor(hidden))
        return chances, self.critic(hidden).squeeze(-1)


def learn(agent: Agent, optimiser: Any, rows: dict[str, Tensor]) -> None:
    """Four epochs of four minibatches."""
    count = len(rows["actions"])
    for _ in range(EPOCHS):
        for chosen in torch.randperm(count, device=rows["actions"].device).chunk(MINIBATCHES):
            part = {name: column[chosen] for name, column in rows.items()}
            chances, values = agent(part["obs"])
            ratio = (chances.log_prob(part["actions"]) - part["logp"]).exp()
            better = part["advantages"]
            better = (better - better.mean()) / (better.std() + 1e-8)
            policy = torch.max(-better * ratio, -better * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            near = part["values"] + (values - part["values"]).clamp(-CLIP, CLIP)
            errors = [(one - part["targets"]).square() for one in (values, near)]
            value = 0.5 * torch.max(*errors).mean()
            loss = policy + VALUE * value - ENTROPY * chances.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), NORM)
            optimiser.step()


def advantages(rewards: Tensor, values: Tensor, ended: Tensor, last: Tensor) -> Tensor:
    """Generalised advantages; `ended[t]`: whether the episode ended with step t."""
    found, following, after = torch.zeros_like(rewards), torch.zeros_like(last), last
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - ended[t]
        following = (
            rewards[t] + GAMMA * after * goes_on - values[t] + GAMMA * LAMBDA * goes_on * following
        )
        found[t], after = following, values[t]
    return found


def main() -> None:
    """Train until the time is up, or the target is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--target", type=float)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    copies = options.num_envs
    game = options.game.removeprefix("ALE/").removesuffix("-v5")
    rom = "".join(f"_{c.lower()}" if c.isupper() else c for c in game).lstrip("_")
    envs = AtariVectorEnv(
        rom, copies, num_threads=len(os.sched_getaffinity(0)), episodic_life=False,
        reward_clipping=False, autoreset_mode="SameStep",
    )  # fmt: skip
    agent = Agent(envs.single_action_space.n).to(device)  # type: ignore[attr-defined]
    optimiser = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    print(json.dumps(train(envs, agent, optimiser, device, options)))


def train(envs: Any, agent: Agent, optimiser: Any, device: Any, options: Any) -> dict[str, Any]:
    """The loop; its figures."""
    copies = options.num_envs
    shape = (STEPS, copies)
    rows = {
        name: torch.zeros(shape, device=device) for name in ("logp", "rewards", "values", "ended")
    }
    rows["obs"] = torch.zeros((*shape, 4, 84, 84), dtype=torch.uint8, device=device)
    rows["actions"] = torch.zeros(shape, dtype=torch.int64, device=device)
    seen, info = envs.reset(seed=options.seed)
    obs, lives = torch.as_tensor(seen, device=device), info["lives"]
    totals, games = np.zeros(copies), deque[float](maxlen=100)
    began, steps, marks = time.time(), 0, []
    curve: list[tuple[float, int, float]] = []
    reached = None
    while time.time() - began < options.seconds and reached is None:
        for t in range(STEPS):
            with torch.no_grad():
                chances, values = agent(obs)
                actions = chances.sample()
            rows["obs"][t], rows["values"][t], rows["actions"][t] = obs, values, actions
            rows["logp"][t] = chances.log_prob(actions)
            seen, rewards, terminated, truncated, info = envs.step(actions.cpu().numpy())
            ended = terminated | truncated
            totals += rewards
            games.extend(totals[ended].tolist())
            totals[ended] = 0.0
            lost, lives = (info["lives"] < lives) | ended, info["lives"]
            rows["rewards"][t] = torch.as_tensor(np.sign(rewards), device=device)
            rows["ended"][t] = torch.as_tensor(lost.astype(np.float32), device=device)
            obs = torch.as_tensor(seen, device=device)
        with torch.no_grad():
            last = agent(obs)[1]
        found = advantages(rows["rewards"], rows["values"], rows["ended"], last)
        both = {**rows, "advantages": found, "targets": found + rows["values"]}
        learn(agent, optimiser, {name: column.flatten(0, 1) for name, column in both.items()})
        steps += STEPS * copies
        mean, now = float(np.mean(games)) if games else float("-inf"), time.time() - began
        marks.append((now, steps))
        if games:
            curve.append((round(now, 1), steps, round(mean, 2)))
        if options.target is not None and len(games) == 100 and mean >= options.target:
            reached = {"seconds": round(now, 1), "steps": steps}
    rate = None
    if len(marks) > 2:
        (first, before), (end, after) = marks[0], marks[-1]
        rate = round((after - before) / (end - first), 1)
    return {
        "peer": "PPO as CleanRL does it, with ALE's vector environment",
        "game": options.game, "num_envs": copies, "device": device.type, "steps": steps,
        "steps_per_s": rate, "return": curve[-1][2] if curve else None, "reached": reached,
        "curve": curve[:: max(1, len(curve) // 200)],
    }  # fmt: skip


if __name__ == "__main__":
    main()
