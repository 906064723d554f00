"""Several agents in one environment, grouped by the policy that acts for them.

A multi-agent vector environment is anything with the methods of `MultiAgentVector`: for each agent
it speaks in batches over its copies, with the same `Step` as single-agent environments. Agents
need not begin and end together; a row in which an agent did not act is not `valid`.

`MultiAgentEnvs` then speaks per policy: agents mapped to one policy are one batch, agent by agent,
so row `a * num_envs + i` is the policy's `a`-th agent in copy `i`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rillflow.envs.checks import (
    EnvError,
    EnvFailed,
    actions_mismatch,
    mismatch,
    not_finite,
    raised,
    where,
)
from rillflow.envs.episode_returns import Episodes
from rillflow.envs.final_info import Figures, FinalInfos
from rillflow.envs.reset_after_error import Mending, mending_of, replaced
from rillflow.envs.spaces import Array
from rillflow.envs.step import Step, begun_anew

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space


class MultiAgentVector(Protocol):
    """What a multi-agent vector environment has to offer; plain arrays in and out.

    It may also have `get_state()` and `set_state(state)`, if it can continue exactly; and `infos`,
    for each copy a dict with the info of each agent after the last step.
    """

    num_envs: int
    agents: Sequence[str]
    """every agent that can ever act"""

    def observation_space(self, agent: str) -> Box:
        """Of one copy: float32, or uint8 for an image."""
        ...

    def action_space(self, agent: str) -> Space[Any]:
        """Of one copy: Discrete, MultiDiscrete or Box."""
        ...

    def reset(self, *, seed: int | None = None) -> Mapping[str, Array]:
        """Begin new episodes in every copy; for each agent its observations [B, ...]."""
        ...

    def step(self, actions: Mapping[str, Array]) -> Mapping[str, Step]:
        """Act with every agent in every copy; actions in rows that cannot act are ignored."""
        ...

    def close(self) -> None:
        """Let the environments go."""
        ...


@dataclass(frozen=True)
class PolicyGroup:
    """The agents one policy acts for, and the spaces they share."""

    agents: tuple[str, ...]
    observation_space: Box
    action_space: Space[Any]


class MultiAgentEnvs:
    """A multi-agent vector environment as one batch per policy; see `make_multi_agent_envs`.

    With `again`, which makes another one, a vector that raises as a whole is replaced.
    """

    def __init__(
        self,
        vector: MultiAgentVector,
        groups: Mapping[str, PolicyGroup],
        *,
        name: str,
        seed: int = 0,
        again: Callable[[], MultiAgentVector] | None = None,
    ) -> None:
        from gymnasium.vector.utils import batch_space

        self.name, self.vector, self.groups = name, vector, dict(groups)
        self.num_envs = vector.num_envs
        self.obs: dict[str, Array] | None = None
        """for each policy the observations to act on now; None before the first reset"""
        self._seed = seed & 0x3FFFFFFF
        self._steps = 0
        self._batched = {
            agent: batch_space(vector.observation_space(agent), vector.num_envs)
            for agent in vector.agents
        }
        self._episodes = {policy: Episodes(self.rows(policy)) for policy in self.groups}
        self._infos: dict[str, FinalInfos] = {}
        self.exact = hasattr(type(vector), "get_state") and getattr(vector, "exact", True)
        """whether `set_state` continues exactly where `get_state` was called"""
        self._open = {policy: np.zeros(self.rows(policy), bool) for policy in self.groups}
        """for each policy the rows whose last step was a transition and no end: what can be cut"""
        self._again = again if getattr(vector, "mending", None) is None else None
        self.mending: Mending | None = mending_of(vector, again, self._begin_all, self._seed)
        """what begins anew after it has raised; None: nothing can"""
        self.shrunk: str | None = getattr(vector, "shrunk", None)
        """what to tell of images that are smaller than the environment's, though nobody said so"""

    def rows(self, policy: str) -> int:
        """How many rows a policy's batch has: its agents times the copies."""
        return len(self.groups[policy].agents) * self.num_envs

    def reset(self) -> dict[str, Array]:
        """Begin new episodes everywhere; the first call seeds the environment."""
        return self._reset(self._seed if self.obs is None else None)

    def _reset(self, seed: int | None) -> dict[str, Array]:
        return self._begun(self.vector.reset(seed=seed))

    def _begun(self, first: Mapping[str, Array]) -> dict[str, Array]:
        """New episodes everywhere, from each agent's first observations."""
        for policy, episodes in self._episodes.items():
            episodes.begin()
            self._open[policy] = np.zeros(self.rows(policy), bool)
        self.obs = {
            policy: np.concatenate([self._checked(agent, first[agent]) for agent in group.agents])
            for policy, group in self.groups.items()
        }
        return self.obs

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Act once with every policy for all of its agents."""
        if self.obs is None:
            raise EnvError(f"{where(self.name)}: call reset() before step()")
        taken = self._split(actions)
        self._steps += 1
        try:
            results = self.vector.step(taken)
        except EnvError:
            raise
        except Exception as error:
            return self._all_anew(error)
        steps = {}
        for policy, group in self.groups.items():
            parts = [self._checked_step(agent, results[agent]) for agent in group.agents]
            steps[policy] = self._count(policy, join_steps(parts))
        self.obs = {policy: step.obs for policy, step in steps.items()}
        return steps

    def pop_episodes(self) -> dict[str, list[tuple[float, int]]]:
        """For each policy, return and length of its agents' episodes that ended since."""
        return {policy: episodes.pop() for policy, episodes in self._episodes.items()}

    def mend(self) -> None:
        """From now on what raises, now and then, begins anew: a copy, or a vector of one piece."""
        if self.mending is not None:
            self.mending.allowed = True

    def pop_failures(self) -> tuple[int, list[str]]:
        """How many failed and began anew since the last call, and what is told of them."""
        return self.mending.pop() if self.mending is not None else (0, [])

    def want_infos(self, names: Sequence[str]) -> None:
        """From now on read these figures from the info with which an agent's episode ends."""
        if not names:
            return
        if not hasattr(self.vector, "infos"):
            raise EnvError(
                f"{where(self.name)}: info_metrics needs the infos of its agents, and this vector "
                "has none: give it an attribute `infos`, a list with a dict for each copy"
            )
        self._infos = {policy: FinalInfos(names, self.name) for policy in self.groups}

    def _read_infos(self, policy: str, done: Array) -> None:
        infos: Any = self.vector.infos  # type: ignore[attr-defined]
        agents = self.groups[policy].agents
        for row in done.nonzero()[0].tolist():
            agent, copy = divmod(row, self.num_envs)
            self._infos[policy].read(infos[copy].get(agents[agent]) or {})

    def pop_infos(self) -> tuple[dict[str, list[Figures]], list[str]]:
        """What was wanted of each episode of the next `pop_episodes`, and what to tell the user."""
        notes = [note for one in self._infos.values() for note in one.pop_notes()]
        return {policy: one.pop() for policy, one in self._infos.items()}, notes

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on later; the environment itself only if `exact`."""
        vector: Any = self.vector
        return {
            "env": vector.get_state() if self.exact and self.obs is not None else None,
            "obs": None if self.obs is None else {k: v.copy() for k, v in self.obs.items()},
            "episodes": {policy: e.get_state() for policy, e in self._episodes.items()},
            "steps": self._steps,
            "infos": {policy: infos.get_state() for policy, infos in self._infos.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`; if it was not exact, with new episodes, differently seeded."""
        vector: Any = self.vector
        self._steps = state["steps"]
        for policy, episodes in self._episodes.items():
            episodes.set_state(state["episodes"][policy])
            if policy in self._infos:
                ended = state.get("infos", {}).get(policy, [])
                self._infos[policy].set_state(ended, len(state["episodes"][policy]["ended"]))
        if state["obs"] is None:
            self.obs = None
        elif state["env"] is None or not self.exact:
            # not the first seed again: that would replay the episodes already learned from
            fresh = np.random.SeedSequence([self._seed, self._steps]).generate_state(1)[0]
            self._reset(int(fresh) & 0x3FFFFFFF)
        else:
            vector.set_state(state["env"])
            self.obs = {policy: obs.copy() for policy, obs in state["obs"].items()}

    def close(self) -> None:
        """Let the environments go."""
        self.vector.close()

    def _split(self, actions: Mapping[str, Array]) -> dict[str, Array]:
        if actions.keys() != self.groups.keys():
            raise EnvError(
                f"{where(self.name)}: expected actions of the policies {sorted(self.groups)}, "
                f"found {sorted(actions)}"
            )
        taken: dict[str, Array] = {}
        for policy, group in self.groups.items():
            batch = np.asarray(actions[policy])
            problem = actions_mismatch(group.action_space, batch, self.rows(policy))
            if problem:
                raise EnvError(f"{where(self.name)}: policy {policy!r}: {problem}")
            parts = batch.reshape(len(group.agents), self.num_envs, *batch.shape[1:])
            taken.update(zip(group.agents, parts, strict=True))
        return taken

    def _checked(self, agent: str, obs: Array, what: str = "observation") -> Array:
        key = f"{what}[{agent!r}]"
        problem = mismatch(self._batched[agent], obs, key)
        if problem:
            raise EnvError(f"{where(self.name, step=self._steps)}: {problem}")
        if obs.dtype.kind == "f" and not np.isfinite(obs).all():
            raise not_finite(self.name, self._steps, obs, obs, key)
        return obs

    def _checked_step(self, agent: str, step: Step) -> Step:
        self._checked(agent, step.obs)
        if step.next_obs is not None:
            self._checked(agent, step.next_obs, "next observation")
        rewards = step.rewards
        if rewards.shape != (self.num_envs,):
            raise EnvError(
                f"{where(self.name, step=self._steps)}: reward[{agent!r}]: expected shape "
                f"({self.num_envs},), found shape {rewards.shape}"
            )
        if not np.isfinite(rewards).all():
            raise not_finite(self.name, self._steps, rewards, rewards, f"reward[{agent!r}]")
        return step

    def _count(self, policy: str, step: Step) -> Step:
        """The step, counted; only an episode that had begun can be cut in it."""
        done = step.terminated | step.truncated
        if step.cut is not None:
            cut = step.cut & self._open[policy]
            step = step._replace(cut=cut)
            self._episodes[policy].forget(cut)
        self._open[policy] = ~done if step.valid is None else step.valid & ~done
        self._episodes[policy].count(step.rewards, step.valid)
        if done.any():
            self._episodes[policy].end(done)
            if self._infos:
                self._read_infos(policy, done)
        return step

    def _all_anew(self, error: Exception) -> dict[str, Step]:
        """What stands for a step in which the whole vector raised: new episodes everywhere."""
        failure = raised(error, "step", self.name, step=self._steps)
        if self.mending is None or self._again is None:
            raise failure from error
        try:
            first = self.mending.reset(0, failure, self._steps)
        except EnvFailed as last:
            raise last from error
        cut = self._open
        self._open = {}
        begun = self._begun(first)
        return {name: begun_anew(obs, cut[name], skips=True) for name, obs in begun.items()}

    def _begin_all(self, index: int, seed: int | None) -> Mapping[str, Array]:
        """The first observations of another vector in the place of this one."""
        assert self._again is not None
        self.vector = replaced(self.vector, self._again, self.name)
        try:
            return self.vector.reset(seed=seed)
        except EnvError:
            raise
        except Exception as error:
            raise raised(error, "reset", self.name) from error


def starts_after(step: Step, starts: Array) -> Array:
    """Where the observation after a step is the first of an agent's episode.

    An agent that does not act for a while goes on later with the same episode, as in games that
    take turns; one whose episode has ended begins its next one when it acts again.

    Args:
        step: of all the agents of a policy, or of one.
        starts: where the observation before the step was a first one.
    """
    if step.valid is None or step.next_obs is None:
        return step.starts
    after: Array = step.terminated | step.truncated | (starts & ~step.valid)
    return after if step.cut is None else after | step.cut


def join_steps(parts: Sequence[Step]) -> Step:
    """The steps of several agents as one batch, agent by agent."""
    if len(parts) == 1:
        return parts[0]
    valid = next_obs = None
    if any(part.valid is not None for part in parts):
        whole = [np.ones(len(p.rewards), bool) if p.valid is None else p.valid for p in parts]
        valid = np.concatenate(whole)
    if any(part.next_obs is not None for part in parts):
        next_obs = np.concatenate([p.obs if p.next_obs is None else p.next_obs for p in parts])
    cut = None
    if any(part.cut is not None for part in parts):
        cuts = [np.zeros(len(p.rewards), bool) if p.cut is None else p.cut for p in parts]
        cut = np.concatenate(cuts)
    obs, rewards, terminated, truncated = (
        np.concatenate([part[i] for part in parts]) for i in range(4)
    )
    return Step(obs, rewards, terminated, truncated, valid, next_obs, cut)
