"""Code by its name, as settings on disk hold it."""

from __future__ import annotations

import pytest

from rillflow.algorithms import dqn
from rillflow.errors import BuildError
from rillflow.runs.code_by_name import _MOVED, pointed_at


def test_a_name_leads_to_its_function() -> None:
    assert pointed_at("rillflow.learning.q_learning:update") is dqn.update


def test_a_directory_of_an_older_version_names_a_module_by_its_old_path() -> None:
    """A user's algorithm that borrows DQN's update is saved with the module it comes from."""
    old = "rillflow." + "rl.q_learning"
    assert pointed_at(f"{old}:update") is dqn.update


@pytest.mark.parametrize("old", _MOVED)
def test_every_module_that_moved_is_found(old: str) -> None:
    with pytest.raises(BuildError, match="has no 'nothing_of_that_name'"):
        pointed_at(f"rillflow.{old}:nothing_of_that_name")


def test_a_module_that_never_was_is_told_as_it_was_written() -> None:
    with pytest.raises(BuildError, match=r"no module 'rillflow\.nowhere'"):
        pointed_at("rillflow.nowhere:loss")
