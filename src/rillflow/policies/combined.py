"""A network for observations of several parts with images among them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rillflow.policies.convolutions import Convolutions, image_encoder
from rillflow.policies.heads import Headed
from rillflow.policies.mlp import Layers
from rillflow.policies.noisy import linear
from rillflow.policies.spec import PolicySpec


class CombinedTrunk(nn.Module):
    """Convolutions for each image; their features and all numbers side by side, and layers behind.

    It takes observations as they travel, bytes [N, length]. An image alone needs no further layers.
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        layout = spec.layout
        assert layout is not None, "it is for observations of several parts"
        self.layout = layout
        encoders = [image_trunk(spec, part.space) for part in layout.images.values()]
        self.encoders = nn.ModuleList(encoders)
        self.features = layout.numbers + sum(one.features for one in encoders)
        self.scale = spec.observation_scale
        self.layers: Layers | None = None
        if layout.numbers or len(self.encoders) > 1:
            dense = partial(linear, spec)
            self.layers = Layers(self.features, spec.hidden, "relu", linear=dense)
            self.features = self.layers.features
        if self.scale is not None:  # they follow from the spec, so they are no weights
            self.register_buffer("middle", torch.tensor(self.scale[0]), persistent=False)
            self.register_buffer("factor", torch.tensor(self.scale[1]), persistent=False)

    def forward(self, obs: Tensor | Mapping[Any, Tensor]) -> Tensor:
        """[N, length] of uint8, or the parts by their paths, to [N, features]."""
        pieces = self.layout.pieces(obs) if isinstance(obs, Tensor) else obs
        seen = [
            encoder(pieces[path])
            for path, encoder in zip(self.layout.images, self.encoders, strict=True)
        ]
        if self.layout.numbers:
            vector = torch.cat([pieces[path].flatten(1) for path in self.layout.vectors], 1)
            if self.scale is not None:
                vector = (vector - self.get_buffer("middle")) * self.get_buffer("factor")
            seen.insert(0, vector)
        features = torch.cat(seen, 1)
        return features if self.layers is None else self.layers(features)


class Combined(Headed):
    """Heads on one trunk for all parts."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk = CombinedTrunk(spec)
        self.add_heads(self.trunk.features)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of observations [N, length]."""
        return self.heads(self.trunk(obs))


def image_trunk(spec: PolicySpec, space: object) -> Convolutions:
    """The convolutions behind one image."""
    return image_encoder(
        space,
        features=spec.image_features,
        channels=spec.channels,
        linear=partial(linear, spec),
    )
