"""Random rows of steps, random tensors of any shape, and small ones written by hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

GAMMA = 0.9
few = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@dataclass
class Steps:
    """T rows of B environments in which episodes end anywhere, for either reason, or not at all."""

    r_t: Tensor
    v_tm1: Tensor
    v_t: Tensor
    """of the true next observation: of the next row, or of the final one where an episode ended"""
    terminated_t: Tensor
    ended_t: Tensor
    log_rhos: Tensor

    @property
    def discount_t(self) -> Tensor:
        return GAMMA * (~self.terminated_t).double()


def make_steps(time: int, batch: int, seed: int, end_probability: float) -> Steps:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    ended = torch.rand(time, batch, generator=random) < end_probability
    terminated = ended & (torch.rand(time, batch, generator=random) < 0.5)
    values, final_values = normal(time + 1, batch), normal(time, batch)
    return Steps(
        r_t=normal(time, batch),
        v_tm1=values[:-1],
        v_t=torch.where(ended, final_values, values[1:]),
        terminated_t=terminated,
        ended_t=ended,
        log_rhos=normal(time, batch),
    )


steps = st.builds(
    make_steps,
    time=st.integers(1, 7),
    batch=st.integers(1, 3),
    seed=seeds,
    end_probability=st.sampled_from([0.0, 0.3, 1.0]),
)
lambdas = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def normals(count: int, shape: tuple[int, ...], seed: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, *shape, generator=random, dtype=torch.float64))


def column(*numbers: float) -> Tensor:
    """[T, 1]: the steps of one environment."""
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)


def flags(*numbers: int) -> Tensor:
    """[T, 1]: the flags of one environment."""
    return torch.tensor(numbers, dtype=torch.bool).unsqueeze(1)


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
