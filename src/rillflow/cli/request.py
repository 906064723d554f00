"""What `train`, `explain`, `simulate` and `tune` have in common: algorithm, environment, settings.

    rillflow train ppo CartPole-v1 --num-workers 4
    rillflow train --run=PPO --env=CartPole-v1 --config='{"num_workers": 4}'

mean the same. The flags are those of the chosen algorithm, so it is looked for first.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.current_directory import look_here
from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.settings import (
    Setting,
    from_json,
    parse_object,
    parse_value,
    settings_of,
    shown,
)
from rillflow.cli.flags.trust import add_trust_flag, require_trust, take_named
from rillflow.cli.output.error_messages import Usage
from rillflow.errors import BuildError
from rillflow.safety.bounded import read_bytes

if TYPE_CHECKING:
    from rillflow.learning.algorithm import Algorithm

_POLICIES = '{"agent_0": "left", "agent_1": "right"}'
_ALGORITHM_FLAGS = ("--run", "--algorithm")


def chosen_algorithm(arguments: Sequence[str]) -> str | None:
    """The algorithm that a command line names, before its flags are known.

    >>> chosen_algorithm(["--lr", "1e-3", "ppo", "CartPole-v1"])
    'ppo'
    >>> chosen_algorithm(["--run=PPO", "--env=Pong-v0"])
    'PPO'
    """
    for index, token in enumerate(arguments):
        name, equals, value = token.partition("=")
        if name in _ALGORITHM_FLAGS:
            after = arguments[index + 1 : index + 2]
            return value if equals else (after[0] if after else None)
    # a word after a flag may be the flag's value: first those that cannot be
    words = [
        (token, index and arguments[index - 1].startswith("--") and "=" not in arguments[index - 1])
        for index, token in enumerate(arguments)
        if not token.startswith("-")
    ]
    free = [token for token, follows in words if not follows]
    known = [token for token, _ in words if _is_known(token)]
    return next(iter([*known, *free]), None)


def _is_known(token: str) -> bool:
    from rillflow.algorithms import NAMES

    plain = "".join(letter for letter in token.lower() if letter.isalnum())
    return plain in {name.replace("_", "") for name in NAMES}


def short_name(name: str, algorithm: Algorithm) -> str:
    """What to call an algorithm: its name, or what the user pointed at."""
    return name if ":" in name else algorithm.name


@dataclasses.dataclass(frozen=True)
class Request:
    """A parsed command line: the algorithm, its settings, and the command's own options."""

    algorithm: str
    module: Any
    config: Any
    options: Any
    given: frozenset[str] = frozenset()
    """settings that the command line names"""

    @property
    def env(self) -> str:
        """The environment's name."""
        env = self.config.env
        return env if isinstance(env, str) else str(getattr(env, "__qualname__", env))

    @property
    def tuned(self) -> list[str]:
        """A line with the settings that suit the environment and that no flag has changed."""
        from rillflow.learning.suited_settings import suiting

        suits = suiting(type(self.config), vars(self.config))
        used = [(n, value) for n, value in suits.items() if getattr(self.config, n) == value]
        flags = [f"--{name.strip('_').replace('_', '-')} {shown(value)}" for name, value in used]
        return [f"settings that suit it: {' '.join(flags)}"] if flags else []


def add_request_flags(parser: Parser) -> None:
    """The algorithm and the environment, in both forms."""
    parser.add_argument("algorithm", nargs="?", help="as `rillflow list` has them, or module:name")
    parser.add_argument("env", nargs="?", help="a Gymnasium id, one of our own, or module:name")
    parser.add_argument(
        "--run", "--algorithm", dest="run", metavar="NAME", help="the algorithm, as a flag"
    )
    parser.add_argument("--env", dest="env_flag", metavar="ID", help="the environment, as a flag")
    parser.add_argument(
        "--config",
        metavar="JSON",
        action="append",
        default=[],
        help="settings as JSON, or the name of a .json file; flags win",
    )
    add_trust_flag(parser)


def add_policies_flag(parser: Parser) -> None:
    """Who acts for whom, in an environment with several agents."""
    parser.add_argument(
        "--policies",
        metavar="HOW",
        help="of several agents: shared (one for all), each (one for each agent), or JSON with the "
        f"policy of each, as '{_POLICIES}' (default shared)",
    )


def agents_for(request: Request) -> dict[str, str] | None:
    """For each agent of the environment the name of its policy; None if it has one agent."""
    from rillflow.runs.multi_agent import assigned

    given = request.options.policies
    if given is not None and given.lstrip().startswith("{"):
        given = parse_object(given, "--policies", _POLICIES)
    return assigned(request.config, given)


def parse_request(parser: Parser, arguments: Sequence[str]) -> Request:
    """Everything a command line says about what to run; all that is wrong with it is told at once.

    `--help` with an algorithm shows its settings too.
    """
    name = chosen_algorithm(arguments)
    asked = {"-h", "--help"} & set(arguments)
    if name is None:
        if not asked:
            parser.parse(arguments)  # another mistake is told first
            raise Usage(
                f"which algorithm? As in `{parser.prog} ppo CartPole-v1`; `rillflow list` has them"
            )
        parser.epilog = (
            f"`{parser.prog} ppo --help` shows the settings of PPO, each of which is a flag too."
        )
    module = None if name is None else _algorithm(name)
    if name is not None:
        parser.prog += f" {name}"  # for messages: its flags are those of this algorithm
    settings = [] if module is None else settings_of(module.Config)
    _add_settings(parser, settings)
    options = _parsed(parser, arguments)
    assert name is not None, "--help has ended the program"
    assert module is not None, "a name has a module"
    _sort_out_names(options, name)
    _require_trust(parser, options, arguments)
    values = _values(options, settings)
    if options.env is not None:
        look_here(options.env)
        values["env"] = options.env
    values.setdefault("env", module.Config.env)  # so that it gets the settings that suit it
    config = module.Config.make(**values)
    return Request(short_name(name, module), module, config, options, frozenset(values))


def _algorithm(name: str) -> Any:
    from rillflow.runs.find_algorithm import find_algorithm  # with NumPy: help needs it not

    if ":" in name:
        look_here(name)
    elif _is_env(name):
        raise Usage(f"{name!r} is an environment, and the algorithm comes first: ppo {name}")
    return find_algorithm(name)


def _is_env(name: str) -> bool:
    """Whether somebody has named an environment where the algorithm is to be."""
    if _is_known(name):
        return False
    from rillflow.envs.registry import is_atari, known_ids

    return name in known_ids() or is_atari(name)


def _parsed(parser: Parser, arguments: Sequence[str]) -> Any:
    options = parser.parse(arguments)
    if options.run is not None and options.algorithm is not None:
        # with --run, the one positional is the environment
        if options.env is None:
            options.env = options.algorithm
        elif options.algorithm != options.run:
            raise Usage(f"two algorithms are named: {options.algorithm!r} and --run={options.run}")
    return options


def _sort_out_names(options: Any, name: str) -> None:
    if options.env_flag is not None:
        if options.env is not None and options.env != options.env_flag:
            raise Usage(f"two environments are named: {options.env!r} and --env={options.env_flag}")
        options.env = options.env_flag
    if options.run is None and options.algorithm != name:
        raise Usage(
            f"unexpected {options.algorithm!r} before the algorithm {name!r}: the algorithm comes "
            f"first, as in {name} {options.algorithm}"
        )


_GENERAL = ("rollouts", "evaluation", "faults", "learning", "network")
"""groups of settings that every algorithm has"""


def _add_settings(parser: Parser, settings: Sequence[Setting]) -> None:
    """A flag for each setting, grouped; those that are the algorithm's own come first."""
    by_group: dict[str, list[Setting]] = {}
    for setting in settings:
        by_group.setdefault(setting.group, []).append(setting)
    general = [name for name in _GENERAL if name in by_group]
    own = [name for name in by_group if name not in general]
    for title in [*reversed(own), *general]:
        group = parser.add_argument_group(title)
        for setting in by_group[title]:
            _add_setting(group, setting)


def _add_setting(group: Any, setting: Setting) -> None:
    text = f"{setting.help} (default {setting.shown_default})".strip()
    options: dict[str, Any] = {
        "dest": f"setting:{setting.name}",
        "default": argparse.SUPPRESS,
        "help": text.replace("%", "%%"),
    }
    if setting.is_switch:
        off = setting.flag.replace("--", "--no-", 1)
        group.add_argument(setting.flag, action=_Switch, nargs=0, off=off, **options)
    else:
        group.add_argument(*_flags(setting), metavar=setting.metavar, **options)


def _flags(setting: Setting) -> list[str]:
    """A setting's flag, and those of its older names."""
    from rillflow.learning.suited_settings import SAME

    old = [name for name, now in SAME.items() if now == setting.name]
    return [setting.flag, *("--" + name.replace("_", "-") for name in old)]


class _Switch(argparse.Action):
    """`--double-q` and `--no-double-q`."""

    def __init__(self, option_strings: Sequence[str], dest: str, off: str, **options: Any) -> None:
        super().__init__([*option_strings, off], dest, **options)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        """Remember which of the two it was."""
        setattr(namespace, self.dest, not (option or "").startswith("--no-"))


def _require_trust(parser: Parser, options: Any, arguments: Sequence[str]) -> None:
    """What a file of settings names is imported only if the user names it as well."""
    from rillflow.safety.consent import named_code

    take_named(options.trust)
    for text in options.config:
        if _is_file(text):
            named = named_code(_config_object(text))
            require_trust(text, named, options.trust, parser.command, arguments)


def _values(options: Any, settings: Sequence[Setting]) -> dict[str, Any]:
    """Settings from --config, then from flags."""
    hints = {setting.name: setting.hint for setting in settings}
    values: dict[str, Any] = {}
    for text in options.config:
        for name, value in _config_object(text).items():
            values[_known_as(name, hints)] = from_json(hints.get(name, Any), value)
    for setting in settings:
        given: Any = getattr(options, f"setting:{setting.name}", _MISSING)
        if given is not _MISSING:
            values[setting.name] = given if setting.is_switch else _value(setting, given)
    return values


_MISSING = object()


def _known_as(name: str, hints: dict[str, Any]) -> str:
    """`lambda` as `lambda_`, which Python keeps for itself."""
    return f"{name}_" if name not in hints and f"{name}_" in hints else name


def _value(setting: Setting, text: str) -> Any:
    try:
        return parse_value(setting.hint, text)
    except (Usage, BuildError) as error:
        raise Usage(f"{setting.flag}: {error}") from None


def _is_file(text: str) -> bool:
    return text.endswith(".json")


def _config_object(text: str) -> dict[str, Any]:
    if _is_file(text):
        try:
            text = read_bytes(text).decode()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Usage(f"--config {text}: {why}") from None
    return parse_object(text, "--config")


def command_line(request: Request, changed: dict[str, Any]) -> str:
    """Settings as flags, to be copied into a shell.

    Args:
        request: says which algorithm and environment.
        changed: the settings to show.
    """
    import shlex

    return shlex.join(
        ["rillflow", "train", request.algorithm, request.env, *flags_of(request, changed)]
    )


def flags_of(request: Request, changed: dict[str, Any]) -> list[str]:
    """Settings as flags."""
    words: list[str] = []
    for setting in settings_of(request.module.Config):
        if setting.name in changed:
            value = changed[setting.name]
            if setting.is_switch:
                words.append(setting.flag if value else setting.flag.replace("--", "--no-", 1))
            else:
                words += [setting.flag, shown(value)]
    return words
