"""Acting with a network on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.policies.cuda_graph import recorded
from rillflow.policies.device_errors import ActingErrors
from rillflow.policies.device_wait import DeviceWait
from rillflow.policies.fixed_shapes import FixedShapes, Record
from rillflow.policies.sampling import Array, Floats
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.weights import check_weights
from rillflow.policies.weights_to_device import WeightsToDevice


class DevicePolicy(TorchPolicy):
    """A policy whose network acts on a device, in batches; the rest is as on the processor.

    Observations travel as they are, pictures as bytes. Outputs come back, and actions are drawn
    from them in NumPy with the policy's own random numbers: what is recorded of an action is what
    it was drawn with. Weights are loaded without waiting.

    Args:
        spec: what to build.
        seed: of the first weights and of the actions.
        device: where the network lives, such as "cuda:0".
        record: how the network's pass is recorded; by default as a CUDA graph on a CUDA device. A
            network of the user's own, which may decide in Python what it does, never is; nor one
            with noisy layers, whose noise is new in each step.
    """

    def __init__(
        self, spec: PolicySpec, seed: int = 0, device: str = "cuda", record: Record | None = None
    ) -> None:
        self._errors = ActingErrors(torch.device(device))
        with self._errors, DeviceWait(torch.device(device)).here:
            super().__init__(spec, seed, device)
            self._loader = WeightsToDevice(self.model.state_dict(), self.device)
            if record is None and self.device.type == "cuda":
                record = recorded
            if self.noise or not isinstance(spec.model, str):
                record = None
            self._pass = FixedShapes(self._one_pass, self.device, record)
        self._known_stds: Floats | None = None

    def pop_notes(self) -> list[str]:
        """What a person should know of how it acts, once."""
        why, self._pass.why_not = self._pass.why_not, ""
        return [f"acts on {self.device} without a CUDA graph: {why}"] if why else []

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights into the network, whose parameters stay where they are."""
        own = self.model.state_dict()
        check_weights(weights, {name: tuple(tensor.shape) for name, tensor in own.items()})
        with self._errors:
            self._loader.load(weights, own)
        self._known_stds = None

    # what acting asks the network

    def _to_act(self, obs: Array) -> Tensor:
        if self.spec.recurrent or obs.shape[1:] != self.spec.observation_shape:
            return super()._to_act(obs)  # which says what is wrong
        with self._errors:
            return torch.from_numpy(self._pass(obs)[0])

    def _to_act_recurrent(self, obs: Array, state: Array, starts: Array) -> tuple[Tensor, Tensor]:
        shape = (len(starts), *self.spec.observation_shape)
        if not self.spec.recurrent or obs.shape != shape or len(state) != len(starts):
            return super()._to_act_recurrent(obs, state, starts)  # as above
        with self._errors:
            outputs, after = self._pass(obs, state, np.asarray(starts, bool))
        return torch.from_numpy(outputs), torch.from_numpy(after)

    def _stds(self) -> Floats | None:
        if self._known_stds is None and self.spec.has_log_std:
            with self._errors:
                self._known_stds = super()._stds()  # asked once for each version of the weights
        return self._known_stds

    def _one_pass(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Outputs [B, width], and of a policy that remembers the new state."""
        if not self.spec.recurrent:
            return (self._forward(*inputs)[0].float().contiguous(),)
        obs, state, starts = inputs
        outputs, *_, after = self._forward(obs.unsqueeze(0), state, starts.unsqueeze(0))
        return outputs[0].float().contiguous(), after.contiguous()
