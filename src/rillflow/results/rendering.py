"""Environments whose frames can be seen, with the observations that the policy was trained on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rillflow.envs.headless import no_window
from rillflow.envs.make import attribute, name_of, takes_num_envs
from rillflow.envs.registry import BUILT_IN, living_name
from rillflow.errors import BuildError, RunError
from rillflow.results.player import env_of, open_envs

if TYPE_CHECKING:
    from rillflow.envs.vector import Envs, Step
    from rillflow.policies.sampling import Array
    from rillflow.results.trained import Trained

Frame = NDArray[np.uint8]
"""[height, width, 3]"""

_ATARI_FRAMES = 60
"""frames a second of the console"""
_USUAL_FPS = 30
_SMALLEST = 320
"""pixels of the longer side below which a frame is enlarged"""


class Rendered:
    """One environment that is played and seen."""

    def __init__(self, envs: Envs, fps: float) -> None:
        self.envs = envs
        self.fps = fps
        """frames a second at which it was meant to be seen"""

    def reset(self) -> Array:
        """A new episode."""
        return self.envs.reset()

    def step(self, actions: Array) -> tuple[Step, float]:
        """One action; also its reward before any clipping for learning."""
        step = self.envs.step(actions)
        return step, float(step.rewards[0])

    def frame(self) -> Frame:
        """What it looks like now."""
        with no_window():
            shown = self.envs.vector.render()
        frames = shown if isinstance(shown, tuple | list) else [shown]
        return enlarged(_checked(frames[0] if len(frames) else None, self.envs.name))

    def close(self) -> None:
        """Let it go."""
        self.envs.close()


class RenderedAtari(Rendered):
    """An Atari game, played twice: once as the policy sees it and once in colour.

    ALE's vector environment does not render. But the same seed and the same actions give the same
    game, so a second one that observes whole frames shows what happens in the first.
    """

    def __init__(self, envs: Envs, shown: Any, seed: int, fps: float) -> None:
        super().__init__(envs, fps)
        self._shown = shown
        self._seed: int | None = seed
        self._frame: Any = None

    def reset(self) -> Array:
        """A new episode, in both."""
        self._frame, _ = self._shown.reset(seed=self._seed)
        self._seed = None  # later episodes go on from there, as those of `Envs` do
        return self.envs.reset()

    def step(self, actions: Array) -> tuple[Step, float]:
        """One action in both; the reward is the game's own."""
        step, clipped = super().step(actions)
        self._frame, rewards, terminated, *_ = self._shown.step(self.envs.to_env_actions(actions))
        reward = float(rewards[0])
        same = clipped in (reward, float(np.clip(reward, -1, 1)))
        if bool(terminated[0]) != bool(step.terminated[0]) or not same:
            raise RunError(f"record: two games of {self.envs.name!r} with the same seed differ.")
        return step, reward

    def frame(self) -> Frame:
        """The newest frame of the game."""
        return enlarged(np.asarray(self._frame[0, -1]))

    def close(self) -> None:
        """Let both go."""
        super().close()
        self._shown.close()


def open_rendered(trained: Trained, seed: int) -> Rendered:
    """The environment of a trained policy, made so that it can be seen."""
    env, config = env_of(trained), dict(trained.config.env_config)
    name = env if isinstance(env, str) else name_of(env)
    if isinstance(env, str):
        living = living_name(env)
        if living.id.startswith("ALE/"):
            return _atari(trained, living.id, seed, {**living.config, **config})
        env, config = _maker(living.id), {**living.config, **config}
    if not callable(env):  # a vector environment that is already made
        raise _cannot_be_seen(name, "it is already made")
    if _takes(env, "render_mode"):
        config.setdefault("render_mode", "rgb_array")
    envs = open_envs(trained, _named(env, name), 1, seed, config)
    mode = getattr(envs.vector, "render_mode", None)
    if mode != "rgb_array":
        envs.close()
        raise _cannot_be_seen(name, f"its render_mode is {mode!r}")
    fps = envs.vector.metadata.get("render_fps")
    return Rendered(envs, float(fps or _USUAL_FPS))


def _maker(env_id: str) -> Callable[..., Any]:
    """What makes one environment of this id."""
    import gymnasium

    path = BUILT_IN.get(env_id, env_id)
    factory = attribute(path) if ":" in path else None
    if factory is not None:
        made: Callable[..., Any] = factory
        return made
    path = path.rpartition(":")[2]

    def make(**config: Any) -> Any:
        return gymnasium.make(path, disable_env_checker=True, **config)

    return make


def _named(factory: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The factory, called `name` in messages, and making a vector where the given one does."""
    if takes_num_envs(factory):

        def make(num_envs: int, **config: Any) -> Any:
            return factory(num_envs=num_envs, **config)
    else:

        def make(**config: Any) -> Any:  # type: ignore[misc]
            return factory(**config)

    make.__qualname__ = name
    return make


def _takes(factory: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _atari(trained: Trained, env_id: str, seed: int, config: dict[str, Any]) -> Rendered:
    from rillflow.envs.atari_options import atari_options
    from rillflow.envs.atari_preprocessing import make_atari

    envs = open_envs(trained, env_id, 1, seed, config)
    whole = {"img_height": 210, "img_width": 160, "grayscale": False, "stack_num": 1}
    shown = make_atari(env_id, 1, {**config, **whole})
    skipped = atari_options(env_id, config)["frameskip"]
    return RenderedAtari(envs, shown, seed & 0x3FFFFFFF, _ATARI_FRAMES / skipped)


def _cannot_be_seen(name: str, why: str) -> BuildError:
    return BuildError(
        f"environment {name!r} gives no frames: {why}. It needs render_mode='rgb_array': give a "
        "factory with a `render_mode` parameter that it passes on, such as "
        "lambda render_mode=None: MyEnv(render_mode=render_mode)."
    )


def _checked(frame: Any, name: str) -> Frame:
    if isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3:
        return frame.astype(np.uint8, copy=False)
    found = f"{frame.dtype} {list(frame.shape)}" if isinstance(frame, np.ndarray) else repr(frame)
    raise RunError(
        f"environment {name!r}: render() must return an image [height, width, 3] of uint8, "
        f"found {found}."
    )


def enlarged(frame: Frame) -> Frame:
    """A small frame with each pixel made a square of several; a large one as it is.

    >>> enlarged(np.zeros((210, 160, 3), np.uint8)).shape
    (420, 320, 3)
    """
    factor = -(-_SMALLEST // max(frame.shape[:2]))
    return frame if factor == 1 else frame.repeat(factor, 0).repeat(factor, 1)
