"""What a run should remember about where it ran: versions and the machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from rillflow import __version__

_PACKAGES = ("torch", "numpy", "gymnasium", "cloudpickle", "ray", "ale-py", "pettingzoo")


def versions() -> dict[str, str]:
    """Of Python, of this package and of those it works with, as far as they are installed."""
    found = {"python": platform.python_version(), "rillflow": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Cores this process may use, memory in bytes, processor, GPUs."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cpu": _cpu(),
        "gpus": _gpus(),
        "system": f"{platform.system()} {platform.release()}",
        "host": platform.node(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpus() -> list[str]:
    """As the driver tells them: asking torch would import it."""
    found = []
    for about in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            lines = about.read_text().splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return found
