"""SAC's update by hand in torch: the operations of `sac_by_hand.py`, without autograd.

Every gradient is written out, most operations write where there is room already, all weights of a
network are one vector to its optimiser. How far autograd and all else around the operations is from
that, `sac_updates.py` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

_through_relu: Any = torch.ops.aten.threshold_backward.grad_input
_through_tanh: Any = torch.ops.aten.tanh_backward.default
_through_clamp: Any = torch.ops.aten.hardtanh_backward.default
LOG_2, CONSTANT = math.log(2), 0.5 * math.log(2 * math.pi)


class Net:
    """Two layers of rectified units and a head; of an ensemble, all members at once."""

    def __init__(self, lead: tuple[int, ...], inputs: int, width: int, out: int, rows: int) -> None:
        sizes = ((width, inputs), (width, 1), (width, width), (width, 1), (out, width), (out, 1))
        shapes = [lead + size for size in sizes]
        counts = [math.prod(shape) for shape in shapes]
        self.vector = 0.1 * torch.randn(sum(counts))
        self.gradient, self.mean, self.square = (torch.zeros(sum(counts)) for _ in range(3))
        self.steps = torch.zeros(())
        self.p, self.g = (
            [part.view(shape) for part, shape in zip(whole.split(counts), shapes, strict=True)]
            for whole in (self.vector, self.gradient)
        )
        self.turned = [part.mT for part in self.p]
        self.d_bias = [self.g[index].squeeze(-1) for index in (1, 3, 5)]
        self.product: Any = torch.bmm if lead else torch.mm
        self.affine: Any = torch.baddbmm if lead else torch.addmm
        # all members see the same input: their first layers are one product
        self.first, self.first_bias = self.p[0].reshape(-1, inputs), self.p[1].reshape(-1, 1)
        self.d_first = self.g[0].view(-1, inputs)
        shape = (*lead, width, rows)
        self.h, self.d = ([torch.empty(shape) for _ in range(2)] for _ in range(2))
        self.h_first, self.d_h_first = self.h[0].view(-1, rows), self.d[0].view(-1, rows)

    def forward(self, x: Tensor) -> Tensor:
        """[inputs, N] to [..., out, N]."""
        torch.addmm(self.first_bias, self.first, x, out=self.h_first).relu_()
        self.affine(self.p[3], self.p[2], self.h[0], out=self.h[1]).relu_()
        result: Tensor = self.affine(self.p[5], self.p[4], self.h[1])
        return result

    def backward(self, x: Tensor, d: Tensor, learns: bool = True) -> Tensor:
        """Leave the gradients; what comes back is the gradient behind the first layer."""
        (first, second), (d_first, d_second) = self.h, self.d
        if learns:
            self.product(d, second.mT, out=self.g[4])
            torch.sum(d, -1, out=self.d_bias[2])
        if self.p[4].shape[-2] == 1:
            torch.mul(self.turned[4], d, out=d_second)
        else:
            self.product(self.turned[4], d, out=d_second)
        _through_relu(d_second, second, 0, grad_input=d_second)
        if learns:
            self.product(d_second, first.mT, out=self.g[2])
            torch.sum(d_second, -1, out=self.d_bias[1])
        self.product(self.turned[2], d_second, out=d_first)
        _through_relu(d_first, first, 0, grad_input=d_first)
        if learns:
            torch.mm(self.d_h_first, x.mT, out=self.d_first)
            torch.sum(d_first, -1, out=self.d_bias[0])
        return self.d_h_first

    def step(self, lr: float = 1e-3) -> None:
        """Adam."""
        self.steps.add_(1)
        torch._fused_adam_(
            [self.vector],
            [self.gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            lr=lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


class Sac:
    """Pendulum's spaces: three observations, one action between -2 and 2."""

    def __init__(self, width: int, rows: int) -> None:
        self.rng, self.rows = np.random.default_rng(0), rows
        self.actor = Net((), 3, width, 2, rows)
        self.q, self.target = (Net((2,), 4, width, 1, rows) for _ in range(2))
        self.log_alpha = 0.0

    def sample(self, obs: Tensor) -> tuple[Tensor, ...]:
        """Actions, their log-probabilities, and what it takes to go back."""
        outputs = self.actor.forward(obs)
        raw = outputs[1:]
        log_std = raw.clamp(-20, 2)
        noise = torch.from_numpy(self.rng.standard_normal((self.rows, 1), dtype=np.float32).T)
        spread = log_std.exp().mul_(noise)
        drawn = outputs[:1] + spread
        terms = torch.nn.functional.softplus(-2 * drawn).add_(drawn).sub_(LOG_2).mul_(2)
        terms.sub_(log_std).addcmul_(noise, noise, value=-0.5)
        return drawn.tanh_(), terms[0].sub_(CONSTANT), spread, raw

    def update(self, obs: Tensor, acts: Tensor, rewards: Tensor, after: Tensor, on: Tensor) -> None:
        """The critics, the actor, the worth of entropy, the targets."""
        alpha = math.exp(self.log_alpha)
        squeezed, logp, *_ = self.sample(after.mT)
        least = self.target.forward(torch.cat([after.mT, squeezed])).amin(0)[0]
        goal = torch.addcmul(rewards, on, least.sub_(logp, alpha=alpha))
        x = torch.cat([obs.mT, acts.mT / 2])
        error = self.q.forward(x).sub_(goal).mul_(1 / self.rows)
        self.q.backward(x, error)
        self.q.gradient.dot(self.q.gradient).item()
        self.q.step()

        squeezed, logp, spread, raw = self.sample(obs.mT)
        x = torch.cat([obs.mT, squeezed])
        q = self.q.forward(x)
        d = q.eq(q.amin(0)).float().mul_(-1 / self.rows)
        behind = self.q.backward(x, d, learns=False)
        d_logp = alpha / self.rows
        d_drawn = torch.mm(self.q.first[:, 3:].mT, behind)
        d_drawn = _through_tanh(d_drawn, squeezed).add_(squeezed, alpha=2 * d_logp)
        d_std = _through_clamp((d_drawn * spread).sub_(d_logp), raw, -20.0, 2.0)
        self.actor.backward(obs.mT, torch.cat([d_drawn, d_std]))
        self.actor.gradient.dot(self.actor.gradient).item()
        self.actor.step()
        self.log_alpha += 1e-3 * float(np.sign(logp.mean().item() - 1))
        self.target.vector.lerp_(self.q.vector, 0.005)


def by_hand_in_torch(width: int, columns: list[Any], rows: int) -> Callable[[int], None]:
    """So many updates, on shuffled rows of these columns."""
    with torch.inference_mode():
        sac, tensors = Sac(width, rows), [torch.from_numpy(column) for column in columns]
    size = len(columns[0])

    @torch.inference_mode()
    def train(updates: int) -> None:
        for _ in range(updates // (size // rows)):
            order = torch.from_numpy(sac.rng.permutation(size))
            for start in range(0, size, rows):
                chosen = order[start : start + rows]
                sac.update(*(tensor.index_select(0, chosen) for tensor in tensors))

    return train
