"""Whole episodes played with trained policies: the loops behind every evaluation.

Each environment plays its share to the end: the first episodes to finish would be the short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rillflow.envs.final_info import Figures
from rillflow.envs.multiagent import starts_after
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.errors import RunError
from rillflow.results.player import Player, env_of, open_envs
from rillflow.results.trained.policy import env_to_play

if TYPE_CHECKING:
    from rillflow.results.trained import Trained, TrainedAgents

Watch = Callable[[], object]
"""called before each step; what it raises ends the episodes"""


class Episode(NamedTuple):
    """One that was played to its end."""

    total: float
    """its return"""
    length: int
    infos: Figures
    """what its last info had of `info_metrics`"""


_COPIES = 20
"""environments that are played side by side"""


def play(
    trained: Trained, player: Player, episodes: int, seed: int, most: int, watch: Watch = int
) -> list[Episode]:
    """So many episodes of one policy; one that takes more than `most` steps is an error."""
    count = min(episodes, _COPIES)
    envs = open_envs(trained, env_of(trained), count, seed, trained.config.env_config)
    envs.want_infos(trained.config.info_metrics)
    try:
        shares = _Shares(count, episodes, count)
        obs, starts = envs.reset(), np.ones(count, bool)
        while shares.left.any():
            watch()
            step = envs.step(player.act(obs, starts))
            shares.note(step, envs.pop_episodes(), envs.pop_infos()[0])
            shares.check(envs.name, most)
            obs, starts = step.obs, step.starts
        return shares.played()
    finally:
        envs.close()


def play_agents(
    trained: TrainedAgents,
    players: Mapping[str, Player],
    episodes: int,
    seed: int,
    most: int,
    watch: Watch = int,
) -> dict[str, list[Episode]]:
    """For each policy of several agents, so many episodes of each of its agents."""
    for own in trained.policies.values():
        env_to_play(own)
    count, config = min(episodes, _COPIES), trained.config
    envs = make_multi_agent_envs(
        config.env,
        count,
        trained.agents,
        seed=seed,
        **config.env_settings
        | {"action_masks": any(own.spec.masked for own in trained.policies.values())},
    )
    envs.want_infos(config.info_metrics)
    try:
        shares = {name: _Shares(envs.rows(name), episodes, count) for name in envs.groups}
        obs = envs.reset()
        starts = {name: np.ones(envs.rows(name), bool) for name in envs.groups}
        while any(share.left.any() for share in shares.values()):
            watch()
            acts = {name: players[name].act(seen, starts[name]) for name, seen in obs.items()}
            steps = envs.step(acts)
            ended, infos = envs.pop_episodes(), envs.pop_infos()[0]
            for name, share in shares.items():
                share.note(steps[name], ended.get(name, []), infos.get(name, []))
                share.check(envs.name, most)
            obs = {name: step.obs for name, step in steps.items()}
            starts = {name: starts_after(step, starts[name]) for name, step in steps.items()}
        return {name: share.played() for name, share in shares.items()}
    finally:
        envs.close()


class _Shares:
    """How many episodes each row still has to play, and those that it has played."""

    def __init__(self, rows: int, episodes: int, copies: int) -> None:
        share = [episodes // copies + (i < episodes % copies) for i in range(copies)]
        self.left = np.tile(share, rows // copies)
        self._since = np.zeros(rows, int)
        self._played: list[list[Episode]] = [[] for _ in range(rows)]

    def note(self, step: Any, episodes: list[tuple[float, int]], infos: list[Figures]) -> None:
        """One step, and the episodes that ended with it, in the order of the rows."""
        self._since += 1
        ended = np.flatnonzero(step.terminated | step.truncated)
        said = infos or [{}] * len(ended)
        for row, (total, length), own in zip(ended, episodes, said, strict=True):
            self._since[row] = 0
            if self.left[row]:
                self.left[row] -= 1
                self._played[row].append(Episode(float(total), int(length), own))

    def check(self, name: str, most: int) -> None:
        """Give up on an episode that may never end."""
        if (self._since[self.left > 0] >= most).any():
            raise RunError(
                f"evaluate: an episode of {name!r} did not end in {most} steps: give "
                "the environment a limit (gymnasium.wrappers.TimeLimit), or a larger max_steps."
            )

    def played(self) -> list[Episode]:
        """All of them, row by row."""
        return [episode for row in self._played for episode in row]
