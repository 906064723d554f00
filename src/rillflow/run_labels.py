"""What runs are called beside each other: which are the same but for the seed, and what differs.

Plots, comparisons and the view of many runs ask here, so that they agree. What they ask about is
`run.json` of each run, which may hold anything: every text is cut, and none of it is an escape of a
terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WATCHING = ("eval_every", "eval_episodes", "eval_timeout", "max_eval_failures", "info_metrics")
"""settings that leave the training as it is"""
_SHOWN = 3
"""settings in a name; of more, as many as it takes and how many others there are"""
_LETTERS = 60
_SETTINGS = 2000
"""more than any run has"""
_ABSENT = "absent"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a run belongs: runs of one environment and one name are drawn as one line."""

    env: str
    name: str
    settings: str
    """all its settings as one text: the same for runs that differ in their seed alone"""


def places(
    abouts: Sequence[Json], group_by: Sequence[str] = (), alone: Sequence[str] = ()
) -> list[Place]:
    """For each run its place among the others.

    >>> slow, fast = {"algorithm": "ppo", "config": {"lr": 1e-4}}, {"config": {"lr": 1e-3}}
    >>> [place.name for place in places([slow, {**slow, "seed": 1}, {**slow, **fast}])]
    ['ppo lr=0.0001', 'ppo lr=0.0001', 'ppo lr=0.001']

    Args:
        abouts: `run.json` of each.
        group_by: settings, or `algorithm`, `label`, `engine`, `seed`, `run`: runs that agree in
            these are one group; by default those that agree in all but the seed.
        alone: the name of each run by itself, for `run`.
    """
    flat = [settings_of_run(about) for about in abouts]
    keys = [_key(about, settings) for about, settings in zip(abouts, flat, strict=True)]
    if group_by:
        own = [{**f, **_facts(a)} for f, a in zip(flat, abouts, strict=True)]
        for facts, name in zip(own, alone, strict=False):
            facts["run"] = name
        names = [_chosen(facts, group_by) for facts in own]
    else:
        names = _told_apart(abouts, flat, keys)
    return [
        Place(text(about.get("env") or ""), name, key)
        for about, name, key in zip(abouts, names, keys, strict=True)
    ]


def settings_of_run(about: Json) -> dict[str, Any]:
    """The settings of a run under one level of names, and its engine; not its environment."""
    found: dict[str, Any] = {}
    config = about.get("config")
    left: list[tuple[str, Any]] = list(config.items())[::-1] if isinstance(config, Mapping) else []
    while left and len(found) < _SETTINGS:
        name, value = left.pop()
        if isinstance(value, Mapping) and value:
            left += [(f"{name}.{inner}", own) for inner, own in list(value.items())[::-1]]
        elif name not in ("env", "seed", *_WATCHING):
            found[str(name).removesuffix("_")] = value
    if about.get("engine") is not None:
        found["engine"] = about["engine"]
    return found


def differences(all_settings: Sequence[Json]) -> list[str]:
    """The names of settings in which some differ, in the order of the settings."""
    names = dict.fromkeys(name for settings in all_settings for name in settings)
    return [name for name in names if len({_plain(s, name) for s in all_settings}) > 1]


def shown(value: object) -> str:
    """A setting's value, short.

    >>> [shown(v) for v in (0.00025, [64, 64], None, True, "tanh")]
    ['0.00025', '64,64', 'none', 'true', 'tanh']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return text(",".join(shown(inner) for inner in value[:20]))
    return text(value)


def text(value: object) -> str:
    """Words from a file, cut, and without what a terminal or a page would obey.

    >>> text("a" * 70) == "a" * 59 + "…", text("a\\x1b[2J")
    (True, 'a?[2J')
    """
    words = str(value)[: _LETTERS + 1] if isinstance(value, str) else repr(value)[: _LETTERS + 1]
    words = "".join(letter if letter.isprintable() else "?" for letter in words)
    return words if len(words) <= _LETTERS else f"{words[: _LETTERS - 1]}…"


def _facts(about: Json) -> dict[str, Any]:
    return {name: about.get(name) for name in ("algorithm", "label", "seed")}


def _family(about: Json) -> str:
    """What is said of a run in any case: the algorithm, and its label if it has one."""
    algorithm, label = text(about.get("algorithm") or "run"), about.get("label")
    return f"{algorithm}, {text(label)}" if label else algorithm


def _told_apart(abouts: Sequence[Json], flat: Sequence[Json], keys: Sequence[str]) -> list[str]:
    """Names by what differs between the runs of one environment and one family."""
    kinds = [(text(about.get("env") or ""), _family(about)) for about in abouts]
    groups: dict[tuple[str, str], dict[str, Json]] = {kind: {} for kind in kinds}
    for kind, key, settings in zip(kinds, keys, flat, strict=True):
        groups[kind][key] = settings
    names: dict[tuple[tuple[str, str], str], str] = {}
    for kind, one_each in groups.items():
        told, more = _telling(list(one_each.values()))
        for key, settings in one_each.items():
            words = [kind[1], *(f"{name}={_value(settings, name)}" for name in told)]
            names[kind, key] = " ".join([*words, *([f"(+{more} more)"] if more else [])])
    return [names[kind, key] for kind, key in zip(kinds, keys, strict=True)]


def _telling(groups: Sequence[Json]) -> tuple[list[str], int]:
    """Settings that stand in the names of these groups, and how many others differ, too."""
    differing = differences(groups)
    if len(differing) <= _SHOWN:
        return differing, 0

    def kinds(names: Iterable[str]) -> int:
        names = list(names)
        return len({tuple(_plain(group, name) for name in names) for group in groups})

    chosen: list[str] = []
    while len(chosen) < _SHOWN and kinds(chosen) < len(groups):
        chosen.append(max(differing, key=lambda name: kinds([*chosen, name])))
    return [name for name in differing if name in chosen], len(differing) - len(chosen)


def _chosen(facts: Json, group_by: Sequence[str]) -> str:
    named = [name for name in group_by if name not in ("algorithm", "label", "run")]
    words = [text(facts.get("algorithm") or "run")]
    if "label" in group_by and facts.get("label"):
        words[0] += f", {text(facts['label'])}"
    if "run" in group_by:
        words = [text(facts.get("run") or "run")]
    return " ".join([*words, *(f"{n}={_value(facts, n.removesuffix('_'))}" for n in named)])


def _value(settings: Json, name: str) -> str:
    return shown(settings[name]) if name in settings else _ABSENT


def _plain(settings: Json, name: str) -> str:
    """A value to compare: 1 and 1.0 are the same, and so are tuples and lists."""
    if name not in settings:
        return _ABSENT
    value = settings[name]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return json.dumps(value, default=str, sort_keys=True)


def _key(about: Json, settings: Json) -> str:
    parts = [f"{name}={_plain(settings, name)}" for name in sorted(settings)]
    return "\n".join([_family(about), *parts])
