"""What every built-in network ends in: outputs for actions, and a value where one is needed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rillflow.policies.categorical import dueling as dueling_atoms
from rillflow.policies.categorical import expected
from rillflow.policies.dueling import dueling
from rillflow.policies.noisy import linear
from rillflow.policies.spec import PolicySpec


class Headed(nn.Module):
    """A network that ends in the heads its spec asks for.

    Parameters are named `action_head`, `value_head` and `log_std`, in all networks alike.
    """

    atoms: Tensor

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.spec = spec

    def add_heads(self, features: int) -> None:
        """Add the heads, behind this many features; a network calls it after making its trunk."""
        self.action_head = linear(self.spec, features, self.spec.head_width)
        if self.spec.has_value:
            self.value_head = linear(self.spec, features, self.spec.num_atoms)
        if self.spec.num_atoms > 1:  # they follow from the spec, so they are no weights
            self.register_buffer("atoms", torch.tensor(self.spec.atoms), persistent=False)
        if self.spec.has_log_std:
            self.log_std = nn.Parameter(torch.zeros(self.spec.actions.numbers))

    def heads(self, features: Tensor, critic: Tensor | None = None) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of features [..., F]; `critic` has its own."""
        if self.spec.num_atoms > 1:
            return (expected(self._logits(features), self.atoms),)
        outputs: Tensor = self.action_head(features)
        if not self.spec.has_value:
            return (outputs,)
        values = self.value(features if critic is None else critic)
        return (dueling(values, outputs),) if self.spec.dueling else (outputs, values)

    def q_logits(self, obs: Tensor) -> Tensor:
        """Logits of the distributions of returns [N, actions, atoms] on observations [N, ...]."""
        return self._logits(self.get_submodule("trunk")(obs))

    def _logits(self, features: Tensor) -> Tensor:
        sizes = (self.spec.width, self.spec.num_atoms)
        logits: Tensor = self.action_head(features).unflatten(-1, sizes)
        return dueling_atoms(self.value_head(features), logits) if self.spec.dueling else logits

    def value(self, features: Tensor) -> Tensor:
        """Values [...] of features [..., F]."""
        values: Tensor = self.value_head(features)
        return values.squeeze(-1)
