"""Networks from specs: how they start, and what goes through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rillflow.errors import BuildError
from rillflow.policies.convolutions import channels_last, convolutions_of
from rillflow.policies.initial import orthogonal
from rillflow.policies.make_model import make_model
from rillflow.policies.recurrent import Recurrent
from rillflow.policies.spec import PolicySpec

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
ATARI = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def make_spec(observations: Any = VECTOR, **choices: Any) -> PolicySpec:
    return PolicySpec(observation_space=observations, action_space=spaces.Discrete(3), **choices)


def gain(weight: torch.Tensor) -> float:
    """What an orthogonal matrix is multiplied with; fails if it is not orthogonal."""
    matrix = weight.detach().flatten(1)
    matrix = matrix.T if len(matrix) > matrix[0].numel() else matrix
    gram = matrix @ matrix.T
    square = gram.diagonal().mean()
    torch.testing.assert_close(gram, square * torch.eye(len(gram)), atol=1e-4, rtol=1e-4)
    return float(square.sqrt())


@pytest.mark.parametrize(
    "spec",
    [make_spec(), make_spec(shared=True), make_spec(ATARI, model="cnn"), make_spec(model="lstm")],
    ids=["mlp", "shared", "cnn", "lstm"],
)
def test_layers_start_orthogonal_with_the_usual_gains(spec: PolicySpec) -> None:
    for name, parameter in make_model(spec, 3).named_parameters():
        if parameter.ndim == 1:
            assert not parameter.any(), name
        else:
            expected = {"action_head": 0.01, "value_head": 1, "lstm": 1}.get(name.split(".")[0])
            assert gain(parameter) == pytest.approx(expected or 2**0.5, rel=1e-3), name


def test_q_values_do_not_start_small() -> None:
    model: Any = make_model(make_spec(head="q", dueling=True))
    assert gain(model.action_head.weight) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6)])
def test_orthogonal_matrices_are_spread_evenly(shape: tuple[int, int]) -> None:
    """No sign is preferred: the mean over many seeds is near zero."""
    mean = np.mean([orthogonal(shape, 1.0, seed) for seed in range(400)], 0)
    assert np.abs(mean).max() < 0.15


@pytest.mark.parametrize("model", ["mlp", "lstm", lambda spec: nn.Linear(4, 3)])
def test_a_seed_decides_the_weights_and_touches_nothing_else(model: Any) -> None:
    spec = make_spec(model=model)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = make_model(spec, 1), make_model(spec, 1), make_model(spec, 2)
    assert torch.equal(before, torch.random.get_rng_state())
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        if name.endswith("weight"):
            assert not torch.equal(parameter, other.get_parameter(name))


def test_the_nature_network_has_its_published_shapes() -> None:
    shapes = {
        n: tuple(p.shape)
        for n, p in convolutions_of(make_spec(ATARI, model="cnn")).named_parameters()
    }
    assert shapes["conv1.weight"] == (32, 4, 8, 8)
    assert shapes["conv2.weight"] == (64, 32, 4, 4)
    assert shapes["conv3.weight"] == (64, 64, 3, 3)
    assert shapes["dense.weight"] == (512, 64 * 7 * 7)


@pytest.mark.parametrize(
    "shape", [(4, 84, 84), (84, 84, 4), (3, 64, 96), (105, 80, 3), (1, 36, 36)]
)
def test_images_may_have_their_channels_on_either_side(shape: tuple[int, ...]) -> None:
    spec = make_spec(spaces.Box(0, 255, shape, np.uint8), model="cnn")
    images = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    outputs, values = make_model(spec)(images)
    assert outputs.shape == (2, 3)
    assert values.shape == (2,)


def test_channels_on_either_side_mean_the_same() -> None:
    first = make_model(make_spec(ATARI, model="cnn"), 1)
    last = make_model(make_spec(spaces.Box(0, 255, (84, 84, 4), np.uint8), model="cnn"), 1)
    images = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)))


def test_images_are_channels_last_before_the_first_convolution() -> None:
    """And pixels are scaled to [0, 1]: up to rounding it is the network as it is written down."""
    convolutions = convolutions_of(make_spec(ATARI, model="cnn"))
    seen: list[torch.Tensor] = []
    convolutions.conv2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    images = torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8)
    features = convolutions(images)
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    x = images.float() / 255
    for conv in (convolutions.conv1, convolutions.conv2, convolutions.conv3):
        x = torch.relu(conv(x))
    plain = torch.relu(convolutions.dense(x.flatten(1)))
    torch.testing.assert_close(features, plain, rtol=1e-5, atol=1e-5)
    weight = convolutions.conv1.weight
    (own,), (other,) = (torch.autograd.grad(y.square().mean(), weight) for y in (features, plain))
    torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 4, 17])
def test_reordering_changes_no_pixel(channels: int) -> None:
    """Few channels go one by one, many at once, and what is in order already stays."""
    images = torch.randint(0, 256, (3, channels, 10, 12), dtype=torch.uint8)
    ordered = channels_last(images)
    assert torch.equal(ordered, images)
    assert ordered.is_contiguous(memory_format=torch.channels_last)
    assert channels_last(ordered) is ordered


def lstm_inputs(time: int, batch: int) -> tuple[Recurrent, torch.Tensor, torch.Tensor]:
    model = make_model(make_spec(model="lstm", memory_size=5), 1)
    assert isinstance(model, Recurrent)
    random = torch.Generator().manual_seed(0)
    obs = torch.randn(time, batch, 4, generator=random)
    return model, obs, torch.randn(batch, 2, 5, generator=random)


def test_a_start_in_the_middle_makes_two_sequences() -> None:
    model, obs, state = lstm_inputs(7, 2)
    starts = torch.zeros(7, 2, dtype=torch.bool)
    starts[3] = True
    outputs, values, last = model(obs, state, starts)
    none = torch.zeros(7, 2, dtype=torch.bool)
    before = model(obs[:3], state, none[:3])
    after = model(obs[3:], torch.zeros(2, 2, 5), none[3:])
    torch.testing.assert_close(outputs, torch.cat((before[0], after[0])))
    torch.testing.assert_close(values, torch.cat((before[1], after[1])))
    torch.testing.assert_close(last, after[2])


def test_a_start_is_of_one_environment_only() -> None:
    model, obs, state = lstm_inputs(6, 3)
    starts = torch.rand(6, 3, generator=torch.Generator().manual_seed(1)) < 0.3
    starts[2] = torch.tensor([True, False, False])
    whole = model(obs, state, starts)
    for b in range(3):
        one = slice(b, b + 1)
        alone = model(obs[:, one], state[one], starts[:, one])
        torch.testing.assert_close((whole[0][:, one], whole[2][one]), (alone[0], alone[2]))


def test_what_is_forgotten_may_be_nan() -> None:
    model, obs, state = lstm_inputs(2, 2)
    starts = torch.tensor([[True, True], [False, False]])
    clean = model(obs, state, starts)
    torch.testing.assert_close(model(obs, state * torch.nan, starts), clean)


def test_no_gradient_crosses_a_start() -> None:
    model, obs, state = lstm_inputs(4, 1)
    obs.requires_grad_()
    starts = torch.tensor([[False], [False], [True], [False]])
    outputs, _, _ = model(obs, state, starts)
    outputs[2:].sum().backward()
    assert obs.grad is not None
    assert not obs.grad[:2].any()
    assert obs.grad[2:].any()


def test_an_lstm_over_images() -> None:
    model = make_model(make_spec(ATARI, model="lstm", memory_size=6, image_features=16))
    obs = torch.randint(0, 256, (3, 2, 4, 84, 84), dtype=torch.uint8)
    outputs, values, state = model(obs, torch.zeros(2, 2, 6), torch.zeros(3, 2, dtype=torch.bool))
    assert (outputs.shape, values.shape, state.shape) == ((3, 2, 3), (3, 2), (2, 2, 6))


class FixedWidth(nn.Linear):
    """A Gaussian whose width is not learned."""

    def __init__(self, spec: PolicySpec, numbers: int = 2) -> None:
        super().__init__(4, 2)
        self.register_buffer("log_std", torch.full((numbers,), -1.0))


def test_the_width_of_a_gaussian_may_be_given() -> None:
    spaces_of = {"observation_space": VECTOR, "action_space": spaces.Box(-1, 1, (2,))}
    model = make_model(PolicySpec(**spaces_of, model=FixedWidth))
    assert [name for name, _ in model.named_parameters()] == ["weight", "bias"]
    wrong = PolicySpec(**spaces_of, model=lambda spec: FixedWidth(spec, 3))
    with pytest.raises(BuildError, match=r"log_std of FixedWidth must be .* of shape \[2\]"):
        make_model(wrong)
