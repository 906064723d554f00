"""Updates of SAC and TD3 by hand in bare NumPy: what the arithmetic takes without any structure.

Every array is allocated once, every gradient is written out, nothing is checked, drawn figures and
states are left out. An update in NumPy cannot be much faster than this, whoever writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Floats = Any
ZERO, TWO, LOG_2 = np.float32(0), np.float32(2), np.float32(np.log(2))
CONSTANT = np.float32(0.5 * np.log(2 * np.pi))


class Net:
    """Two layers of rectified units and a head; of an ensemble, all members at once."""

    def __init__(self, rng: Any, lead: tuple[int, ...], inputs: int, width: int, out: int) -> None:
        sizes = ((width, inputs), (width, 1), (width, width), (width, 1), (out, width), (out, 1))
        shapes = [lead + size for size in sizes]
        count = sum(int(np.prod(shape)) for shape in shapes)
        self.vector = (0.1 * rng.standard_normal(count)).astype(np.float32)
        self.gradient = np.zeros_like(self.vector)
        self.p, self.g = views(self.vector, shapes), views(self.gradient, shapes)
        self.mean, self.square, self.free = (np.zeros_like(self.vector) for _ in range(3))
        self.steps = 0

    def allocate(self, rows: int) -> None:
        """Room for a pass of so many rows."""
        shape = (*self.p[0].shape[:-1], rows)
        self.h, self.d = ([np.empty(shape, np.float32) for _ in range(2)] for _ in range(2))
        self.slope, self.zeros = np.empty(shape, np.float32), np.zeros(shape, np.float32)
        self.ones = np.ones((rows, 1), np.float32)

    def member(self, index: int, rows: int) -> Net:
        """One of an ensemble alone, over the same weights; nothing is learned by it."""
        one: Net = object.__new__(Net)
        one.p, one.g = [part[index] for part in self.p], []
        one.allocate(rows)
        return one

    def forward(self, x: Floats) -> Floats:
        """[inputs, N] to [..., out, N]."""
        p, (first, second) = self.p, self.h
        for weight, bias, before, out in ((p[0], p[1], x, first), (p[2], p[3], first, second)):
            np.matmul(weight, before, out=out)
            out += bias
            np.maximum(out, self.zeros, out=out)
        result = np.matmul(p[4], second)
        result += p[5]
        return result

    def backward(self, x: Floats, d: Floats, learns: bool = True) -> Floats:
        """Leave the gradients; what comes back is the gradient behind the first layer."""
        p, g, (first, second), (d_first, d_second) = self.p, self.g, self.h, self.d
        if learns:
            np.matmul(d, second.swapaxes(-1, -2), out=g[4])
            np.matmul(d, self.ones, out=g[5])
        if p[4].shape[-2] == 1:
            d_second[...] = d
            d_second *= p[4].swapaxes(-1, -2)
        else:
            np.matmul(p[4].swapaxes(-1, -2), d, out=d_second)
        self._through(second, d_second)
        if learns:
            np.matmul(d_second, first.swapaxes(-1, -2), out=g[2])
            np.matmul(d_second, self.ones, out=g[3])
        np.matmul(p[2].swapaxes(-1, -2), d_second, out=d_first)
        self._through(first, d_first)
        if learns:
            np.matmul(d_first, x.T, out=g[0])
            np.matmul(d_first, self.ones, out=g[1])
        return d_first

    def _through(self, hidden: Floats, d: Floats) -> None:
        np.greater(hidden, ZERO, out=self.slope, casting="unsafe")
        d *= self.slope

    def step(self, lr: float = 1e-3) -> None:
        """Adam."""
        self.steps += 1
        free, g = self.free, self.gradient
        np.multiply(g, np.float32(0.1), out=free)
        self.mean *= np.float32(0.9)
        self.mean += free
        np.multiply(g, g, out=free)
        free *= np.float32(0.001)
        self.square *= np.float32(0.999)
        self.square += free
        np.sqrt(self.square, out=free)
        free *= np.float32((1 - 0.999**self.steps) ** -0.5)
        free += np.float32(1e-8)
        np.divide(self.mean, free, out=free)
        free *= np.float32(lr / (1 - 0.9**self.steps))
        self.vector -= free


def views(vector: Floats, shapes: list[tuple[int, ...]]) -> list[Floats]:
    """Parts of a vector, one after the other."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [
        part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)
    ]


class Sac:
    """Pendulum's spaces: three observations, one action between -2 and 2."""

    def __init__(self, width: int, rows: int) -> None:
        self.rng = rng = np.random.default_rng(0)
        self.actor = Net(rng, (), 3, width, 2)
        self.q, self.target = (Net(rng, (2,), 4, width, 1) for _ in range(2))
        for net in (self.actor, self.q, self.target):
            net.allocate(rows)
        self.log_alpha, self.rows = 0.0, rows

    def sample(self, obs: Floats) -> tuple[Floats, ...]:
        """Actions, their log-probabilities, and what it takes to go back."""
        outputs = self.actor.forward(obs)
        log_std = np.minimum(np.maximum(outputs[1:], np.float32(-20)), TWO)
        noise = self.rng.standard_normal((self.rows, 1), dtype=np.float32).T
        spread = np.exp(log_std)
        spread *= noise
        drawn = outputs[:1] + spread
        squeezed = np.tanh(drawn)
        terms = np.logaddexp(ZERO, -TWO * drawn)
        terms += drawn
        terms -= LOG_2
        terms *= TWO
        terms -= log_std
        terms -= np.float32(0.5) * noise * noise
        return squeezed, terms[0] - CONSTANT, spread, outputs[1:]

    def update(self, obs: Floats, acts: Floats, rewards: Floats, after: Floats, on: Floats) -> None:
        """The critics, the actor, the worth of entropy, the targets."""
        alpha, rows = np.float32(np.exp(self.log_alpha)), np.float32(self.rows)
        squeezed, logp, *_ = self.sample(after.T)
        least = np.minimum(*self.target.forward(np.concatenate([after.T, squeezed]))[:, 0])
        goal = rewards + on * (least - alpha * logp)
        x = np.concatenate([obs.T, acts.T / TWO])
        error = self.q.forward(x)[:, 0] - goal
        self.q.backward(x, error[:, None] / rows)
        self.q.gradient.dot(self.q.gradient)
        self.q.step()

        squeezed, logp, spread, raw = self.sample(obs.T)
        x = np.concatenate([obs.T, squeezed])
        q = self.q.forward(x)[:, 0]
        d = (q == np.minimum(*q)).astype(np.float32) / -rows
        behind = self.q.backward(x, d[:, None], learns=False)
        flat = self.q.p[0].reshape(-1, 4)[:, 3:]
        d_drawn = np.matmul(flat.T, behind.reshape(len(flat), -1)) * (1 - squeezed * squeezed)
        d_logp = alpha / rows
        d_drawn += TWO * d_logp * squeezed
        d_std = (d_drawn * spread - d_logp) * ((raw >= -20) & (raw <= 2))
        self.actor.backward(obs.T, np.concatenate([d_drawn, d_std]))
        self.actor.gradient.dot(self.actor.gradient)
        self.actor.step()
        self.log_alpha += 1e-3 * float(np.sign(logp.mean() - 1))
        self.target.vector += np.float32(0.005) * (self.q.vector - self.target.vector)


class Td3:
    """The same spaces. The actor and all targets have their turn in every second update."""

    def __init__(self, width: int, rows: int) -> None:
        self.rng = rng = np.random.default_rng(0)
        self.actor, self.actor_target = (Net(rng, (), 3, width, 1) for _ in range(2))
        self.q, self.target = (Net(rng, (2,), 4, width, 1) for _ in range(2))
        for net in (self.actor, self.actor_target, self.q, self.target):
            net.allocate(rows)
        self.first = self.q.member(0, rows)  # the actor asks one critic alone
        self.rows, self.updates = rows, 0
        self.d_value = np.full((1, rows), -1 / rows, np.float32)

    def update(self, obs: Floats, acts: Floats, rewards: Floats, after: Floats, on: Floats) -> None:
        """The critics; now and then the actor and the targets."""
        self.updates += 1
        noise = self.rng.standard_normal((self.rows, 1), dtype=np.float32).T
        noise = np.minimum(np.maximum(noise * np.float32(0.2), np.float32(-0.5)), np.float32(0.5))
        smoothed = np.tanh(self.actor_target.forward(after.T)) + noise
        smoothed = np.minimum(np.maximum(smoothed, np.float32(-1)), np.float32(1))
        least = np.minimum(*self.target.forward(np.concatenate([after.T, smoothed]))[:, 0])
        x = np.concatenate([obs.T, acts.T / TWO])
        error = self.q.forward(x)[:, 0] - (rewards + on * least)
        self.q.backward(x, error[:, None] / np.float32(self.rows))
        self.q.gradient.dot(self.q.gradient)
        self.q.step()
        if self.updates % 2:
            return
        squeezed = np.tanh(self.actor.forward(obs.T))
        x = np.concatenate([obs.T, squeezed])
        self.first.forward(x)
        behind = self.first.backward(x, self.d_value, learns=False)
        d_drawn = np.matmul(self.first.p[0][:, 3:].T, behind) * (1 - squeezed * squeezed)
        self.actor.backward(obs.T, d_drawn)
        self.actor.gradient.dot(self.actor.gradient)
        self.actor.step()
        for target, net in ((self.target, self.q), (self.actor_target, self.actor)):
            target.vector += np.float32(0.005) * (net.vector - target.vector)


ALGORITHMS: dict[str, type[Any]] = {"sac": Sac, "td3": Td3}


def by_hand(algorithm: str, width: int, columns: list[Floats], rows: int) -> Callable[[int], None]:
    """So many updates, on shuffled rows of these columns."""
    learner, size = ALGORITHMS[algorithm](width, rows), len(columns[0])

    def train(updates: int) -> None:
        for _ in range(updates // (size // rows)):
            order = learner.rng.permutation(size)
            for start in range(0, size, rows):
                chosen = order[start : start + rows]
                learner.update(*(column.take(chosen, 0) for column in columns))

    return train
