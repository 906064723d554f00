"""NumPy and torch are the same policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from tests.unit.policies.parts import (
    CONTINUOUS,
    MIXED,
    SEVERAL,
    few,
    make_spec,
    mlp_specs,
    shaken,
    vectors,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def pair(spec: PolicySpec, seed: int = 0) -> tuple[NumpyPolicy, TorchPolicy]:
    """The two policies, from other seeds but with the same weights."""
    numpy, torch = NumpyPolicy(spec, seed), TorchPolicy(spec, seed + 1)
    torch.set_weights(shaken(torch.get_weights(), seed))
    numpy.set_weights(torch.get_weights())
    return numpy, torch


@few
@given(spec=mlp_specs(), batch=st.integers(1, 9), seed=st.integers(0, 1000))
def test_outputs_agree(spec: PolicySpec, batch: int, seed: int) -> None:
    """Logits, means and q values, dueling ones too."""
    numpy, torch = pair(spec, seed)
    obs = vectors(spec, batch, seed=seed)
    np.testing.assert_allclose(numpy.outputs(obs), torch.outputs(obs).detach().numpy(), **CLOSE)


@few
@given(spec=mlp_specs(head="actor_critic"), batch=st.integers(1, 9), seed=st.integers(0, 1000))
def test_log_probabilities_agree(spec: PolicySpec, batch: int, seed: int) -> None:
    numpy, torch = pair(spec, seed)
    obs = vectors(spec, batch, seed=seed)
    actions, logp = numpy.act(obs)
    evaluated, _, _ = torch.evaluate(obs, actions)
    np.testing.assert_allclose(logp, evaluated.detach().numpy(), **CLOSE)
    assert logp.dtype == np.float32


@few
@given(spec=mlp_specs(), batch=st.integers(1, 9), seed=st.integers(0, 1000))
def test_greedy_actions_agree(spec: PolicySpec, batch: int, seed: int) -> None:
    numpy, torch = pair(spec, seed)
    obs = vectors(spec, batch, seed=seed)
    np.testing.assert_allclose(numpy.greedy(obs), torch.greedy(obs), **CLOSE)


@few
@given(spec=mlp_specs(), seed=st.integers(0, 1000))
def test_the_same_seed_means_the_same_weights_and_actions(spec: PolicySpec, seed: int) -> None:
    """Nothing has to be sent before a first step, and a backend can be changed in mid-air."""
    numpy, torch = NumpyPolicy(spec, seed), TorchPolicy(spec, seed)
    own, learned = numpy.get_weights(), torch.get_weights()
    assert all(np.array_equal(own[name], learned[name]) for name in own)
    assert {name: array.shape for name, array in learned.items()} == spec.parameter_shapes
    obs = vectors(spec, 5)
    np.testing.assert_allclose(numpy.act(obs, 0.5)[0], torch.act(obs, 0.5)[0], **CLOSE)


@pytest.mark.parametrize("actions", [SEVERAL, CONTINUOUS, MIXED])
def test_the_critic_is_not_needed_to_act(actions: object) -> None:
    spec = make_spec(actions=actions)
    learner, actor = TorchPolicy(spec, 1), NumpyPolicy(spec, 2)
    weights = learner.get_weights()
    actor.set_weights({name: weights[name] for name in spec.acting_names})
    assert not any(name.startswith(("critic", "value_head")) for name in spec.acting_names)
    obs = vectors(spec, 3)
    np.testing.assert_allclose(actor.greedy(obs), learner.greedy(obs), **CLOSE)


def test_a_value_does_not_change_what_a_dueling_network_does() -> None:
    spec = make_spec(head="q", dueling=True)
    numpy, torch = pair(spec)
    obs = vectors(spec, 20)
    assert np.array_equal(numpy.greedy(obs), torch.q_values(obs).argmax(-1).numpy())
