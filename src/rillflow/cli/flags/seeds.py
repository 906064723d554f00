"""Several seeds: `--seeds 0-4`."""

from __future__ import annotations

from rillflow.cli.output.error_messages import Usage

_MOST = 1000


def parse_seeds(text: str) -> list[int]:
    """The seeds, each once, in the order in which they were given.

    >>> parse_seeds("0-2,7"), parse_seeds("5")
    ([0, 1, 2, 7], [5])
    """
    found: list[int] = []
    for part in text.replace("_", "").split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise Usage(f"--seeds are numbers and ranges, as in 0-4 or 1,5,7; got {text!r}")
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin:
            raise Usage(f"--seeds: {part.strip()!r} ends before it begins")
        if len(found) + end - begin >= _MOST:
            raise Usage(f"--seeds: more than {_MOST} at once; give fewer")
        found += range(begin, end + 1)
    return list(dict.fromkeys(found))
