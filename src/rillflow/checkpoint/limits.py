"""How much a checkpoint may ask for, checked before any of it is parsed or allocated.

A checkpoint may come from anybody. These bounds are far above what a run saves, and low enough
that a hostile file costs about a second and some megabytes, not the machine.
"""

from __future__ import annotations

import re
from pathlib import Path

MANIFEST_BYTES = 1 << 20
JSON_BYTES = 64 << 20
"""of `state.json`; numbers in bulk belong in arrays"""
JSON_NODES = 700_000
"""values in one JSON text: each becomes an object of some hundred bytes, in about a microsecond"""
JSON_DEPTH = 320
STATE_DEPTH = 100
"""of containers in a state; a level of the state is at most three levels of JSON"""
HEADER_BYTES = 16 << 20
TENSORS = 1_000_000
TENSORS_PER_FILE = 50_000
CHUNK_BYTES = 64 << 20
"""array files are begun anew at this size; one array is never split"""
DIMENSIONS = 32
NAME = re.compile(r"[0-9]{1,7}(\.[A-Za-z0-9_-]{1,40}){0,6}", re.ASCII)
"""of an array: its number, and for people the path in the state; no separators of paths"""


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
        return int(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return None
