"""Most of these tests ask what is written, not whether the disk is fast."""

import os

import pytest


@pytest.fixture
def no_fsync(monkeypatch):
    """Writing through to the disk is left out; its order has tests of its own."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
