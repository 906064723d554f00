"""Convolutional networks for images; large ones are seen by that of deep Q-learning.

It is the network of Mnih et al. 2015, doi:10.1038/nature14236.
"""

from __future__ import annotations

from torch import Tensor

from rillflow.policies.convolutions import convolutions_of
from rillflow.policies.heads import Headed
from rillflow.policies.spec import PolicySpec


class Cnn(Headed):
    """Heads on one convolutional trunk."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk = convolutions_of(spec)
        self.add_heads(self.trunk.features)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of images [N, ...]."""
        return self.heads(self.trunk(obs))
