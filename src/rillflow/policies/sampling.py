"""From a network's outputs to actions and their log-probabilities, in NumPy, for both policies.

Outputs are [width, B], one row per action: sums over a few actions then run along whole vectors,
which is several times faster than along rows of two or three numbers. Randomness is drawn once
per call. The outputs are overwritten.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.envs.finite import finite
from rillflow.errors import RunError
from rillflow.policies.action_masks import allowed, random_choice
from rillflow.policies.spec import PolicySpec

Floats = NDArray[np.float32]
Array = NDArray[Any]

LOG_STD_LOW, LOG_STD_HIGH = np.float32(-20), np.float32(2)
"""bounds of the logarithm of a standard deviation that is an output of a network"""
_TWO, _LOG_2 = np.float32(2), np.float32(math.log(2))


class Sampler:
    """Draws the actions of a policy."""

    def __init__(self, spec: PolicySpec) -> None:
        self.actions = spec.actions
        self.head = spec.head
        self._masked = spec.masked
        self._columns = np.arange(0)
        self._ranges = list(pairwise((0, *accumulate(spec.actions.choices))))
        self._choices = sum(spec.actions.choices)
        if spec.bounded:
            self._middle, self._half = (scale[:, None] for scale in spec.action_scale)

    def sample(
        self,
        outputs: Floats,
        log_std: Floats | None,
        rng: np.random.Generator,
        epsilon: float | Floats = 0.0,
    ) -> tuple[Array, Floats]:
        """Actions [B, *shape] and the logarithms of the probabilities they had [B].

        Args:
            outputs: logits, means or q values, [width, B]; overwritten.
            log_std: of a Gaussian [width].
            rng: where the randomness comes from.
            epsilon: how often q values are not followed: one number, or one per environment.
        """
        if self.head == "squashed_gaussian":
            return self._squashed(outputs, rng)
        if self.head == "deterministic":
            return self.greedy(outputs), np.zeros(outputs.shape[1], np.float32)
        if self.actions.kind == "continuous":
            assert log_std is not None
            return self._gaussian(outputs, log_std, rng)
        if self.actions.kind == "mixed":
            assert log_std is not None
            return self._mixed(outputs, log_std, rng)
        columns = self._numbered(outputs.shape[1])
        if self.head == "q":
            return _epsilon_greedy(outputs, rng, epsilon, self._masked)
        if self.actions.kind == "discrete":
            uniform = rng.random((outputs.shape[1],), dtype=np.float32)
            return _categorical(outputs, uniform, columns)
        return self._multi(outputs, rng, columns)

    def greedy(self, outputs: Floats) -> Array:
        """The most likely actions, or those of the highest q values, [B, *shape]."""
        if self.head in ("squashed_gaussian", "deterministic"):
            return self._within(np.tanh(outputs[: self.actions.width]))
        if self.actions.kind == "continuous":
            return outputs.T.reshape(-1, *self.actions.shape).copy()
        if self.actions.kind == "discrete":
            best: Array = outputs.argmax(0)
            return best
        parts = [part.argmax(0) for part in self._parts(outputs)]
        if self.actions.kind == "mixed":
            return np.stack([*parts, *outputs[self._choices :]], -1, dtype=np.float32)
        return np.stack(parts, -1).reshape(-1, *self.actions.shape)

    def _within(self, squeezed: Floats) -> Array:
        """From -1 ... 1 to the bounds of the actions: [width, B] to [B, *shape]."""
        actions = self._middle + self._half * squeezed
        return actions.T.reshape(-1, *self.actions.shape).copy()

    def _squashed(self, outputs: Floats, rng: np.random.Generator) -> tuple[Array, Floats]:
        """Drawn from a Gaussian and squeezed; probabilities are those of what is in -1 ... 1."""
        width = self.actions.width
        _check_finite(outputs)
        log_std = np.clip(outputs[width:], LOG_STD_LOW, LOG_STD_HIGH)
        # drawn row by row, as the learner draws it
        noise = rng.standard_normal((outputs.shape[1], width), dtype=np.float32).T
        drawn = np.add(outputs[:width], np.exp(log_std) * noise, dtype=np.float32)
        logp = squashed_logp(drawn, log_std, noise)
        return self._within(np.tanh(drawn)), logp

    def _parts(self, outputs: Floats) -> list[Floats]:
        return [outputs[begin:end] for begin, end in self._ranges]

    def _numbered(self, count: int) -> Array:
        if len(self._columns) != count:
            self._columns = np.arange(count)
        return self._columns

    def _multi(
        self, outputs: Floats, rng: np.random.Generator, columns: Array
    ) -> tuple[Array, Floats]:
        uniform = rng.random((len(self.actions.sizes), outputs.shape[1]), dtype=np.float32)
        actions = np.empty((outputs.shape[1], len(uniform)), np.int64)
        total = np.zeros(outputs.shape[1], np.float32)
        for index, part in enumerate(self._parts(outputs)):
            actions[:, index], logp = _categorical(part, uniform[index], columns)
            total += logp
        return actions.reshape(-1, *self.actions.shape), total

    def _mixed(
        self, outputs: Floats, log_std: Floats, rng: np.random.Generator
    ) -> tuple[Array, Floats]:
        """Choices and numbers, drawn one after the other, in one array."""
        means = outputs[self._choices :]
        _check_finite(means)
        columns, choices = self._numbered(outputs.shape[1]), self._parts(outputs)
        uniform = rng.random((len(choices), len(columns)), dtype=np.float32)
        actions = np.empty((len(columns), len(choices) + len(means)), np.float32)
        total = np.zeros(len(columns), np.float32)
        for index, part in enumerate(choices):
            actions[:, index], logp = _categorical(part, uniform[index], columns)
            total += logp
        drawn, logp = _normal(means, log_std, rng)
        actions[:, len(choices) :] = drawn.T
        return actions, total + logp

    def _gaussian(
        self, means: Floats, log_std: Floats, rng: np.random.Generator
    ) -> tuple[Array, Floats]:
        _check_finite(means)
        drawn, logp = _normal(means, log_std, rng)
        return drawn.T.reshape(-1, *self.actions.shape).copy(), logp


def _normal(means: Floats, log_std: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Numbers drawn around the means [width, B], which they overwrite, and log-probabilities."""
    noise = rng.standard_normal(means.shape, dtype=np.float32)
    means += np.exp(log_std)[:, None] * noise
    noise *= noise
    constant = log_std.sum() + 0.5 * len(log_std) * math.log(2 * math.pi)
    logp: Floats = np.float32(-0.5) * noise.sum(0) - np.float32(constant)
    return means, logp


def squashed_logp(drawn: Floats, log_std: Floats, noise: Floats) -> Floats:
    """Log-probabilities [B] of tanh(drawn), for what was drawn from Gaussians: all [width, B]."""
    # log(1 - tanh(u)^2) = 2 * (log 2 - u - softplus(-2u)), without its loss of digits
    slope = _TWO * (_LOG_2 - drawn - np.logaddexp(np.float32(0), -_TWO * drawn))
    terms = np.float32(-0.5) * noise * noise - log_std - slope
    total: Floats = np.add.reduce(terms, 0) - np.float32(0.5 * math.log(2 * math.pi) * len(drawn))
    return total


def _categorical(logits: Floats, uniform: Floats, columns: Array) -> tuple[Array, Floats]:
    """One action per column, by where a uniform number falls in the cumulative sum."""
    peak = _highest(logits)
    _check_finite(peak)
    logits -= peak
    cumulative = np.exp(logits)
    _accumulate(cumulative)
    total = cumulative[-1]
    # u is at most 1 - 2^-24, so u * total stays below the total even when it is rounded: neither
    # the last action, if it is ruled out, nor one behind it can come out
    uniform *= total
    passed = cumulative[:-1] <= uniform
    actions = passed[0].astype(np.int64) if len(passed) == 1 else passed.sum(0)
    logp: Floats = logits[actions, columns]
    logp -= np.log(total)
    return actions, logp


def _highest(rows: Floats) -> Floats:
    """The largest entry of each column: `reduce` takes twice as long over few rows."""
    if not 2 <= len(rows) <= 4:
        highest: Floats = np.maximum.reduce(rows)
        return highest
    highest = np.maximum(rows[0], rows[1])
    for row in rows[2:]:
        np.maximum(highest, row, out=highest)
    return highest


def _accumulate(rows: Floats) -> None:
    """Each row plus all before it: as `cumsum`, which takes ten times as long over few rows."""
    if len(rows) > 32:
        np.cumsum(rows, 0, out=rows)
        return
    for above, row in pairwise(rows):
        row += above


def _epsilon_greedy(
    q: Floats, rng: np.random.Generator, epsilon: float | Floats, masked: bool = False
) -> tuple[Array, Floats]:
    count: Any
    count, batch = q.shape
    _check_finite(q.max(0))
    best = q.argmax(0)
    uniform = rng.random((2, batch), dtype=np.float32)
    if masked:
        fine = allowed(q)
        fine |= ~fine.any(0)  # after the last step nothing is allowed, and nobody acts
        anything, count = random_choice(fine, uniform[1]), fine.sum(0)
    else:
        anything = (uniform[1] * np.float32(count)).astype(np.int64)  # below the count, see above
    actions = np.where(uniform[0] < epsilon, anything, best)
    rate = np.asarray(epsilon, np.float32)
    probability = rate / np.asarray(count, np.float32) + (np.float32(1) - rate) * (actions == best)
    return actions, np.log(probability).astype(np.float32)


def _check_finite(numbers: Floats) -> None:
    # an output of -inf is allowed, it rules an action out: callers pass maxima
    if not finite(numbers):
        raise RunError(
            "the outputs of the policy are not finite: there is NaN or infinity in the "
            "observations, or the weights have diverged (try a smaller learning rate)"
        )
