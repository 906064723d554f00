"""An actor that steps a multi-agent environment with several policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.multiagent import starts_after
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.experience.batch import Array, MultiAgentBatch
from rillflow.experience.running_return import RunningReturn
from rillflow.experience.waiting_steps import WaitingSteps
from rillflow.learning.acting_device import device_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.schedules import Scheduled
from rillflow.policies.exploration_schedules import Place
from rillflow.policies.make import make_actor, pop_notes_of
from rillflow.policies.remembering import Remembering
from rillflow.policies.spec import PolicySpec
from rillflow.rl.burn_in import BurnIn
from rillflow.rl.limits import Limits
from rillflow.rl.rollout_worker import tell_once
from rillflow.types import ActorInfo

if TYPE_CHECKING:
    from rillflow.rl.multi_agent import MultiAgentConfig


class MultiAgentWorker:
    """Samples fragments in which every agent acts with the policy it is mapped to."""

    def __init__(
        self,
        config: MultiAgentConfig,
        settings: Mapping[str, AlgorithmConfig],
        specs: Mapping[str, PolicySpec],
        info: ActorInfo,
    ) -> None:
        self.config = config
        self.settings = settings
        self.info = info
        self.envs = make_multi_agent_envs(
            config.env,
            config.num_envs_per_worker,
            config.policy_mapping,
            policies=config.policies,
            seed=info.seed,
            **config.env_settings,
        )
        shared = next(iter(settings.values()))
        if shared.on_failure != "raise":
            self.envs.mend()
        self._info_metrics = shared.info_metrics
        self.envs.want_infos(self._info_metrics)
        self.policies: dict[str, Any] = {}
        self._notes: list[str] = []
        for i, (name, spec) in enumerate(specs.items()):
            device, note = device_of(spec, settings[name], info.engine, info.index)
            self.policies[name] = make_actor(spec, info.seed + i, device)
            self._notes += [f"policy {name!r} {note}"] if note else []
        self.limits = Limits(next(iter(settings.values())), info)
        self._step = self.limits.timed(self.envs.step)
        self.obs: Mapping[str, Array] = self.envs.reset()
        self.starts = {name: np.ones(len(obs), bool) for name, obs in self.obs.items()}
        """where an observation is the first of an episode"""
        place = Place(info.index, max(1, config.num_workers))
        self.exploring = {
            name: settings[name].explorer().begin(spec, place) for name, spec in specs.items()
        }
        burn_ins = {name: getattr(settings[name], "burn_in", 0) for name in specs}
        self.remembering = {
            name: Remembering(self.policies[name], len(self.obs[name]), keep=burn_ins[name])
            for name, spec in specs.items()
            if spec.recurrent
        }
        """policies that remember, with what they know of each agent in each environment"""
        self.burn_in = {name: BurnIn(burn_ins[name]) for name in self.remembering if burn_ins[name]}
        """what came before a fragment, for sequences in replay"""
        self.waiting = {
            name: WaitingSteps(1 if name in self.remembering else getattr(own, "n_step", 1))
            for name, own in settings.items()
        }
        """steps whose windows reach into the next fragment; sequences have none"""
        self.scheduled = {name: Scheduled(settings[name]) for name in specs}
        self.running = {
            name: RunningReturn(len(self.obs[name]))
            for name in specs
            if settings[name].scale_rewards is not False
        }
        self.steps = 0
        self.total_steps = 0

    def sample(self) -> MultiAgentBatch:
        """The next fragment of each policy, from where the last one ended."""
        self.limits.before_rollout()
        length = self.config.rollout_fragment_length
        now = {name: one.at(self._steps_of_all(name)) for name, one in self.scheduled.items()}
        for name, exploring in self.exploring.items():
            if self.scheduled[name]:
                exploring.explorer = now[name].explorer()
            exploring.start(self.total_steps)
        fragments = {name: self.waiting[name].begin(length) for name in self.policies}
        before = {name: known.state for name, known in self.remembering.items()}
        for _ in range(length):
            acts = {name: self._act(name) for name in self.policies}
            steps = self._step({name: actions for name, (actions, _, _) in acts.items()})
            for name, step in steps.items():
                actions, logp, more = acts[name]
                fragments[name].write(self.obs[name], actions, logp, step, **more)
            self.obs = {name: step.obs for name, step in steps.items()}
            self.starts = {
                name: starts_after(step, self.starts[name]) for name, step in steps.items()
            }
        made = length * self.config.num_envs_per_worker
        self.steps += made
        self.total_steps += made
        self.limits.after_rollout()
        batches = {n: f.finish(self.obs[n], before.get(n)) for n, f in fragments.items()}
        for name, policy in self.policies.items():
            batches[name] = self.exploring[name].finish(policy, batches[name])
        for name, running in self.running.items():
            waited = fragments[name].lead, fragments[name].before
            running.cut(fragments[name].cut_before)
            batches[name] = running.written(batches[name], now[name].gamma, *waited)
        for name, burn_in in self.burn_in.items():
            batches[name] = burn_in.before(batches[name], self.remembering[name].recent[0])
        return MultiAgentBatch({n: self.waiting[n].hold_back(b) for n, b in batches.items()})

    def _act(self, name: str) -> tuple[Array, Array, dict[str, Array]]:
        """What a policy does for all of its agents."""
        exploring, obs, starts = self.exploring[name], self.obs[name], self.starts[name]
        if name in self.remembering:
            return self.remembering[name].step(exploring, obs, starts)
        return exploring.act(self.policies[name], obs, starts)

    def _steps_of_all(self, policy: str) -> float:
        """Steps of a policy's agents in all workers, if they are as far as this one."""
        agents = len(self.obs[policy]) / self.config.num_envs_per_worker
        return self.total_steps * agents * max(1, self.config.num_workers)

    def set_weights(self, weights: Mapping[str, Mapping[str, Array]]) -> None:
        """Act with these from now on: weights by policy."""
        for name, own in weights.items():
            self.policies[name].set_weights(own)

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps of the environments and, for each policy, episodes that ended since."""
        steps, self.steps = self.steps, 0
        if not steps:
            return None
        told: dict[str, Any] = {"steps": steps, "policies": self.envs.pop_episodes()}
        failures, notes = self.envs.pop_failures()
        if failures:
            told |= {"counters": {"env_failures": failures}, "notes": notes}
        if self._info_metrics:
            told["infos"], notes = self.envs.pop_infos()
            tell_once(told, notes, self.info)
        own, self._notes = self._notes, []
        own += [note for policy in self.policies.values() for note in pop_notes_of(policy)]
        tell_once(told, own, self.info)
        return told

    def get_state(self) -> dict[str, Any]:
        """Environments and policies; see `MultiAgentEnvs.exact`."""
        # in C order, as they are where they are restored: the last bits of products depend on it
        self.obs = {name: np.ascontiguousarray(obs) for name, obs in self.obs.items()}
        return {
            "envs": self.envs.get_state(),
            "policies": {name: policy.get_state() for name, policy in self.policies.items()},
            "total_steps": self.total_steps,
            "starts": self.starts,
            "running": {name: one.get_state() for name, one in self.running.items()},
            "exploring": {name: one.get_state() for name, one in self.exploring.items()},
            "waiting": {name: one.get_state() for name, one in self.waiting.items()},
            "memory": {name: known.state for name, known in self.remembering.items()},
            "burn_in": {name: kept.get_state() for name, kept in self.burn_in.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.envs.set_state(state["envs"])
        assert self.envs.obs is not None
        self.obs = self.envs.obs
        for name, policy in self.policies.items():
            policy.set_state(state["policies"][name])
        self.total_steps = state["total_steps"]
        for name, running in self.running.items():
            if name in state.get("running", {}):
                running.set_state(state["running"][name])
        if "exploring" in state:  # version 0.1 had no explorers with a memory
            self.starts = dict(state["starts"])
            if not self.envs.exact:  # they go on with new episodes
                self.starts = {name: np.ones(len(obs), bool) for name, obs in self.obs.items()}
            for name, one in self.exploring.items():
                one.set_state(state["exploring"][name])
        for name, waiting in self.waiting.items():
            if "waiting" in state:  # version 0.1 cut windows at the ends of fragments
                waiting.set_state(state["waiting"][name])
            if not self.envs.exact:
                waiting.cut()
        for name, known in self.remembering.items():
            known.state = state["memory"][name]
        for name, kept in self.burn_in.items():
            kept.set_state(state["burn_in"][name])

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()
