"""Engines by name."""

from __future__ import annotations

import difflib

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError

NAMES = ("sim", "local", "ray")


def make_engine(engine: str | Engine) -> Engine:
    """An engine from its name, or one that was configured by hand."""
    if isinstance(engine, Engine):
        return engine
    if engine == "sim":
        from rillflow.engines.sim import Sim

        return Sim()
    if engine == "local":
        from rillflow.engines.local import Local

        return Local()
    if engine == "ray":
        from rillflow.engines.ray import RayEngine

        return RayEngine()
    near = difflib.get_close_matches(str(engine), NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BuildError(f"unknown engine {engine!r}; there are 'sim', 'local' and 'ray'.{hint}")
