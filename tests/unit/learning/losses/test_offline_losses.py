"""Losses of recorded data, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from rillflow.learning import losses

both = pytest.mark.parametrize("of", [np.array, torch.tensor], ids=["numpy", "torch"])


def f32(of: Any, x: Any) -> Any:
    return of(x, dtype=np.float32 if of is np.array else torch.float32)


@both
def test_weights_grow_with_advantages_and_not_without_end(of: Any) -> None:
    found = losses.advantage_weights(f32(of, [-1.0, 0.0, 0.5, 1000.0]), 2.0, 20.0)
    assert np.asarray(found).tolist() == pytest.approx([math.exp(-2), 1.0, math.e, 20.0])


@both
def test_the_expectile_counts_what_is_above_more(of: Any) -> None:
    """Two above (0.9 * 4 each), none below, then two below (0.1 * 4 each)."""
    v = f32(of, [0.0, 0.0])
    assert float(losses.expectile_loss(v, f32(of, [2.0, 2.0]), 0.9)) == pytest.approx(1.8)
    assert float(losses.expectile_loss(v, f32(of, [-2.0, -2.0]), 0.9)) == pytest.approx(0.2)
    half = losses.value_loss(v, f32(of, [1.0, -3.0]))
    assert float(losses.expectile_loss(v, f32(of, [1.0, -3.0]), 0.5)) == pytest.approx(half / 2)


def test_the_minimum_is_the_expectile() -> None:
    """Of 0 and 1, equally often, the 0.9-expectile is 0.9: 0.9 * (1 - v) = 0.1 * v."""
    target = torch.tensor([0.0, 1.0])
    at = [float(losses.expectile_loss(torch.full((2,), v), target, 0.9)) for v in (0.8, 0.9, 1.0)]
    assert min(at) == at[1]


@both
def test_drawn_actions_are_weighed_by_how_likely_they_were(of: Any) -> None:
    """Two actions of density 1/2 worth 1 and 3, the data's worth 2."""
    q = f32(of, [[[1.0], [3.0]]])
    logp = f32(of, [[math.log(0.5)], [math.log(0.5)]])
    found = losses.conservative_loss(q, logp, f32(of, [[2.0]]))
    by_hand = math.log((math.exp(1) / 0.5 + math.exp(3) / 0.5) / 2) - 2
    assert float(found) == pytest.approx(by_hand, abs=1e-6)


@both
def test_a_constant_critic_pays_the_volume_of_the_actions(of: Any) -> None:
    """The integral of exp(q) over a square of side 2 is 4 exp(q), wherever the draws were."""
    logp = f32(of, np.full((8, 3), -2 * math.log(2)).tolist())
    q = f32(of, np.full((2, 8, 3), 1.5).tolist())
    found = losses.conservative_loss(q, logp, f32(of, np.full((2, 3), 1.5).tolist()))
    assert float(found) == pytest.approx(2 * math.log(4), abs=1e-5)
