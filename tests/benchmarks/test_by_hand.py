"""Updates by hand do the work that they are measured for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # they are scripts: they find each other by their folder

import sac_by_hand  # noqa: E402
import sac_by_hand_in_torch  # noqa: E402

ROWS, WIDTH = 32, 8


def columns() -> list[Any]:
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal((ROWS, 3), np.float32),
        rng.uniform(-2, 2, (ROWS, 1)).astype(np.float32),
        rng.standard_normal(ROWS, np.float32),
        rng.standard_normal((ROWS, 3), np.float32),
        np.full(ROWS, 0.99, np.float32),
    ]


def test_both_updates_of_sac_by_hand_give_the_same_weights() -> None:
    one = sac_by_hand.Sac(WIDTH, ROWS)
    other = sac_by_hand_in_torch.Sac(WIDTH, ROWS)
    names = ("actor", "q", "target")
    for name in names:
        getattr(other, name).vector.copy_(torch.from_numpy(getattr(one, name).vector))
    one.rng, other.rng = (np.random.default_rng(2) for _ in range(2))
    before = {name: getattr(one, name).vector.copy() for name in names}
    for _ in range(3):
        one.update(*columns())
        other.update(*map(torch.from_numpy, columns()))
    for name in names:
        mine, theirs = getattr(one, name).vector, getattr(other, name).vector.numpy()
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
        assert np.abs(mine - before[name]).max() > 1e-5


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_gradients_by_hand_are_those_of_the_critics_loss(algorithm: str) -> None:
    """As autograd has them, for the weights from before the update."""
    made = sac_by_hand.ALGORITHMS[algorithm](WIDTH, ROWS)
    weights = [torch.from_numpy(part.copy()).requires_grad_() for part in made.q.p]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, ROWS), np.float32)
    goal = torch.from_numpy(rng.standard_normal(ROWS, np.float32))
    error = made.q.forward(x)[:, 0] - goal.numpy()
    made.q.backward(x, error[:, None] / np.float32(ROWS))

    h = torch.from_numpy(x)
    for weight, bias in zip(weights[0:4:2], weights[1:4:2], strict=True):
        h = torch.relu(weight @ h + bias)
    values = (weights[4] @ h + weights[5])[:, 0]
    (0.5 * (values - goal).square().sum() / ROWS).backward()
    for part, weight in zip(made.q.g, weights, strict=True):
        assert weight.grad is not None
        np.testing.assert_allclose(part, weight.grad.numpy(), atol=1e-5)


def test_the_actor_of_td3_and_its_targets_have_their_turn_in_every_second_update() -> None:
    td3 = sac_by_hand.Td3(WIDTH, ROWS)
    vectors = [net.vector for net in (td3.actor, td3.actor_target, td3.target)]
    for turn in range(4):
        before = [vector.copy() for vector in vectors]
        td3.update(*columns())
        moved = [bool((old != new).any()) for old, new in zip(before, vectors, strict=True)]
        assert moved == [turn % 2 == 1] * 3
