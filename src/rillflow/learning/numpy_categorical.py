"""The network of an mlp policy whose q values are means of distributions, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning import losses
from rillflow.learning.losses.node import node
from rillflow.learning.numpy_module import filled
from rillflow.learning.numpy_network import Network
from rillflow.learning.tape import Var, value_of
from rillflow.policies.action_masks import RULED_OUT
from rillflow.policies.atoms import dueling
from rillflow.policies.sampling import Array, Floats


class CategoricalNetwork(Network):
    """Distributions of returns over atoms (Bellemare et al. 2017, arXiv:1707.06887)."""

    def q_values(self, obs: Array) -> Any:
        """One value per action [N, actions], the mean of its distribution."""
        mask = self.action_mask(self._flat(obs))
        q = losses.expected_values(self.q_logits(obs), *self.spec.support)
        if mask is None:
            return q
        ruled = np.where(mask, value_of(q), RULED_OUT)
        return node(ruled, q, lambda g: np.where(mask, g, np.float32(0)))

    def q_logits(self, obs: Array) -> Any:
        """Logits [N, actions, atoms]; in memory, those of an atom are side by side."""
        columns = self._columns(self._flat(obs))
        if self.tape is None:
            return self._logits(*self._apply(columns)).transpose(2, 0, 1)
        outputs, value, passes = self._forward(columns)
        out = Var(self._logits(outputs, value).transpose(2, 0, 1), self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is None or not self.learns:
                return
            d = filled(gradient, out.value.shape).transpose(1, 2, 0)
            flat = (len(outputs), columns.shape[1])
            add = self._adds(whole=True)
            if value is None:
                self._backward(passes, d.reshape(flat), None, add)
                return
            total = np.add.reduce(d, 0)
            advantages = d - total * np.float32(1 / len(d))
            self._backward(passes, advantages.reshape(flat), total, add)

        self.tape.backs.append(back)
        return out

    def _logits(self, outputs: Floats, value: Floats | None) -> Floats:
        """[actions, atoms, N]."""
        logits = outputs.reshape(self.spec.width, self.spec.num_atoms, -1)
        return logits if value is None else dueling(logits, value)
