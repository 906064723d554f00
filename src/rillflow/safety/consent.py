"""Code that a file names is imported only if the user names it as well.

A saved policy, the directory of a run and a file of settings may come from anybody. To import a
module runs it, and to make an environment calls it with arguments that stand in the same file. So
whoever reads such a file asks `named_code` what it would import, and `untrusted` what of that the
user has not named; nothing else decides it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from reprlib import Repr
from typing import Any

_CODE = ("loss", "postprocess", "model")
"""settings that are functions or classes, and that a file holds as `module:name`"""
_POINTER = re.compile(r"[^\W\d][\w.]*:[\w.][\w.:/-]*")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SHOWN = 200
"""characters of a file's own words in a message"""
_PLAIN = re.compile(r"[\w.:/-]{1,200}", re.ASCII)
"""names that may stand in a command to be copied: no spaces, quotes or escapes of a terminal"""


def named_code(settings: object, algorithm: object = None) -> dict[str, str]:
    """Every name in a file that would be imported, and what it is the name of.

    >>> named_code({"env": "my_envs:Maze", "lr": 3e-4}, algorithm="ppo")
    {'my_envs:Maze': 'its environment'}
    >>> named_code({"env": "CartPole-v1", "env_config": {"task": "os.path:join"}})
    {'os.path:join': 'a value of its env_config'}

    Args:
        settings: those of an algorithm, as the file has them.
        algorithm: the name of it, if the file has that too.
    """
    from rillflow.envs.registry import points_at_code  # with NumPy: who asks may do without it

    found: dict[str, str] = {}
    if isinstance(algorithm, str) and ":" in algorithm:
        found[algorithm] = "its algorithm"
    if not isinstance(settings, Mapping):
        return found  # whoever takes settings from this will say what is wrong
    env = settings.get("env")
    if isinstance(env, str) and points_at_code(env):
        given = settings.get("env_config")
        found[env] = f"its environment{f', called with {_short(given)}' if given else ''}"
    for name, value in settings.items():
        if name in _CODE and isinstance(value, str) and ":" in value:
            found.setdefault(value, f"its {name}")
        elif name != "env":
            for text in filter(_is_path, _texts(value)):
                found.setdefault(text, f"its {name}" if text is value else f"a value of its {name}")
    return found


def is_pointer(text: str) -> bool:
    """Whether a text has the form of `module:name`.

    >>> is_pointer("my_envs:Maze"), is_pointer("https://example.org"), is_pointer("12:30")
    (True, False, False)
    """
    return _POINTER.fullmatch(text) is not None


def untrusted(named: Mapping[str, str], trust: Collection[str | None]) -> dict[str, str]:
    """What of the names in a file the user has not named."""
    if isinstance(trust, str):
        trust = (trust,)
    return {name: what for name, what in named.items() if name not in trust}


def refusal(file: object, named: Mapping[str, str], way: str) -> str:
    """Why code that a file names is not imported, and what the user would have to say.

    Args:
        file: which names it.
        named: what the user has not named.
        way: how to say it, such as a command; `{names}` in it becomes the names.
    """
    listed = "; ".join(f"{name[:_SHOWN]!r}, {what}" for name, what in named.items())
    text = f"{str(file)!r} names code to run: {listed}. A file's code runs only if you name it too"
    if not all(_PLAIN.fullmatch(name) for name in named):
        return f"{text}, and this is no name that code has."
    return f"{text}: if you know it, {way}"


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data; without recursion, since the data may be as deep as it likes."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            left += value


def _short(value: Any) -> str:
    """The beginning of a value, which may be of any size and depth."""
    short = Repr()
    short.maxdict = short.maxlist = 10
    short.maxstring = _SHOWN
    return short.repr(value)[:_SHOWN]


def _is_path(text: str) -> bool:
    """Whether an environment that imports what its arguments say could import this."""
    if is_pointer(text):
        return True
    return bool(_DOTTED.fullmatch(text)) and _exists(text.partition(".")[0])


def _exists(module: str) -> bool:
    """Whether there is a module of this name; to look for one imports nothing."""
    try:
        return find_spec(module) is not None
    except ValueError:  # it is there, and has no spec: `__main__`
        return True
