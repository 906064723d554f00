"""Any description of an environment to `Envs`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rillflow.envs.checks import EnvError, found, raised
from rillflow.envs.headless import expect_no_screen
from rillflow.envs.preprocessing import Preprocessing
from rillflow.envs.registry import BUILT_IN, living_name, unknown
from rillflow.envs.vector import Envs
from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium import Env
    from gymnasium.vector import VectorEnv

    EnvLike = str | VectorEnv[Any, Any, Any] | Callable[..., Any]


def make_envs(
    env: EnvLike,
    num_envs: int,
    *,
    seed: int = 0,
    env_config: Mapping[str, Any] | None = None,
    preprocessing: Preprocessing | None = None,
    action_masks: bool = True,
    threads: int = 0,
) -> Envs:
    """`num_envs` copies of an environment behind one face.

    `env` is a Gymnasium id (a native vector version is preferred), one of our own names,
    "module:name", a factory that returns one environment or a vector environment, or a vector
    environment. `env_config` is passed to what makes it; a factory with a `num_envs` parameter is
    given that too. `preprocessing` is what is done to observations. Copies are seeded with `seed`,
    `seed + 1`, ... as Gymnasium does: give each worker a `derive_seed` of its own. `action_masks`:
    whether masks of actions are looked for in observations and infos; else a key `action_mask` of
    an observation is a part like any other. `threads`: how many ALE may take to step them, if
    `env_config` does not say; 0: what it likes.
    """
    _import_gymnasium()
    from gymnasium.vector import VectorEnv

    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise BuildError(f"num_envs must be a positive integer, found {num_envs!r}")
    config = dict(env_config or {})
    how = {"preprocessing": preprocessing, "action_masks": action_masks}
    if isinstance(env, VectorEnv):
        if config:
            raise BuildError(
                f"env_config={config} cannot reach {type(env).__name__}, which is already made; "
                "give a factory instead"
            )
        return _finish(env, name_of(env), num_envs, seed, how)
    if isinstance(env, str):
        return _from_name(env, num_envs, seed, config, how, threads)
    if not callable(env):
        raise BuildError(
            "an environment is an id, a factory or a vector environment; found "
            f"{found(env)}. For one environment object, pass a function that makes it"
        )
    return _from_factory(env, name_of(env), num_envs, seed, config, how)


def name_of(env: Any) -> str:
    """What messages call an environment that came without a name."""
    spec = getattr(env, "spec", None)
    name = getattr(spec, "id", None) or getattr(env, "__qualname__", None)
    return str(name or type(env).__name__)


def _import_gymnasium() -> None:
    try:
        import gymnasium  # noqa: F401 - asked for its presence only
    except ImportError as error:
        raise BuildError("environments need Gymnasium: pip install 'gymnasium>=1.1'") from error


def _from_name(
    env_id: str,
    num_envs: int,
    seed: int,
    config: dict[str, Any],
    how: dict[str, Any],
    threads: int,
) -> Envs:
    import gymnasium

    name = living_name(env_id)
    config = {**name.config, **config}
    if name.id.startswith("ALE/"):
        from rillflow.envs.atari_options import atari_options
        from rillflow.envs.atari_preprocessing import make_atari, refuse_preprocessing

        refuse_preprocessing(env_id, how["preprocessing"])

        def games() -> Any:
            return make_atari(name.id, num_envs, config)

        config = {"num_threads": threads, **config}
        chosen = atari_options(env_id, config)
        return Envs(
            games(),
            name=env_id,
            seed=seed,
            clip_rewards=chosen["reward_clipping"],
            lives=chosen["episodic_life"],
            action_masks=False,
            again=games,
            stacked_frames=chosen["stack_num"],
        )
    path = BUILT_IN.get(name.id, name.id)
    if ":" in path:
        factory = attribute(path)
        if factory is not None:
            return _from_factory(factory, env_id, num_envs, seed, config, how)
        path = path.partition(":")[2]  # Gymnasium's own meaning: import, then look up the id
    try:
        spec = gymnasium.spec(path)
    except gymnasium.error.Error:
        raise unknown(env_id) from None
    if spec.vector_entry_point is not None and not spec.additional_wrappers:

        def native(**kw: Any) -> VectorEnv[Any, Any, Any]:
            return gymnasium.make_vec(
                path, num_envs=num_envs, vectorization_mode="vector_entry_point", **kw
            )

        def again() -> Any:
            return made(native, env_id, config)

        return _finish(again(), env_id, num_envs, seed, {**how, "again": again})

    def single(**kw: Any) -> Env[Any, Any]:
        # our Guard checks more, names the copy, and raises where Gymnasium's checker warns
        return gymnasium.make(path, disable_env_checker=True, **kw)

    return _from_factory(single, env_id, num_envs, seed, config, how)


def attribute(path: str) -> Any:
    """The object "module:name" points at; None if the module has no such name."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise BuildError(
            f"environment {path!r}: no module named {error.name!r}; 'module:name' needs a module "
            "that can be imported here and in every worker"
        ) from error


def _from_factory(
    factory: Callable[..., Any],
    name: str,
    num_envs: int,
    seed: int,
    config: dict[str, Any],
    how: dict[str, Any],
) -> Envs:
    from gymnasium.vector import VectorEnv

    from rillflow.envs.guard import Guard
    from rillflow.envs.sync_vector import SyncVector

    if takes_num_envs(factory):
        config = {**config, "num_envs": num_envs}
    first = made(factory, name, config)
    if isinstance(first, VectorEnv):
        another = {"again": lambda: made(factory, name, config)}
        return _finish(first, name, num_envs, seed, {**how, **another})
    singles = [_single(first, name)]
    for index in range(1, num_envs):
        singles.append(_single(made(factory, name, config), name))
        if singles[index] is first:
            raise BuildError(
                f"environment {name!r}: its factory returned the same object twice; "
                "it must make a new environment at each call"
            )
    guarded = [Guard(env, name, index) for index, env in enumerate(singles)]

    def again(index: int) -> Guard:
        return Guard(_single(made(factory, name, config), name), name, index)

    try:
        vector = SyncVector([lambda env=env: env for env in guarded], again)  # type: ignore[misc]
    except Exception as error:
        raise raised(error, "being made into a vector", name) from error
    return _finish(vector, name, num_envs, seed, how)


def takes_num_envs(factory: Callable[..., Any]) -> bool:
    """Whether a factory makes a whole vector when told how many."""
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def made(factory: Callable[..., Any], name: str, config: dict[str, Any]) -> Any:
    """What a factory makes; its exception becomes ours, with the name."""
    expect_no_screen()
    try:
        return factory(**config)
    except EnvError:
        raise
    except Exception as error:
        extra = missing_extra(error)
        if extra is not None:
            raise BuildError(
                f"environment {name!r} needs a library that is not installed: "
                f"pip install 'rillflow[{extra}]'"
            ) from error
        given = f" with env_config={config}" if config else ""
        raise raised(error, f"its constructor{given}", name) from error


def _single(env: Any, name: str) -> Env[Any, Any]:
    import gymnasium

    if not isinstance(env, gymnasium.Env):
        old = type(env).__module__.split(".")[0] == "gym" or "gym.core" in {
            base.__module__ for base in type(env).__mro__
        }
        hint = "; it is an environment of the old `gym`: port it to gymnasium" if old else ""
        if hasattr(env, "possible_agents") or hasattr(env, "agents"):
            hint = "; it has several agents: use make_multi_agent_envs"
        raise EnvError(
            f"environment {name!r}: its factory must return a gymnasium.Env or a "
            f"gymnasium.vector.VectorEnv, found {found(env)}{hint}"
        )
    for which in ("observation_space", "action_space"):
        space = getattr(env, which, None)
        if not isinstance(space, gymnasium.Space):
            raise EnvError(
                f"environment {name!r}: {which}: expected a gymnasium space, found {found(space)}"
            )
    return env


def _finish(vector: Any, name: str, num_envs: int, seed: int, how: dict[str, Any]) -> Envs:
    if vector.num_envs != num_envs:
        raise BuildError(
            f"environment {name!r}: it was made with {vector.num_envs} copies, but "
            f"num_envs={num_envs}; make both the same, or give its factory a `num_envs` parameter"
        )
    return Envs(vector, name=name, seed=seed, **how)


_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "ale_py": "atari", "atari": "atari"}
"""words in which Gymnasium says what it misses: our extra with that library"""


def missing_extra(error: Exception) -> str | None:
    """The extra with the library that an environment misses; None: it misses none that we know.

    >>> missing_extra(ImportError("No module named 'Box2D'"))
    'box2d'
    """
    missing = isinstance(error, ImportError) or type(error).__name__ == "DependencyNotInstalled"
    words = str(error).lower()
    found = (extra for word, extra in _EXTRAS.items() if word in words)
    return next(found, None) if missing else None
