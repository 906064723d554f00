"""An actor that steps environments with its own copy of the policy."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.envs.make import make_envs
from rillflow.envs.stacking import stacked_in
from rillflow.envs.vector import Envs
from rillflow.experience.batch import Array, SampleBatch
from rillflow.experience.fragment_writer import FragmentWriter
from rillflow.experience.running_return import RunningReturn
from rillflow.experience.waiting_steps import WaitingSteps
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.schedules import Scheduled
from rillflow.policies.exploration_schedules import Place
from rillflow.policies.remembering import Remembering
from rillflow.policies.spec import PolicySpec
from rillflow.rl.acting_worker import ActingWorker
from rillflow.rl.burn_in import BurnIn
from rillflow.rl.limits import Limits
from rillflow.types import ActorInfo

_LONG = 10**12
"""steps after which no schedule of exploration changes any more"""


class RolloutWorker(ActingWorker):
    """Samples fragments of experience; arrays are allocated once per fragment, time-major."""

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.envs: Envs = make_envs(
            config.env,
            config.num_envs_per_worker,
            seed=info.seed,
            threads=_own_cores(config),
            **config.env_settings,
        )
        self.envs.lives_end = True
        if config.on_failure != "raise":
            self.envs.mend()
        self.envs.want_infos(config.info_metrics)
        self.limits = Limits(config, info)
        self._step = self.limits.timed(self.envs.step)
        self.obs: Array = self.envs.reset()
        self.remembering: Remembering | None = None
        """a policy that remembers, with what it knows of each environment; at first nothing"""
        self.burn_in: BurnIn | None = None
        """what came before a fragment, for sequences in replay"""
        if spec.recurrent:
            burn_in = getattr(config, "burn_in", 0)
            self.remembering = Remembering(self.policy, self.envs.num_envs, keep=burn_in)
            self.burn_in = BurnIn(burn_in) if burn_in else None
        self.starts: Array = np.ones(self.envs.num_envs, bool)
        """where `obs` is the first of an episode"""
        remembers = self.remembering is not None  # sequences, whose losses look along them
        n_step = 1 if remembers else getattr(config, "n_step", 1)
        self.waiting = WaitingSteps(n_step, 1 if self.burn_in else stacked_in(self.envs))
        self.steps = 0
        self.seconds = {"policy": 0.0, "environments": 0.0}
        """since the last answer, in acting and in stepping the environments"""
        place = Place(info.index, max(1, config.num_workers))
        self.exploring = config.explorer().begin(spec, place)
        self.total_steps = _LONG if _came_late(config, info) else 0
        """since the worker began; exploration follows them"""
        self.scheduled = Scheduled(config)
        scales = config.scale_rewards is not False
        self.running = RunningReturn(self.envs.num_envs) if scales else None

    def sample(self) -> SampleBatch:
        """The next fragment, from where the last one ended."""
        self.limits.before_rollout()
        settings = self.scheduled.at(self.steps_of_all())
        if self.scheduled:
            self.exploring.explorer = settings.explorer()
        self.exploring.start(self.total_steps)
        fragment = self.waiting.begin(self.config.rollout_fragment_length)
        before = None if self.remembering is None else self.remembering.state
        self._act(fragment)
        batch = self.exploring.finish(self.policy, fragment.finish(self.obs, before))
        if self.running is not None:
            waited = fragment.lead, fragment.before
            self.running.cut(fragment.cut_before)
            batch = self.running.written(batch, settings.gamma, *waited)
        if self.burn_in is not None and self.remembering is not None:
            batch = self.burn_in.before(batch, self.remembering.recent[0])
        self.steps += fragment.made
        self.total_steps += fragment.made
        self.limits.after_rollout()
        return self.waiting.hold_back(batch)

    def steps_of_all(self) -> int:
        """Steps of all workers, if they are as far as this one."""
        return self.total_steps * max(1, self.config.num_workers)

    def _act(self, fragment: FragmentWriter) -> None:
        clock, acting, stepping = time.perf_counter, 0.0, 0.0
        act: Any = self.exploring.way()
        policy: Any = self.policy
        looks = self.exploring.explorer.looks_at_starts
        if self.remembering is not None:
            act, policy, looks = self.remembering.step, self.exploring, True
        for _ in range(fragment.length):
            began = clock()
            actions, logp, more = act(policy, self.obs, self.starts)
            acted = clock()
            step = self._step(actions)
            acting, stepping = acting + acted - began, stepping + clock() - acted
            fragment.write(self.obs, actions, logp, step, **more)
            self.obs = step.obs
            if looks:
                self.starts = step.starts
        self.starts = step.starts
        self._took(acting, stepping)

    def _took(self, acting: float, stepping: float) -> None:
        """Told with the next answer: what `run.stats()` shows as parts of sampling."""
        self.seconds["policy"] += acting
        self.seconds["environments"] += stepping

    def play(self, episodes: int, *, greedy: bool = False) -> list[float]:
        """Returns of whole episodes, which begin now; rollouts go on with new ones afterwards.

        All environments play at once, each one episode, until there are enough: no episode counts
        for having ended early. Rewards are as the algorithm sees them.
        """
        returns: list[float] = []
        self.envs.lives_end = False
        while len(returns) < episodes:
            returns += self._one_episode_each(greedy)
        self.envs.lives_end = True
        self.obs = self.envs.reset()
        self.waiting.cut()
        self.starts = np.ones(self.envs.num_envs, bool)
        return returns[:episodes]

    def _one_episode_each(self, greedy: bool) -> list[float]:
        obs = self.envs.reset()
        totals = np.zeros(self.envs.num_envs)
        playing = np.ones(self.envs.num_envs, bool)
        policy = self.policy
        if self.spec.recurrent:
            policy = Remembering(self.policy, self.envs.num_envs)
        while playing.any():
            actions = policy.greedy(obs) if greedy else policy.act(obs)[0]
            step = self._step(actions)
            totals[playing] += step.rewards[playing]
            self.steps += int(playing.sum())
            playing &= ~(step.terminated | step.truncated)
            obs = step.obs
            if policy is not self.policy:
                policy.move_on(step.starts)
        return totals.tolist()

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps made, episodes that ended and where time went since the last answer."""
        steps, self.steps = self.steps, 0
        if not steps:
            return None
        seconds, self.seconds = self.seconds, dict.fromkeys(self.seconds, 0.0)
        told = {"steps": steps, "episodes": self.envs.pop_episodes(), "seconds": seconds}
        failures, notes = self.envs.pop_failures()
        if failures:
            told |= {"counters": {"env_failures": failures}, "notes": notes}
        if self.config.info_metrics:
            told["infos"], notes = self.envs.pop_infos()
            tell_once(told, notes, self.info)
        tell_once(told, self.pop_notes(), self.info)
        return told

    def get_state(self) -> dict[str, Any]:
        """All that the next fragments depend on; the environments' part is as exact as they are."""
        # both go on in C order, whoever is saved here and whoever is restored: the last bits of a
        # product of matrices depend on it
        self.obs = np.ascontiguousarray(self.obs)
        has_target = self.learner is not None and self.learner.target is not None
        return {
            "envs": self.envs.get_state(),
            "policy": self.policy.get_state(),
            "weights": dict(self.weights),
            "target": dict(self.learner.get_target_weights()) if has_target else None,
            "memory": None if self.remembering is None else self.remembering.state,
            "burn_in": None if self.burn_in is None else self.burn_in.get_state(),
            "starts": self.starts,
            "total_steps": self.total_steps,
            "exploring": self.exploring.get_state(),
            "waiting": self.waiting.get_state(),
            "turns": self.turns,
            "running": None if self.running is None else self.running.get_state(),
            "reward_scale": self.reward_scale(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there; environments that cannot be saved go on with new episodes."""
        self.envs.set_state(state["envs"])
        assert self.envs.obs is not None
        self.obs = self.envs.obs
        if self.remembering is not None:
            self.remembering.state = state["memory"]
        if self.burn_in is not None:
            self.burn_in.set_state(state["burn_in"])
        self.starts = state["starts"] if self.envs.exact else np.ones(self.envs.num_envs, bool)
        self.total_steps = state["total_steps"]
        if "exploring" in state:  # version 0.1 had no explorers with a memory, and no tasks
            self.exploring.set_state(state["exploring"])
            self.turns = state["turns"]
        if "waiting" in state:  # version 0.1 cut windows at the ends of fragments
            self.waiting.set_state(state["waiting"])
        if not self.envs.exact:
            self.waiting.cut()
        if self.running is not None and state.get("running") is not None and self.envs.exact:
            self.running.set_state(state["running"])
        if state["weights"]:
            self.set_weights(state["weights"])
        self.policy.set_state(state["policy"])
        if state["target"] is not None:
            self.set_target(state["target"])
        if state.get("reward_scale") is not None:
            self.set_reward_scale(state["reward_scale"])

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()


def tell_once(told: dict[str, Any], notes: list[str], info: ActorInfo) -> None:
    """Add what the user should know of the infos; all workers would say the same."""
    if notes and info.index == 0:
        told["notes"] = [*told.get("notes", ()), *notes]


def _own_cores(config: AlgorithmConfig) -> int:
    """Threads for a worker's native environments: its share of the cores of this machine."""
    return max(1, len(os.sched_getaffinity(0)) // max(1, config.num_workers))


def _came_late(config: AlgorithmConfig, info: ActorInfo) -> bool:
    """Whether others have explored before this worker: it was restarted, or it joined them.

    Nobody tells it how long. It explores as little as it would in the end: a worker that begins
    anew at random would fill replay with what the policy has long left behind.
    """
    return info.incarnation > 0 or info.index >= max(1, config.num_workers)
