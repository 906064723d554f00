"""Log-probabilities and entropies of actions, and how they change with a network's outputs.

The twin of `policies.distributions`. A distribution is made for each evaluation, and remembers it;
the `d_entropy` of its `backward` is one number for every row, or one for each [N].
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np

from rillflow.learning.few_rows import numbered, over_few
from rillflow.policies.actions import Actions
from rillflow.policies.sampling import Array, Floats


class Categorical:
    """One choice of some, by logits."""

    def evaluate(self, logits: Floats, taken: Array) -> tuple[Floats, Floats]:
        """Log-probabilities of the actions taken [N], and entropies [N], of logits [A, N]."""
        self._at = (taken, numbered(len(taken)))
        logp = logits - over_few(np.maximum, logits)
        p = np.exp(logp)
        total = over_few(np.add, p)
        p /= total
        logp -= np.log(total)
        self._p, self._logp = p, logp
        self._entropy = -over_few(np.add, p * logp)
        return logp[self._at], self._entropy

    def backward(self, d_logp: Floats, d_entropy: float | Floats, add: bool = False) -> Floats:
        """The gradient of the logits [A, N]."""
        d_logits: Floats = self._p * -d_logp
        d_logits[self._at] += d_logp
        if isinstance(d_entropy, np.ndarray) or d_entropy:
            slope = self._logp + self._entropy
            slope *= self._p
            slope *= d_entropy
            d_logits -= slope
        return d_logits


class Categoricals:
    """Several independent choices."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.ranges = list(pairwise((0, *accumulate(sizes))))
        self.parts = [Categorical() for _ in sizes]

    def evaluate(self, logits: Floats, taken: Array) -> tuple[Floats, Floats]:
        """Sums over the choices, of logits [width, N] and actions [N, choices]."""
        evaluated = [
            part.evaluate(logits[begin:end], taken[:, index])
            for index, (part, (begin, end)) in enumerate(zip(self.parts, self.ranges, strict=True))
        ]
        return sum(e[0] for e in evaluated), sum(e[1] for e in evaluated)  # type: ignore[return-value]

    def backward(self, d_logp: Floats, d_entropy: float | Floats, add: bool = False) -> Floats:
        """The gradient of the logits [width, N]."""
        return np.concatenate([part.backward(d_logp, d_entropy) for part in self.parts])


class Gaussian:
    """Independent components whose width does not depend on the observation."""

    def __init__(self, log_std: Floats, d_log_std: Floats) -> None:
        self.log_std, self.d_log_std = log_std, d_log_std

    def evaluate(self, means: Floats, taken: Array) -> tuple[Floats, Floats]:
        """Log-probabilities [N] of the actions [N, width], and entropies [N]."""
        size = len(self.log_std)
        self._inverse = np.exp(-self.log_std)[:, None]
        self._distance = (taken.T - means) * self._inverse
        constant = np.float32(self.log_std.sum() + 0.5 * size * math.log(2 * math.pi))
        logp = np.float32(-0.5) * (self._distance * self._distance).sum(0) - constant
        return logp, np.full_like(logp, constant + np.float32(0.5 * size))

    def backward(self, d_logp: Floats, d_entropy: float | Floats, add: bool = False) -> Floats:
        """The gradient of the means [width, N]; that of `log_std` is left or added."""
        d_log_std = np.matmul(self._distance * self._distance - 1, d_logp)
        if add:
            self.d_log_std += d_log_std
        else:
            self.d_log_std[:] = d_log_std
        each = isinstance(d_entropy, np.ndarray)
        self.d_log_std += np.float32(np.sum(d_entropy) * (1 if each else len(d_logp)))
        return self._distance * self._inverse * d_logp


class Mixed:
    """Choices first, then numbers, independent of each other."""

    def __init__(self, choices: tuple[int, ...], log_std: Floats, d_log_std: Floats) -> None:
        self._choices, self._numbers = Categoricals(choices), Gaussian(log_std, d_log_std)
        self._parts, self._width = len(choices), sum(choices)

    def evaluate(self, outputs: Floats, taken: Array) -> tuple[Floats, Floats]:
        """Sums over both, of outputs [width, N] and actions [N, choices and numbers]."""
        indices = taken[:, : self._parts].astype(np.int64)
        chosen = self._choices.evaluate(outputs[: self._width], indices)
        drawn = self._numbers.evaluate(outputs[self._width :], taken[:, self._parts :])
        return chosen[0] + drawn[0], chosen[1] + drawn[1]

    def backward(self, d_logp: Floats, d_entropy: float | Floats, add: bool = False) -> Floats:
        """The gradient of the outputs [width, N]; that of `log_std` is left or added."""
        both = (self._choices, self._numbers)
        return np.concatenate([part.backward(d_logp, d_entropy, add) for part in both])


Distribution = Categorical | Categoricals | Gaussian | Mixed


def new_distribution(
    actions: Actions, log_std: Floats | None, d_log_std: Floats | None
) -> Distribution:
    """A distribution over actions of this kind, for one evaluation."""
    if actions.numbers:
        assert log_std is not None
        assert d_log_std is not None
        if actions.kind == "mixed":
            return Mixed(actions.choices, log_std, d_log_std)
        return Gaussian(log_std, d_log_std)
    return Categorical() if actions.kind == "discrete" else Categoricals(actions.sizes)
