"""A fresh scripted engine per test."""

import pytest

from rillflow.testing import ScriptedEngine


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()
