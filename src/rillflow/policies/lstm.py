"""A network that remembers (Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from rillflow.policies.combined import CombinedTrunk
from rillflow.policies.convolutions import Convolutions, convolutions_of
from rillflow.policies.heads import Headed
from rillflow.policies.mlp import Layers, vector_layers
from rillflow.policies.spec import PolicySpec


class Lstm(Headed):
    """Layers or convolutions, then an lstm, then heads.

    The state of an environment is one array [2, size], hidden on top of cell, so that states
    travel as one column of a batch and are selected by environment like anything else.
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk: Layers | Convolutions | CombinedTrunk
        if spec.packed:
            self.trunk = CombinedTrunk(spec)
        else:
            self.trunk = convolutions_of(spec) if spec.image else vector_layers(spec)
        self.lstm = nn.LSTM(self.trunk.features, spec.lstm_size)
        self.add_heads(spec.lstm_size)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values, state)` or `(q values, state)`.

        Args:
            obs: [T, B, ...].
            state: before the first row, [B, 2, size].
            starts: [T, B], true where an episode begins: the state before it is forgotten.
        """
        time, batch = starts.shape
        features: Tensor = self.trunk(obs.flatten(0, 1)).unflatten(0, (time, batch))
        remembered, state = self._remember(features, state, starts)
        return (*self.heads(remembered), state)

    def _remember(self, x: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        # the lstm runs over whole stretches in which no environment starts an episode: one call
        # for a long stretch costs far less than one per row
        hidden, cell = state.transpose(0, 1).contiguous()
        resets = starts.any(1).nonzero().flatten().tolist()
        cuts = sorted({0, *resets, len(x)})
        pieces = []
        for begin, end in pairwise(cuts):
            forget = starts[begin].unsqueeze(-1)
            # filled, not multiplied by zero: what is forgotten may be NaN
            before = [s.masked_fill(forget, 0).unsqueeze(0) for s in (hidden, cell)]
            piece, (hidden, cell) = self.lstm(x[begin:end], (before[0], before[1]))
            hidden, cell = hidden.squeeze(0), cell.squeeze(0)
            pieces.append(piece)
        return torch.cat(pieces), torch.stack((hidden, cell), 1)
