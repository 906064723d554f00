"""Log-probabilities and entropies, against torch's own distributions."""

from __future__ import annotations

import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import distributions as oracle

from rillflow.policies.actions import actions_of
from rillflow.policies.distributions import evaluate
from tests.unit.policies.parts import few


def normals(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@few
@given(rows=st.integers(1, 5), sizes=st.lists(st.integers(1, 5), min_size=1), seed=st.integers(0))
def test_categoricals(rows: int, sizes: list[int], seed: int) -> None:
    seed %= 2**32
    logits = normals(rows, sum(sizes), seed=seed)
    parts = [oracle.Categorical(logits=part) for part in logits.split(sizes, -1)]
    taken = torch.stack([part.logits.argmin(-1) for part in parts], -1)
    logp, entropy = evaluate(actions_of(spaces.MultiDiscrete(sizes)), logits, None, taken)
    expected = sum(part.log_prob(a) for part, a in zip(parts, taken.unbind(-1), strict=True))
    torch.testing.assert_close(logp, expected)
    torch.testing.assert_close(entropy, sum(part.entropy() for part in parts))
    if len(sizes) == 1:
        alone = evaluate(actions_of(spaces.Discrete(sizes[0])), logits, None, taken.squeeze(-1))
        torch.testing.assert_close(alone, (logp, entropy))


@few
@given(rows=st.integers(1, 5), size=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_gaussians(rows: int, size: int, seed: int) -> None:
    mean, taken = normals(2, rows, size, seed=seed)
    log_std = normals(size, seed=seed + 1)
    logp, entropy = evaluate(actions_of(spaces.Box(-1, 1, (size,))), mean, log_std, taken)
    expected = oracle.Independent(oracle.Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(logp, expected.log_prob(taken))
    torch.testing.assert_close(entropy, expected.entropy())


def test_an_action_ruled_out_leaves_numbers_and_gradients_finite() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0]], requires_grad=True)
    logp, entropy = evaluate(actions_of(spaces.Discrete(3)), logits, None, torch.tensor([2]))
    torch.testing.assert_close(entropy, torch.tensor([2.0]).log())
    (logp + entropy).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
