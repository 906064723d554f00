"""Networks that remember: an lstm or a gru above whatever sees the observation.

Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735; Cho et al. 2014, arXiv:1406.1078.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from rillflow.policies.combined import CombinedTrunk
from rillflow.policies.convolutions import Convolutions, convolutions_of
from rillflow.policies.heads import Headed
from rillflow.policies.mlp import Layers, vector_layers
from rillflow.policies.spec import PolicySpec

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
"""kinds of memory; the parameters of one are called as its kind: `gru.weight_ih_l0`, ..."""


class Recurrent(Headed):
    """Layers or convolutions, then a memory, then heads.

    The state of an environment is one array, so that states travel as one column of a batch and
    are selected by environment like anything else: of an lstm [2, size], hidden on top of cell; of
    a gru [size].
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        assert spec.memory is not None, "this network is for specs with a memory"
        self.kind = spec.memory
        self.trunk: Layers | Convolutions | CombinedTrunk
        if spec.packed:
            self.trunk = CombinedTrunk(spec)
        else:
            self.trunk = convolutions_of(spec) if spec.image else vector_layers(spec)
        self.add_module(self.kind, CELLS[self.kind](self.trunk.features, spec.memory_size))
        self.add_heads(spec.memory_size)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values, state)` or `(q values, state)`.

        Args:
            obs: [T, B, ...].
            state: before the first row, [B, *state_shape].
            starts: [T, B], true where an episode begins: the state before it is forgotten.
        """
        time, batch = starts.shape
        features: Tensor = self.trunk(obs.flatten(0, 1)).unflatten(0, (time, batch))
        remembered, state = self._remember(features, state, starts)
        return (*self.heads(remembered), state)

    def _remember(self, x: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        # the cells run over whole stretches in which no environment starts an episode: one call
        # for a long stretch costs far less than one per row
        parts = self._apart(state)
        # a single row is one stretch, and a device need not be asked
        resets = starts.any(1).nonzero().flatten().tolist() if len(x) > 1 else []
        cuts = sorted({0, *resets, len(x)})
        pieces = []
        for begin, end in pairwise(cuts):
            piece, parts = self._stretch(x[begin:end], parts, starts[begin])
            pieces.append(piece)
        return torch.cat(pieces), _together(parts)

    def one_step(self, x: Tensor, state: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """What is remembered of one row of features, [B, features], whatever `start` holds."""
        known, parts = self._stretch(x.unsqueeze(0), self._apart(state), start)
        return known.squeeze(0), _together(parts)

    def _apart(self, state: Tensor) -> list[Tensor]:
        return list(state.transpose(0, 1).contiguous()) if self.kind == "lstm" else [state]

    def _stretch(
        self, x: Tensor, parts: list[Tensor], start: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Rows in which episodes begin at the first one only."""
        forget = start.unsqueeze(-1)
        # filled, not multiplied by zero: what is forgotten may be NaN
        before = [part.masked_fill(forget, 0).unsqueeze(0) for part in parts]
        cells = getattr(self, self.kind)
        piece, after = cells(x, tuple(before) if len(before) > 1 else before[0])
        return piece, [part.squeeze(0) for part in (after if len(before) > 1 else (after,))]


def _together(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts, 1) if len(parts) > 1 else parts[0]
