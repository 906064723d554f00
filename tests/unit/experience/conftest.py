"""Fixtures of the tests of the buffers."""

from __future__ import annotations

import pytest

from tests.unit.experience.parts import Passed, restored, same


@pytest.fixture(params=[same, restored], ids=lambda function: function.__name__)
def passed(request: pytest.FixtureRequest) -> Passed:
    """Each step of a test is done to the buffer itself, and to one restored from its state."""
    function: Passed = request.param
    return function
