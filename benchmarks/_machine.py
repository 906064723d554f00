"""Where a benchmark ran: what a reader needs to judge its figures, and nothing private."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from rillflow.runs.machine_facts import machine

_PACKAGES = ("rillflow", "torch", "numpy", "gymnasium", "ray", "ale-py")


def facts() -> dict[str, Any]:
    """Cores, processor, memory, system, and how busy it was."""
    here = machine()
    return {
        "cores": here["cores"],
        "cpu": here["cpu"],
        "memory_gb": round(here["memory"] / 2**30, 1),
        "system": platform.system(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if "rillflow" not in found:  # from a source tree that is not installed
        from rillflow import __version__

        found["rillflow"] = __version__
    return found
