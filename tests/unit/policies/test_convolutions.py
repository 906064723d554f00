"""Convolutions for images of any size, and images that an mlp sees flat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rillflow.images import Image
from rillflow.learning.overview import described
from rillflow.policies import convolutions
from rillflow.policies.convolution_plan import plan_for
from rillflow.policies.convolutions import image_encoder
from rillflow.policies.make import make_actor
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.saved import load_policy, save_policy, spec_from_data, spec_to_data
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy

PLANES = Box(0, 1, (10, 10, 4), np.uint8)


def make_spec(space: Any, model: Any = "cnn", **choices: Any) -> PolicySpec:
    return PolicySpec(observation_space=space, action_space=Discrete(3), model=model, **choices)


@pytest.mark.parametrize("sides", [(5, 5), (5, 40), (10, 10), (35, 35), (36, 36), (114, 30)])
def test_the_sizes_of_a_plan_are_those_of_the_network(sides: tuple[int, int]) -> None:
    plan = plan_for(Image(*sides, 3, "last"))
    nature = min(sides) >= 36
    assert plan.features == (512 if nature else 128)
    assert (plan.layers[0].kernel == (8, 8)) == nature
    spec = make_spec(Box(0, 255, (*sides, 3), np.uint8), channels="last")
    policy = TorchPolicy(spec, 1)
    actions, logp = policy.act(np.zeros((2, *sides, 3), np.uint8))
    assert actions.shape == logp.shape == (2,)


@pytest.mark.parametrize("most", [1, 4, 255])
def test_whole_pixels_are_scaled_by_the_largest(most: int) -> None:
    """So that white is 1 whatever it is called: what the network gives does not change."""
    image = np.random.default_rng(0).integers(0, 2, (3, 10, 10, 4)).astype(np.uint8)
    bits = TorchPolicy(make_spec(PLANES), 1).outputs(image)
    other = TorchPolicy(make_spec(Box(0, most, (10, 10, 4), np.uint8)), 1).outputs(image * most)
    torch.testing.assert_close(bits, other)


def test_floats_are_scaled_channel_by_channel() -> None:
    image = np.random.default_rng(0).random((3, 2, 9, 9), np.float32)
    unit = TorchPolicy(make_spec(Box(0, 1, (2, 9, 9))), 1)
    low = np.stack([np.full((9, 9), -5.0), np.full((9, 9), 100.0)]).astype(np.float32)
    span = np.array([10.0, 50.0], np.float32)[:, None, None]
    wide = TorchPolicy(make_spec(Box(low, low + span)), 1)
    torch.testing.assert_close(
        unit.outputs(image), wide.outputs(image * span + low), rtol=1e-4, atol=1e-5
    )


def test_floats_without_bounds_stay_as_they_are() -> None:
    image = np.random.default_rng(0).random((3, 2, 9, 9), np.float32)
    free = TorchPolicy(make_spec(Box(-np.inf, np.inf, (2, 9, 9))), 1)
    unit = TorchPolicy(make_spec(Box(0, 1, (2, 9, 9))), 1)
    assert torch.equal(free.outputs(image), unit.outputs(image))


@pytest.mark.parametrize(("shape", "order"), [((9, 12, 3), "last"), ((9, 12), "none")])
def test_the_axis_of_the_channels_does_not_matter(shape: Any, order: str) -> None:
    first = TorchPolicy(make_spec(Box(0, 255, (3 if len(shape) > 2 else 1, 9, 12), np.uint8)), 1)
    other = TorchPolicy(make_spec(Box(0, 255, shape, np.uint8)), 1)
    image = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    turned = image.transpose(0, 3, 1, 2) if len(shape) > 2 else image[:, None]
    assert other.spec.image is not None
    assert other.spec.image.order == order
    torch.testing.assert_close(first.outputs(turned.copy()), other.outputs(image))


@pytest.mark.parametrize("space", [PLANES, Box(0, 255, (3, 3), np.uint8)], ids=str)
def test_an_mlp_sees_images_flat_and_scaled_with_and_without_torch(space: Any) -> None:
    spec = make_spec(space, "mlp")
    image = np.random.default_rng(0).integers(0, int(space.high.max()) + 1, (5, *space.shape))
    small, large = NumpyPolicy(spec, 3), TorchPolicy(spec, 3)
    np.testing.assert_allclose(
        small.outputs(image.astype(np.uint8)),
        large.outputs(image.astype(np.uint8)).detach().numpy(),
        atol=1e-6,
    )
    flat = PolicySpec(
        observation_space=Box(0, 1, (space.low.size,)), action_space=Discrete(3), model="mlp"
    )
    floats = (image / int(space.high.max())).reshape(5, -1).astype(np.float32)
    np.testing.assert_allclose(
        NumpyPolicy(flat, 3).outputs(floats), small.outputs(image.astype(np.uint8)), atol=1e-6
    )


def test_an_encoder_alone_shrinks_what_is_large() -> None:
    """Sides above 128 pixels are averaged before the first convolution."""
    encoder = image_encoder(Box(0, 255, (457, 120, 3), np.uint8))
    assert encoder.pool == 4
    image = torch.randint(0, 256, (2, 457, 120, 3), dtype=torch.uint8)
    features = encoder(image)
    assert features.shape == (2, encoder.features)
    features.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in encoder.parameters())


def test_a_memory_lies_above_small_and_float_images() -> None:
    for space in (PLANES, Box(-1, 1, (3, 7, 7))):
        policy = TorchPolicy(make_spec(space, "lstm", memory_size=8), 1)
        assert policy.spec.image is not None
        obs, starts = np.zeros((2, *space.shape), space.dtype), np.ones(2, bool)
        _, _, after = policy.act_recurrent(obs, policy.initial_state(2), starts)
        assert after.shape == (2, 2, 8)


def test_a_saved_policy_knows_where_its_channels_are(tmp_path: Path) -> None:
    spec = make_spec(Box(0, 1, (6, 7, 9)), channels="last")
    policy = TorchPolicy(spec, 1)
    save_policy(tmp_path / "p.npz", spec, policy.get_weights(), {})
    loaded, weights, _ = load_policy(tmp_path / "p.npz")
    again = make_actor(loaded)
    again.set_weights(weights)
    image = np.random.default_rng(0).random((4, 6, 7, 9), np.float32)
    assert np.array_equal(policy.greedy(image), again.greedy(image))
    assert loaded.image == spec.image


def test_files_from_before_channels_are_read_as_they_were_written() -> None:
    """Then the shorter outer axis had the channels, and white was 255."""
    old = spec_to_data(make_spec(Box(0, 9, (40, 40, 60), np.uint8), image_features=512))
    del old["channels"]
    spec = spec_from_data(old)
    assert spec.image == Image(40, 60, 40, "first")
    assert int(spec.observation_space.high.max()) == 255  # type: ignore[attr-defined]


def test_explain_shows_the_layers() -> None:
    assert described(make_spec(PLANES)) == ("actor and critic on cnn of 10x10x4: 32@3x3/1x1, 128")


def test_without_gradients_many_images_go_through_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes out is the same; with gradients a batch is one piece, as they need all of it."""
    encoder = image_encoder(Box(0, 255, (10, 10, 4), np.uint8))
    images = torch.randint(0, 255, (40, 10, 10, 4), dtype=torch.uint8)
    whole = encoder(images).detach()
    sizes: list[int] = []
    through = encoder._features
    monkeypatch.setattr(encoder, "_features", lambda part: sizes.append(len(part)) or through(part))
    monkeypatch.setattr(convolutions, "_PIECE", 4 * 400 * 17)  # 17 images, in sixteens
    with torch.no_grad():
        torch.testing.assert_close(encoder(images), whole)
    assert sizes == [16, 16, 8]
    encoder(images)
    assert sizes[3:] == [40]
