"""Seeds: one number per run, and one for each part of it."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *path: object) -> int:
    """A seed for one part of a run, the same wherever and whenever it runs."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
