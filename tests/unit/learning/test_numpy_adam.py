"""Adam on a vector, against torch's."""

import numpy as np
import pytest
import torch

from rillflow.learning.numpy_adam import Adam

SIZE = 64


@pytest.mark.parametrize("amsgrad", [False, True])
def test_it_steps_as_torch_does(amsgrad: bool) -> None:
    """Over hundreds of steps, with gradients of which some are nothing for long."""
    rng = np.random.default_rng(0)
    ours = rng.standard_normal(SIZE, dtype=np.float32)
    theirs = torch.nn.Parameter(torch.from_numpy(ours.copy()))
    adam = Adam(ours, 1e-3, eps=1e-5, amsgrad=amsgrad)
    reference = torch.optim.Adam([theirs], 1e-3, eps=1e-5, amsgrad=amsgrad)
    for step in range(400):
        gradient = rng.standard_normal(SIZE, dtype=np.float32)
        if step > 50:
            gradient[: SIZE // 2] = 0
        adam.step(gradient)
        theirs.grad = torch.from_numpy(gradient.copy())
        reference.step()
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-5)


def test_amsgrad_remembers_how_large_gradients_were() -> None:
    """One of size 1, after thousands that were tiny: Adam moves thirty times as far."""
    moved = {}
    for amsgrad in (False, True):
        adam = Adam(np.zeros(1, np.float32), 1e-3, eps=1e-8, amsgrad=amsgrad)
        for gradient in (*[1.0] * 2000, *[1e-6] * 10_000):
            adam.step(np.array([gradient], np.float32))
        before = float(adam.parameters[0])
        for gradient in (1.0, *[0.0] * 50):
            adam.step(np.array([gradient], np.float32))
        moved[amsgrad] = before - float(adam.parameters[0])
    assert moved[True] == pytest.approx(1e-3, rel=0.2)
    assert moved[False] > 20 * moved[True]


def test_averages_of_what_has_died_become_nothing() -> None:
    """Numbers below the smallest normal one would make every step ten times slower."""
    parameters = np.zeros(SIZE, np.float32)
    adam = Adam(parameters, 1e-3, eps=1e-5)
    adam.step(np.full(SIZE, 1e-3, np.float32))
    before = parameters.copy()
    for _ in range(1500):
        adam.step(np.zeros(SIZE, np.float32))
        tiny = np.finfo(np.float32).tiny
        assert not np.any((adam.mean != 0) & (np.abs(adam.mean) < tiny))
    assert not adam.mean.any()
    assert np.abs(parameters - before).max() < 0.1, "it came to rest"
