"""One uniform face over any Gymnasium vector environment; `step.py` says what a step of it is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.autoreset import autoreset_mode, final_observations, missing_final
from rillflow.envs.checks import (
    EnvError,
    EnvFailed,
    actions_mismatch,
    flags_mismatch,
    mismatch,
    not_finite,
    raised,
    result_mismatch,
    rewards_of,
    where,
)
from rillflow.envs.episode_returns import Bools, Episodes
from rillflow.envs.final_info import ReadsInfos
from rillflow.envs.info_masks import InfoMasks, stuck_row
from rillflow.envs.layout import MASK, all_finite, layout_of
from rillflow.envs.lives import Lives
from rillflow.envs.preprocessing import Preprocessing, preprocessed, shrunk_by_default, stack_of
from rillflow.envs.reset_after_error import Mending, mending_of, replaced
from rillflow.envs.spaces import Array, actions_of, choices_of, is_box, observations_of
from rillflow.envs.state import state_of
from rillflow.envs.step import Step as Step
from rillflow.envs.step import begun_anew

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium.spaces import Box, Space


_STEP = ("observations", "rewards", "terminations", "truncations", "info")
_ONE = np.float32(1)


class Envs(ReadsInfos):
    """A vector environment with plain arrays, checked results and episode statistics.

    Args:
        vector: the environment.
        name: what messages call it.
        seed: of its first reset.
        clip_rewards: to [-1, 1]; episodes count the environment's own.
        lives: whether infos tell of lives; see `lives_end`.
        stacked_frames: so many frames are one observation already, as the environment gives it.
        again: makes another one, if that is possible: one of one piece that raises is replaced.
    """

    def __init__(
        self,
        vector: Any,
        *,
        name: str,
        seed: int = 0,
        clip_rewards: bool = False,
        lives: bool = False,
        stacked_frames: int = 1,
        preprocessing: Preprocessing | None = None,
        action_masks: bool = True,
        again: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self.num_envs = int(vector.num_envs)
        self.obs: Array | None = None
        """the observation to act on now; None before the first reset"""
        self.vector = vector
        """the environment itself, for what this face does not cover"""
        self._seed = seed & 0x3FFFFFFF  # native environments take 32 signed bits, and count up
        self._clip_rewards = clip_rewards
        self._lives = Lives(self.num_envs, name) if lives else None
        self.lives_end = False
        """whether a life lost ends an episode for whoever learns; whole games are counted"""
        self._mode = autoreset_mode(vector, name)
        self._actions = actions_of(vector.single_action_space, name)
        self._choices = choices_of(self._actions.space) if action_masks else ()
        self._how = preprocessing or Preprocessing()
        seen = observations_of(vector.single_observation_space, name, sum(self._choices))
        self._observations = preprocessed(seen, self._how, name)
        self.shrunk = shrunk_by_default(seen.space, self._how)
        """what to tell of images that are smaller than the environment's, though nobody said so"""
        self._stack = stack_of(self._observations.space, self._how)
        self.frames = getattr(self._stack, "joined_first", stacked_frames)
        """that one observation holds, one behind the other"""
        self._layout = layout_of(self._observations.space)
        self._masks: InfoMasks | None = None  # reads those in infos
        masked = self._layout is not None and self._layout.mask_size > 0
        self._looked = masked or not self._choices  # whether it is known where masks are
        self._first: Any = None  # of the first reset, if it was made to look for masks
        self._state = state_of(vector)
        self._mends, self._again = hasattr(vector, "mending"), again
        self.mending: Mending | None = mending_of(vector, again, self._begin_all, self._seed)
        """what begins anew after it has raised; None: nothing can"""
        self._steps = 0
        self._seeded = self._closed = self._reuses = False
        self._seen: Array = np.empty(0)
        self._was_done, self._ended = np.zeros(self.num_envs, bool), False
        self._episodes = Episodes(self.num_envs)
        space = vector.observation_space
        self._expected = (space.shape, space.dtype) if is_box(space) else None
        # what every step is compared with: asked for once, because asking costs more than comparing
        self._flags = (self.num_envs,), np.dtype(bool)
        self._action_shape = (self.num_envs, *(self.action_space.shape or ()))
        self._indexed = isinstance(self.action_space.dtype, np.dtype) and (
            self.action_space.dtype.kind in "iu"
        )

    @property
    def observation_space(self) -> Box:
        """Of one environment: float32, or uint8 for an image; a first reset tells of masks."""
        if not self._looked:
            with suppress(EnvError):  # told by the reset that is asked for
                self._first = self._call_reset(seed=self._seed)
                self._look(self._first[1])
        return self._observations.space if self._stack is None else self._stack.space

    @property
    def action_space(self) -> Space[Any]:
        """Of one environment: Discrete and MultiDiscrete from 0, or Box."""
        return self._actions.space

    @property
    def skips_steps(self) -> bool:
        """Whether a Step can hold rows that are not transitions (the NEXT_STEP mode)."""
        return self._mode == "NextStep"

    @property
    def exact(self) -> bool:
        """Whether `set_state` continues exactly where `get_state` was called."""
        return self._state is not None

    def reset(self) -> Array:
        """Begin new episodes everywhere; the first call seeds the environments."""
        return self._reset(None if self._seeded else self._seed)

    def _reset(self, seed: int | None) -> Array:
        first, self._first = self._first, None
        made = first is not None and not self._seeded and seed == self._seed
        first = first if made else self._call_reset(seed=seed)
        self._look(first[1])
        self._seeded = True
        return self._begin_everywhere(*first)

    def _begin_everywhere(self, raw: Any, info: dict[str, Any]) -> Array:
        self._was_done, self._ended = np.zeros(self.num_envs, bool), False
        self._episodes.begin()
        if self._lives is not None:
            self._lives.begin(info)
        self.obs = self._encode(raw, info).copy()
        self._check_allowed(self.obs)
        if self._stack is not None:
            self.obs = self._stack.begin(self.obs)
        return self.obs

    def _look(self, info: dict[str, Any]) -> None:
        """See from the first reset whether infos hold masks of actions."""
        if self._looked:
            return
        self._looked = True
        if MASK not in info:
            return
        space = self.vector.single_observation_space
        masks = InfoMasks(self._choices, self.num_envs)
        read = masks.read(info)
        self._refuse(read if isinstance(read, str) else None)
        self._masks = masks
        seen = observations_of(space, self.name, sum(self._choices), masked=True)
        self._observations = preprocessed(seen, self._how, self.name)
        self._layout = layout_of(self._observations.space)
        self._stack = stack_of(self._observations.space, self._how)
        if hasattr(self.vector, "keeps_masks"):
            self.vector.keeps_masks = True

    def _call_reset(self, **arguments: Any) -> Any:
        try:
            result = self.vector.reset(**arguments)
        except EnvError:
            raise
        except Exception as error:
            raise raised(error, "reset", self.name) from error
        self._refuse(result_mismatch(result, ("observations", "info"), "reset"))
        return result

    def step(self, actions: Array) -> Step:
        """Act once in every environment."""
        taken = self.to_env_actions(actions)
        self._steps += 1
        try:
            result = self.vector.step(taken)
        except EnvError:
            raise
        except Exception as error:
            return self._all_anew(error)
        if type(result) is not tuple or len(result) != 5 or type(result[4]) is not dict:
            self._refuse(result_mismatch(result, _STEP, "step"))
        raw, raw_rewards, terminated, truncated, info = result
        self._check_flags(terminated, "terminated")
        self._check_flags(truncated, "truncated")
        obs = self._encode(raw, info, terminated, truncated)
        rewards = rewards_of(raw_rewards, self.num_envs, self.name, self._steps)
        if self._reuses:
            terminated, truncated = terminated.copy(), truncated.copy()
        done = terminated | truncated
        ended = b"\1" in done.tobytes()  # several times faster than `any` of NumPy
        valid, next_obs, cut = None, None, None
        if self._mode == "NextStep":
            valid, cut = self._next_step(done, ended, rewards)
        else:
            next_obs = obs
            if ended and self._mode == "SameStep":
                next_obs = self._with_final(obs, done, info)
            elif ended:
                obs = self._begin(obs, done)
            self._was_done = done
        if self._layout is not None:
            self._check_allowed(obs, ~done if self._mode == "NextStep" else None)
        if self._stack is not None:
            obs, next_obs = self._stack.step(obs, next_obs, done if valid is None else ~valid)
        self._count(rewards, valid, done, info if ended else None)
        if self._lives is not None:
            lost = self._lives.lost(info, done)
            terminated = terminated | lost if self.lives_end else terminated
        self.obs = obs
        return Step(obs, rewards, terminated, truncated, valid, next_obs, cut)

    def _count(self, rewards: Array, valid: Bools | None, done: Bools, info: Any) -> None:
        """Note the environment's own rewards; what is learned from is clipped afterwards."""
        self._episodes.count(rewards, valid)
        if info is not None:
            self._episodes.end(done)
            self._read_infos(done.nonzero()[0].tolist(), info)
        if self._clip_rewards:
            np.maximum(np.minimum(rewards, _ONE, out=rewards), -_ONE, out=rewards)

    def _next_step(self, done: Bools, ended: bool, rewards: Array) -> tuple[Bools, Bools | None]:
        """Which rows are transitions, and which of them the environment cut by failing."""
        valid, cut = ~self._was_done, None
        if self._mends and self.vector.failed is not None:
            failed = self.vector.failed
            valid, cut = valid & ~failed, valid & failed
            self._episodes.forget(failed)
        if self._ended:
            rewards *= valid  # the reward of a step that only resets is no reward
        self._was_done, self._ended = done, ended
        return valid, cut

    def to_env_actions(self, actions: Array) -> Array:
        """A policy's actions as the environment takes them: clipped, counted from its start."""
        if self.obs is None:
            raise EnvError(f"{where(self.name)}: call reset() before step()")
        actions = np.asarray(actions)
        plain = self._indexed and actions.dtype.kind in "iu"
        if not plain or actions.shape != self._action_shape:
            self._refuse(actions_mismatch(self.action_space, actions, self.num_envs))
        return self._actions.to_env(actions)

    def pop_episodes(self) -> list[tuple[float, int]]:
        """Return and length of each episode that ended since the last call (before clipping)."""
        return self._episodes.pop()

    def mend(self) -> None:
        """From now on what raises, now and then, begins anew: a copy, or a vector of one piece."""
        if self.mending is not None:
            self.mending.allowed = True

    def pop_failures(self) -> tuple[int, list[str]]:
        """How many failed and began anew since the last call, and what is told of them."""
        return self.mending.pop() if self.mending is not None else (0, [])

    def _all_anew(self, error: Exception) -> Step:
        """What stands for a step in which a vector of one piece raised: new episodes everywhere."""
        failure = raised(error, "step", self.name, step=self._steps)
        if self.mending is None or self._mends:
            raise failure from error
        try:
            first = self.mending.reset(0, failure, self._steps)
        except EnvFailed as last:
            raise last from error
        cut = ~self._was_done
        return begun_anew(self._begin_everywhere(*first), cut, skips=self.skips_steps)

    def _begin_all(self, index: int, seed: int | None) -> Any:
        """The first observations and info of another vector in the place of this one."""
        assert self._again is not None
        self.vector = replaced(self.vector, self._again, self.name)
        self._state = state_of(self.vector)
        self._ask_for_infos()
        if self.mending is not None and self.mending.prepare is not None:
            self.mending.prepare(self.vector)
        return self._call_reset(seed=seed)

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on later; the environment itself only if `exact`."""
        return {
            "env": self._state.get() if self._state and self.obs is not None else None,
            "obs": None if self.obs is None else self.obs.copy(),
            "was_done": self._was_done.copy(),
            "episodes": self._episodes.get_state(),
            "steps": self._steps,
            **({} if self._infos is None else {"infos": self._infos.get_state()}),
            **({} if self._lives is None else {"lives": self._lives.get_state()}),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`; if it was not exact, with new episodes, differently seeded."""
        self._steps = state["steps"]
        if self._infos is not None:
            self._infos.set_state(state.get("infos", []), len(state["episodes"]["ended"]))
        if self._lives is not None and "lives" in state:
            self._lives.set_state(state["lives"])
        self._episodes.set_state(state["episodes"])
        self._was_done = state["was_done"].copy()
        self._ended = bool(self._was_done.any())
        if state["obs"] is None:
            self._seeded, self.obs = False, None
        elif state["env"] is None or self._state is None:
            # not the first seed again: that would replay the episodes already learned from
            fresh = np.random.SeedSequence([self._seed, self._steps]).generate_state(1)[0]
            self._reset(int(fresh) & 0x3FFFFFFF)
        else:
            if not self._seeded:  # some environments build their state only then
                self.vector.reset(seed=self._seed)
            self._state.set(state["env"])
            self._seeded, self.obs = True, state["obs"].copy()
            if self._stack is not None:
                self._stack.restore(state["obs"])

    def close(self) -> None:
        """Let the environments go; safe to call twice."""
        if not self._closed:
            self._closed = True
            self.vector.close()

    def _encode(self, raw: Any, info: dict[str, Any], *ends: Bools) -> Array:
        """A raw batch, checked and turned into an array that no later step will overwrite.

        Where episodes ended (`ends`) no mask is needed, unless a new one has begun there.
        """
        if type(raw) is not np.ndarray or (raw.shape, raw.dtype) != self._expected:
            self._refuse(mismatch(self.vector.observation_space, raw))
        if self._masks is None:
            obs = self._observations.encode(raw)
        else:
            last = ends and self._mode != "SameStep"
            masks = self._masks.read(info, ~(ends[0] | ends[1]) if last else None)
            self._refuse(masks if isinstance(masks, str) else None)
            obs = self._observations.encode(raw, masks)
        if not all_finite(obs, self._layout):
            raise not_finite(self.name, self._steps, raw, obs)
        # an environment that reuses its buffer shows it as soon as there are two observations
        self._reuses = self._reuses or np.may_share_memory(obs, self._seen)
        self._seen = obs
        return obs.copy() if self._reuses else obs

    def _check_allowed(self, obs: Array, rows: Bools | None = None) -> None:
        """Refuse a mask that allows nothing, in rows (all of them) that are acted on."""
        if self._layout is not None and self._layout.mask_size:
            stuck, text = stuck_row(self._layout.mask(obs), self._choices, rows)
            self._refuse(text, stuck)

    def _check_flags(self, flags: Any, name: str) -> None:
        if type(flags) is not np.ndarray or (flags.shape, flags.dtype) != self._flags:
            self._refuse(flags_mismatch(flags, name, self.num_envs))

    def _with_final(self, obs: Array, done: Bools, info: dict[str, Any]) -> Array:
        """`obs` with the rows of ended episodes replaced by their final observations."""
        rows = np.flatnonzero(done)
        final = final_observations(self.vector.single_observation_space, info, rows)
        self._refuse(missing_final(info) if final is None else None)
        masks = () if self._masks is None else (self._masks.final(info, rows),)
        encoded = self._observations.encode(final, *masks)
        if encoded.shape[1:] != obs.shape[1:]:
            shapes = f"expected shape {obs.shape[1:]}, found shape {encoded.shape[1:]}"
            self._refuse(f"final_obs: {shapes}")
        if not all_finite(encoded, self._layout):
            raise not_finite(self.name, self._steps, final, encoded, "final_obs", rows)
        out = obs.copy()
        out[rows] = encoded
        return out

    def _begin(self, obs: Array, done: Bools) -> Array:
        """`obs` with the rows of ended episodes replaced by the first of their next ones."""
        raw, info = self._call_reset(options={"reset_mask": done.copy()})
        out = obs.copy()
        nobody = np.zeros(self.num_envs, bool)
        out[done] = self._encode(raw, info, ~done, nobody)[done]
        return out

    def _refuse(self, problem: str | None, index: int | None = None) -> None:
        if problem:
            raise EnvError(f"{where(self.name, index, self._steps)}: {problem}")
