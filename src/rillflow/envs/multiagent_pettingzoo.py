"""PettingZoo's parallel API as a `MultiAgentVector`.

A copy begins again within the step in which its last agent ends (the SAME_STEP mode). An agent that
ends earlier, or joins later, has rows that are not `valid` until it acts again. So have all agents
of a copy in a step in which it raises: it begins anew alone. PettingZoo itself is not imported: the
API is a few methods, and any environment with them will do. Masks of actions are in observations,
or in infos from the first reset on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.checks import (
    EnvError,
    EnvFailed,
    flag_mismatch,
    found,
    mismatch,
    number_mismatch,
    raised,
    where,
)
from rillflow.envs.composed_actions import one_of
from rillflow.envs.info_masks import stuck_row
from rillflow.envs.layout import MASK, layout_of
from rillflow.envs.reset_after_error import Mending
from rillflow.envs.spaces import Array, Observations, actions_of, choices_of, observations_of
from rillflow.envs.structured import flat_masks
from rillflow.envs.vector import Step
from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space

_Seen = tuple[dict[str, Any], dict[str, Any]]
"""observations and infos of the agents of one copy"""
_PARTS = ("observations", "rewards", "terminations", "truncations", "infos")


class ParallelEnvs:
    """Copies of a PettingZoo parallel environment.

    Args:
        envs: the copies.
        name: what messages call them.
        make: another copy, for one that raises and cannot be reset; None: there is no other.
        seed: of the first reset; one copy may be reset earlier, to see whether infos hold masks.
        action_masks: whether masks of actions are looked for.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        name: str,
        make: Callable[[], Any] | None = None,
        *,
        seed: int = 0,
        action_masks: bool = True,
    ) -> None:
        first = envs[0]
        if not hasattr(first, "possible_agents"):
            raise BuildError(
                f"environment {name!r}: expected a PettingZoo parallel environment with a fixed "
                f"set of possible_agents, found {found(first)}"
            )
        self.num_envs = len(envs)
        self.agents: tuple[str, ...] = tuple(first.possible_agents)
        self._envs, self._name, self._steps = list(envs), name, 0
        self._raw = {a: first.observation_space(a) for a in self.agents}
        self._acts = {a: actions_of(first.action_space(a), f"{name}[{a!r}]") for a in self.agents}
        self._choices = {
            a: choices_of(acts.space) if action_masks else () for a, acts in self._acts.items()
        }
        self._seen = {
            a: observations_of(s, f"{name}[{a!r}]", sum(self._choices[a]))
            for a, s in self._raw.items()
        }
        self._masked: set[str] = set()
        """agents whose infos hold masks"""
        self._alive = {a: np.zeros(self.num_envs, bool) for a in self.agents}
        self._make = make
        self.mending = Mending(self._begin_copy)
        self._made = 0
        """steps that all copies have made"""
        self.infos: list[dict[str, Any]] = [{} for _ in envs]
        """of the last step, for each copy: the infos of its agents"""
        self._first: tuple[int, Any] | None = None
        """seed and result of a reset of the first copy that nobody has asked for yet"""
        self._look(seed)

    def _look(self, seed: int) -> None:
        """Reset one copy, if some agent's masks may be in its infos."""
        open_ = [a for a in self.agents if self._choices[a] and not _mask_size(self._seen[a])]
        if not open_:
            return
        try:
            result = self._envs[0].reset(seed=seed)
        except Exception:  # told by the reset that is asked for
            return
        self._first = (seed, result)
        infos = result[1] if isinstance(result, tuple) and len(result) == 2 else {}
        for agent in open_:
            info = infos.get(agent) if isinstance(infos, Mapping) else None
            if isinstance(info, Mapping) and MASK in info:
                name, size = f"{self._name}[{agent!r}]", sum(self._choices[agent])
                self._seen[agent] = observations_of(self._raw[agent], name, size, masked=True)
                self._masked.add(agent)

    def observation_space(self, agent: str) -> Box:
        """Of one copy, after encoding."""
        return self._seen[agent].space

    def action_space(self, agent: str) -> Space[Any]:
        """Of one copy, as a policy sees it."""
        return self._acts[agent].space

    def reset(self, *, seed: int | None = None) -> dict[str, Array]:
        """Begin an episode in every copy."""
        self.mending.seed = seed or self.mending.seed
        first = {
            i: self._reset_copy(i, None if seed is None else seed + i) for i in range(self.num_envs)
        }
        obs = {agent: self._encode(agent, first) for agent in self.agents}
        self._check_allowed(obs)
        return obs

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Act in every copy with the agents that live there."""
        self._steps += 1
        taken = {agent: self._acts[agent].to_env(actions[agent]) for agent in self.agents}
        valid = {agent: alive.copy() for agent, alive in self._alive.items()}
        columns = tuple(
            {agent: np.zeros(self.num_envs, kind) for agent in self.agents}
            for kind in (np.float32, bool, bool)
        )
        after: dict[int, _Seen] = {}
        begun: dict[int, _Seen] = {}
        failed: list[int] = []
        for i in range(self.num_envs):
            acting = {agent: one_of(taken[agent], i) for agent in self.agents if valid[agent][i]}
            try:
                *results, after[i] = self._step_copy(i, acting)
            except EnvFailed as error:
                after[i] = self._begin_anew(i, error)
                failed.append(i)
                continue
            for agent in acting:
                for column, result in zip(columns, results, strict=True):
                    column[agent][i] = result[agent]
            self._keep_living(i, acting, after[i][0], results[1], results[2])
            if not any(alive[i] for alive in self._alive.values()):
                begun[i] = self._next_episode(i)
        self._made += self.num_envs
        self.infos = [after[i][1] for i in range(self.num_envs)]
        rewards, terminated, truncated = columns
        cut = _cut_short(valid, failed) if failed else {}
        steps = {}
        for agent in self.agents:
            ended = terminated[agent] | truncated[agent]
            obs = next_obs = self._encode(agent, after, ended)
            if begun:
                rows = list(begun)
                obs = next_obs.copy()
                obs[rows] = self._encode(agent, begun)[rows]
            ends = terminated[agent], truncated[agent]
            steps[agent] = Step(obs, rewards[agent], *ends, valid[agent], next_obs, cut.get(agent))
        self._check_allowed({agent: step.obs for agent, step in steps.items()})
        return steps

    def _check_allowed(self, obs: Mapping[str, Array]) -> None:
        """Refuse a mask that allows nothing to an agent that acts next."""
        for agent, seen in obs.items():
            layout = layout_of(self._seen[agent].space)
            if layout is None or not layout.mask_size:
                continue
            alive = self._alive[agent]
            stuck, text = stuck_row(layout.mask(seen), self._choices[agent], alive)
            if stuck is not None:
                self._refuse(stuck, f"agent {agent!r}: {text}")

    def _keep_living(
        self,
        i: int,
        acting: Mapping[str, Any],
        obs: Mapping[str, Any],
        terminated: Mapping[str, Any],
        truncated: Mapping[str, Any],
    ) -> None:
        """Note who can act next in copy `i`: who stays, who joins; nobody leaves without an end."""
        living = self._envs[i].agents
        for agent in self.agents:
            over = agent in acting and bool(terminated[agent] or truncated[agent])
            stays = agent in living and agent in obs
            if agent in acting and not over and not stays:
                self._refuse(i, f"agent {agent!r} left without terminated or truncated")
            self._alive[agent][i] = stays and not over

    def close(self) -> None:
        """Close every copy."""
        for env in self._envs:
            env.close()

    def _next_episode(self, i: int) -> _Seen:
        try:
            return self._reset_copy(i, None)
        except EnvFailed as error:
            return self._begin_anew(i, error)

    def _begin_anew(self, i: int, error: EnvFailed) -> _Seen:
        """The first observations and infos of the next episode of a copy that raised."""
        try:
            first: _Seen = self.mending.reset(i, error, self._made)
        except EnvFailed as last:
            raise last from error.__cause__
        return first

    def _begin_copy(self, i: int, seed: int | None) -> _Seen:
        """The first observations and infos of a copy's new episode; with a seed, of a new copy."""
        if seed is not None and self._make is not None:
            self.mending.put(self._envs, i, self._make())
        return self._reset_copy(i, seed)

    def _reset_copy(self, i: int, seed: int | None) -> _Seen:
        first, self._first = self._first, None
        try:
            made = first is not None and i == 0 and first[0] == seed
            result = first[1] if first and made else self._envs[i].reset(seed=seed)
        except Exception as error:
            raise raised(error, "reset", self._name, i) from error
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], dict):
            self._refuse(i, f"reset() must return (observations, infos), found {found(result)}")
        obs: dict[str, Any] = result[0]
        self._check_agents(i, obs)
        for agent in self.agents:
            self._alive[agent][i] = agent in obs
        return obs, result[1]

    def _step_copy(self, i: int, actions: dict[str, Any]) -> tuple[Any, Any, Any, _Seen]:
        """Rewards, terminations, truncations, and what is seen of one copy, checked."""
        try:
            result = self._envs[i].step(actions)
        except Exception as error:
            raise raised(error, "step", self._name, i, self._steps) from error
        fine = isinstance(result, tuple) and len(result) == len(_PARTS)
        if not fine or not all(isinstance(part, dict) for part in result):
            names = ", ".join(_PARTS)
            self._refuse(i, f"step() must return five dicts ({names}), found {found(result)}")
        self._check_agents(i, result[0])
        checks = (None, number_mismatch, flag_mismatch, flag_mismatch)
        for agent in actions:
            for part, key, check in zip(result, _PARTS, checks, strict=False):
                if agent not in part:
                    self._refuse(i, f"{key}: expected agent {agent!r}, which acted; it is missing")
                self._refuse(i, check(part[agent], f"{key}[{agent!r}]") if check else None)
        return result[1], result[2], result[3], (result[0], result[4])

    def _check_agents(self, i: int, obs: dict[str, Any]) -> None:
        for agent, value in obs.items():
            if agent not in self._raw:
                self._refuse(i, f"agent {agent!r} is not among possible_agents {self.agents}")
            self._refuse(i, mismatch(self._raw[agent], value, f"observation[{agent!r}]"))

    def _refuse(self, i: int, problem: str | None) -> None:
        if problem:
            raise EnvError(f"{where(self._name, i, self._steps)}: {problem}")

    def _encode(self, agent: str, copies: Mapping[int, _Seen], ended: Array | None = None) -> Array:
        """An agent's observations in one array; zeros in copies where it sees nothing."""
        space, seen = self._raw[agent], self._seen[agent]
        shape = (self.num_envs, *seen.space.shape)
        out: Array = np.zeros(shape, seen.space.dtype)
        rows = [i for i, (obs, _) in copies.items() if agent in obs]
        if not rows:
            return out
        if (space.dtype, space.shape) == (seen.space.dtype, seen.space.shape):
            for i in rows:  # large images are copied once
                out[i] = copies[i][0][agent]
            return out
        masks: tuple[Array, ...] = ()
        if agent in self._masked:
            each = [self._mask(agent, i, copies[i][1], ended) for i in rows]
            masks = (np.stack(each),)
        out[rows] = seen.encode(self._batch(space, [copies[i][0][agent] for i in rows]), *masks)
        return out

    def _batch(self, space: Space[Any], values: list[Any]) -> Any:
        from gymnasium.vector.utils import concatenate, create_empty_array

        empty: Any = create_empty_array(space, n=len(values))
        return concatenate(space, values, empty)

    def _mask(self, agent: str, i: int, infos: Any, ended: Array | None) -> Array:
        """What an agent is allowed in copy `i`, as its info says; all, if its episode is over."""
        size = sum(self._choices[agent])
        info = infos.get(agent, {}) if isinstance(infos, Mapping) else {}
        if MASK not in info:
            if ended is None or not ended[i]:
                self._refuse(i, f"info[{agent!r}]: expected {MASK!r}, as at the first reset")
            return np.ones(size, bool)
        mask = flat_masks(info[MASK])
        if len(mask) != size:
            self._refuse(
                i,
                f"info[{agent!r}][{MASK!r}]: expected {size} numbers, one for each choice of an "
                f"action; found {len(mask)}. If it is something else, set action_masks=False",
            )
        return mask


def _mask_size(seen: Observations) -> int:
    layout = layout_of(seen.space)
    return 0 if layout is None else layout.mask_size


def _cut_short(valid: Mapping[str, Array], failed: list[int]) -> dict[str, Array]:
    """Whose episodes were cut: of the agents that acted in the copies that raised.

    The rows in which they did are no transitions, from now on.
    """
    cut = {}
    for agent, acted in valid.items():
        cut[agent] = np.zeros_like(acted)
        cut[agent][failed] = acted[failed]
        acted[failed] = False
    return cut
