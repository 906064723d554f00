"""Policies and first weights from a spec: with NumPy where it can, with torch where it must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from rillflow.policies.initial import weights_at_first
from rillflow.policies.normalizer import Moments, as_buffers
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec

if TYPE_CHECKING:
    from rillflow.policies.torch_policy import TorchPolicy


def first_weights(spec: PolicySpec, seed: int = 0) -> dict[str, NDArray[Any]]:
    """All weights that a learner of this spec and seed starts from; without torch for an mlp."""
    if spec.plain:
        weights = dict(weights_at_first(spec, spec.parameter_shapes, seed))
        if spec.normalize_observations:
            weights |= as_buffers(Moments.none(spec.observation_shape))
        return weights
    from rillflow.policies.torch_policy import TorchPolicy

    return TorchPolicy(spec, seed).get_weights()


def pop_notes_of(policy: Any) -> list[str]:
    """What a policy has to tell of how it acts, once; most have nothing."""
    pop = getattr(policy, "pop_notes", None)
    return [] if pop is None else list(pop())


def make_actor(spec: PolicySpec, seed: int = 0, device: str = "cpu") -> NumpyPolicy | TorchPolicy:
    """A policy to act with, on the CPU or on another device.

    On the CPU, for an mlp, it is a `NumpyPolicy` and torch is never imported; for any other network
    it is a `TorchPolicy`, and on a device a `DevicePolicy`. All start from the same weights as
    `TorchPolicy(spec, seed)`, and all draw the same actions from the same seed.
    """
    if device != "cpu":
        from rillflow.policies.device_policy import DevicePolicy

        return DevicePolicy(spec, seed, device)
    if spec.plain:
        return NumpyPolicy(spec, seed)
    # imported here: it takes more than a second and 200 MB that an mlp's actor can do without
    from rillflow.policies.torch_policy import TorchPolicy

    return TorchPolicy(spec, seed)
