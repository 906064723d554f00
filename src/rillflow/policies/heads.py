"""What every built-in network ends in: outputs for actions, and a value where one is needed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rillflow.policies.dueling import dueling
from rillflow.policies.spec import PolicySpec


class Headed(nn.Module):
    """A network that ends in the heads its spec asks for.

    Parameters are named `action_head`, `value_head` and `log_std`, in all networks alike.
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.spec = spec

    def add_heads(self, features: int) -> None:
        """Add the heads, behind this many features; a network calls it after making its trunk."""
        self.action_head = nn.Linear(features, self.spec.actions.width)
        if self.spec.has_value:
            self.value_head = nn.Linear(features, 1)
        if self.spec.actions.kind == "continuous":
            self.log_std = nn.Parameter(torch.zeros(self.spec.actions.width))

    def heads(self, features: Tensor, critic: Tensor | None = None) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of features [..., F]; `critic` has its own."""
        outputs: Tensor = self.action_head(features)
        if not self.spec.has_value:
            return (outputs,)
        values = self.value(features if critic is None else critic)
        return (dueling(values, outputs),) if self.spec.dueling else (outputs, values)

    def value(self, features: Tensor) -> Tensor:
        """Values [...] of features [..., F]."""
        values: Tensor = self.value_head(features)
        return values.squeeze(-1)
