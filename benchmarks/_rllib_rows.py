"""What RLlib asks of its own algorithms: the newest return and the smallest limit it ever gave.

Read from the tuned examples of RLlib 1.13.0 (2022-06) and 2.9.3 (2024-02), its release tests of
1.8.0 to 2.9.3, and its examples of 2026-08. In 1.13.0 CartPole is the one that is cut after 200
steps; here it is always that of 500. Limits are steps of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rillflow.algorithms import impala

TUNED, RELEASE = "tuned example", "release test"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that is asked, and how it is attempted here."""

    algorithm: str
    env: str
    asks: float
    """mean return of 100 episodes"""
    within: int
    """steps"""
    source: str
    """where the return is asked, and where the limit"""
    called: str | None = None
    """the environment, where its name and settings do not say it; it tells rows apart"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """beside the defaults, those that the task itself needs"""
    greedy: bool = False
    """whether the greedy policy counts: of algorithms whose workers explore by adding to what the
    policy does, and where the limit comes before a hundred episodes are over"""
    data: str | None = None
    """what is learned from, of `_recorded.py`; then steps are rows"""
    own_limit: bool = False
    """whether RLlib gives no number of steps, and the limit is ours"""

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.called or self.env}"


def _rows(algorithms: str, env: str, asks: float, within: int, source: str, **more: Any) -> Any:
    names = algorithms.split()
    return [
        Row(algorithm=name, env=env, asks=asks, within=within, source=source, **more)
        for name in names
    ]


CARTPOLE, HIDDEN, PENDULUM = "CartPole-v1", "CartPole-hidden-velocity", "Pendulum-v1"
MOUNTAIN = "MountainCarContinuous-v0"
LSTM: dict[str, Any] = {"memory": "lstm"}
LAKE: dict[str, Any] = {
    "env_config": {
        "desc": ("SFFFFFFF", *["FFFFFFFF"] * 6, "FFFFFFFG"),
        "is_slippery": False,
        "max_episode_steps": 20,
    }
}
RARE: dict[str, Any] = {
    # one episode in thousands finds the goal by chance; an episode that is cut is worth as much as
    # what it would have found later, so only a short horizon makes haste pay
    "num_envs_per_worker": 64,
    "train_batch_size": 16_384,
    "lr": 2e-2,
    "gamma": 0.9,
}
"""of PG; not its settings for every FrozenLake: the slippery one wants a long horizon"""
ECHO = "_rllib_envs:RepeatAfterMe"
TRANSFORMED, TORQUES = "_rllib_envs:transformed_pendulum", "Pendulum, torques from 300 to 500"
PENDULUMS = "_rllib_envs:two_pendulums"
POLES: dict[str, Any] = {"policies": "shared"}

ROWS: tuple[Row, ...] = (
    *_rows("a2c", CARTPOLE, 150, 500_000, "2.9.3 · 1.13.0"),
    *_rows("a2c", HIDDEN, 150, 500_000, f"{RELEASE} 2.9.3", settings=LSTM),
    *_rows("a3c", CARTPOLE, 150, 200_000, "2.9.3 · 1.13.0"),
    *_rows("apex", CARTPOLE, 150, 250_000, "2.9.3 · 1.13.0", greedy=True),
    *_rows(
        "apex_ddpg", PENDULUM, -160, 200_000, "2.9.3", greedy=True, own_limit=True
    ),
    *_rows("apex_ddpg", MOUNTAIN, 90, 300_000, "2.9.3", greedy=True, own_limit=True),
    *_rows("appo", CARTPOLE, 450, 200_000, "2026 · 1.13.0"),
    *_rows("appo", HIDDEN, 300, 500_000, f"2026 · {RELEASE} 2.9.3", settings=LSTM),
    *_rows("appo", "FrozenLake-v1", 0.99, 1_000_000, "2.9.3 · 1.13.0", settings=LAKE),
    *_rows("appo", "MultiAgentCartPole", 350, 200_000, "2026 · 2.9.3", settings=POLES),
    *_rows(
        "appo", "_rllib_envs:two_poles_without_velocities", 150, 2_000_000, "2026",
        called="two CartPoles without velocities",
        settings={**impala.TUNED["CartPole-hidden-velocity"], **POLES},
    ),
    *_rows("appo", PENDULUM, -300, 500_000, "2026 · 1.13.0"),
    *_rows("bc", CARTPOLE, 350, 358_400, "2026", greedy=True, data="cartpole_expert"),
    *_rows("bc", PENDULUM, -200, 500_000, "2026", greedy=True, data="pendulum_expert",
           own_limit=True),
    *_rows("cql", PENDULUM, -700, 200_000, "2026 · 1.13.0", greedy=True, data="pendulum_medium"),
    *_rows("iql", PENDULUM, -200, 1_280_000, "2026", greedy=True, data="pendulum_expert"),
    *_rows("marwil", CARTPOLE, 250, 500_000, "2026 · 1.13.0", greedy=True, data="cartpole_expert"),
    *_rows("ddpg", PENDULUM, -320, 30_000, "2.9.3 · 1.13.0", greedy=True),
    *_rows("ddpg", MOUNTAIN, 90, 300_000, "2.9.3", greedy=True, own_limit=True),
    *_rows("dqn", CARTPOLE, 450, 100_000, "2026 · 1.13.0", greedy=True),
    *_rows("dqn", HIDDEN, 350, 2_000_000, "2026", settings=LSTM, greedy=True),
    *_rows("dqn", "MultiAgentCartPole", 150, 500_000, "2026", settings=POLES),
    *_rows("impala", CARTPOLE, 450, 500_000, "2026 · 1.13.0"),
    *_rows("impala", HIDDEN, 150, 500_000, f"{RELEASE} 2.9.3", settings=LSTM),
    *_rows("impala", "MultiAgentCartPole", 150, 200_000, "2.9.3", settings=POLES),
    *_rows("impala", PENDULUM, -700, 500_000, "2.9.3 · 1.13.0"),
    *_rows("pg", CARTPOLE, 150, 100_000, "2.9.3 · 1.13.0"),
    *_rows("pg", HIDDEN, 130, 500_000, f"{RELEASE} 2.9.3", settings=LSTM),
    *_rows("pg", "FrozenLake-v1", 0.99, 1_000_000, "2.9.3", settings={**LAKE, **RARE}),
    *_rows("ppo", CARTPOLE, 450, 100_000, "2026 · 1.13.0"),
    *_rows("ppo", HIDDEN, 350, 200_000, f"2026 · {RELEASE} 2.9.3", settings=LSTM),
    *_rows("ppo", PENDULUM, -300, 400_000, "2026 · 1.13.0"),
    *_rows("ppo", TRANSFORMED, -500, 400_000, "2.9.3 · 1.13.0", called=TORQUES),
    *_rows(
        "ppo", PENDULUMS, -300, 400_000, "2026", called="two Pendulums", settings=POLES,
        own_limit=True,
    ),
    *_rows(
        "ppo", ECHO, 50, 100_000, "2.9.3 · 1.13.0", called="RepeatAfterMe, of two steps ago",
        settings={**LSTM, "env_config": {"delay": 2}},
    ),
    *_rows("ppo", "MultiAgentCartPole", 450, 400_000, "2026", settings=POLES),
    *_rows("r2d2", HIDDEN, 150, 65_000, f"{RELEASE} 2.9.3", greedy=True),
    *_rows("rainbow", CARTPOLE, 450, 100_000, "as DQN", greedy=True),
    *_rows("sac", CARTPOLE, 150, 100_000, "2.9.3 · 1.13.0"),
    *_rows("sac", PENDULUM, -250, 10_000, "2026 · 1.13.0", greedy=True),
    *_rows("sac", TRANSFORMED, -200, 10_000, "2.9.3 · 1.13.0", called=TORQUES, greedy=True),
    *_rows(
        "sac", PENDULUMS, -450, 20_000, "2026", called="two Pendulums", settings=POLES,
        own_limit=True,
    ),
    *_rows(
        "sac", ECHO, -50, 4_500, f"{RELEASE} 2.9.3", called="RepeatAfterMe, continuous",
        settings={"env_config": {"delay": 0, "continuous": True}}, greedy=True,
    ),
    *_rows(
        "sac", ECHO, 40, 4_500, f"{RELEASE} 2.9.3", called="RepeatAfterMe, discrete",
        settings={"env_config": {"delay": 0}}, greedy=True,
    ),
    *_rows("simple_q", CARTPOLE, 150, 50_000, "2.9.3 · 1.13.0", greedy=True),
    *_rows(
        "simple_q", CARTPOLE, 50, 10_000, "2.9.3", called="CartPole-v1, the short test", greedy=True
    ),
    *_rows("td3", PENDULUM, -900, 100_000, "2.9.3 · 1.13.0", greedy=True),
    *_rows(
        "td3", ECHO, -50, 25_000, f"{RELEASE} 2.9.3", called="RepeatAfterMe, continuous",
        settings={"env_config": {"delay": 0, "continuous": True}}, greedy=True,
    ),
    *_rows(
        "ddpg", ECHO, -50, 8_000, f"{RELEASE} 2.9.3", called="RepeatAfterMe, continuous",
        settings={"env_config": {"delay": 0, "continuous": True}}, greedy=True,
    ),
)  # fmt: skip

NOT_ATTEMPTED: tuple[tuple[str, str], ...] = (
    (
        "Pong, Breakout and other Atari games (Ape-X, APPO, DQN, IMPALA, PPO, Rainbow, SAC)",
        "3 to 45 million steps on GPUs and up to 128 workers: days on two cores",
    ),
    (
        "HalfCheetah, Hopper, Walker2d, Ant and Humanoid of MuJoCo (DDPG, PPO, SAC, TD3, BC, CQL, "
        "MARWIL)",
        "up to 1,000,000 steps at one update each: hours of processor time a seed",
    ),
    (
        "HalfCheetahBullet, HopperBullet, CartPoleContinuousBullet (DDPG, SAC)",
        "PyBullet's environments are for Gym, which Gymnasium replaced",
    ),
    ("InvertedPendulum of MuJoCo (TD3)", "asks for 9,999.9, and the best return is 1,000"),
    ("MAML on CartPole, PendulumMass, AntRandGoal, HalfCheetahRandDirec", "asks for no return"),
    (
        "self-play in tic-tac-toe and two-player Pong (APPO, IMPALA)",
        "there are no such environments here",
    ),
    ("the two-step game (QMIX, MADDPG)", "there is neither algorithm here"),
    (
        "AlphaStar, AlphaZero, ARS, CRR, DD-PPO, Dreamer, DT, ES, MB-MPO, SlateQ, TQC",
        "there is no such algorithm here",
    ),
)
"""what RLlib asks, and why it is not attempted"""
