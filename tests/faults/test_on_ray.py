"""Signals reach a run on Ray, whose own handler would end it with nothing saved."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from faults_product import SMALL, Product, goes_on


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_sigterm_saves_and_ends(tmp_path: Path) -> None:
    words = ("train", "ppo", "CartPole-v1", *SMALL, "--engine=ray", "--until=steps=1e8")
    with Product(tmp_path, *words) as product:
        product.until_rows(2, patience=180)  # Ray has processes of its own to start
        product.signal(signal.SIGTERM)
        assert product.end() == 128 + signal.SIGTERM, product.text
    assert list((product.run / "checkpoints").glob("0*"))
    goes_on(tmp_path, 500, "--engine=local")
