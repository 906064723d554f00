"""A component can be tried by itself, and a broken one says what is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import rillflow.testing
from rillflow.errors import BuildError
from rillflow.policies.spec import PolicySpec
from rillflow.policies.try_policy import exercise
from tests.unit.policies.parts import CONTINUOUS, IMAGE, SEVERAL, VECTOR, make_spec

GOOD = [
    make_spec(),
    make_spec(actions=SEVERAL, shared=True, hidden=()),
    make_spec(actions=CONTINUOUS, activation="relu"),
    make_spec(head="q"),
    make_spec(head="q", dueling=True),
    make_spec(IMAGE, model="cnn"),
    make_spec(IMAGE, model="cnn", head="q", dueling=True),
    make_spec(model="lstm"),
    make_spec(IMAGE, actions=CONTINUOUS, model="lstm"),
]


@pytest.mark.parametrize("spec", GOOD, ids=lambda s: f"{s.model}-{s.head}-{s.actions.kind}")
def test_built_in_networks_hold_what_they_promise(spec: PolicySpec) -> None:
    report = exercise(spec)
    assert report.parameters > 0
    assert "a gradient reaches every parameter" in str(report)
    assert ("NumPy and torch agree" in report.checks) == spec.plain
    assert ("the start of an episode forgets the state" in report.checks) == spec.recurrent


class Own(nn.Module):
    """A user's own network, right in every respect; the broken ones below differ in one."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.layer = nn.Linear(spec.observation_size, 8)
        self.out = nn.Linear(8, spec.actions.width)
        self.value = nn.Linear(8, 1)

    def features(self, obs: Tensor) -> Tensor:
        return self.layer(obs).relu()

    def forward(self, obs: Tensor) -> Any:
        x = self.features(obs)
        return self.out(x), self.value(x).squeeze(-1)


class OwnMemory(nn.Module):
    """A user's own recurrent network."""

    state_shape = (6,)

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.cell = nn.GRUCell(spec.observation_size, 6)
        self.out = nn.Linear(6, spec.actions.width)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> Any:
        rows = []
        for x, start in zip(obs, starts, strict=True):
            state = self.cell(x, self.before(state, start.unsqueeze(-1)))
            rows.append(state)
        x = torch.stack(rows)
        return self.out(x), x.mean(-1), state

    def before(self, state: Tensor, start: Tensor) -> Tensor:
        return state.masked_fill(start, 0)


@pytest.mark.parametrize("actions", [spaces.Discrete(3), SEVERAL, CONTINUOUS])
@pytest.mark.parametrize("model", [Own, OwnMemory])
def test_a_network_of_ones_own(model: Any, actions: Any) -> None:
    """Any observation space goes, and a Gaussian's width is added."""
    assert exercise(make_spec(actions=actions, model=model)).parameters > 0


def test_a_function_that_makes_a_network() -> None:
    def small(spec: PolicySpec) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, spec.actions.width))

    assert exercise(make_spec(model=small, head="q")).parameters == 23


class WrongWidth(Own):
    def forward(self, obs: Tensor) -> Any:
        outputs, values = super().forward(obs)
        return torch.cat((outputs, outputs), -1), values


class Unsqueezed(Own):
    def forward(self, obs: Tensor) -> Any:
        outputs, values = super().forward(obs)
        return outputs, values.unsqueeze(-1)


class NoValue(Own):
    def forward(self, obs: Tensor) -> Any:
        return super().forward(obs)[0]


class Unused(Own):
    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.forgotten = nn.Linear(2, 2)


class Detached(Own):
    def features(self, obs: Tensor) -> Tensor:
        return super().features(obs).detach()


class NoGradient(Own):
    @torch.no_grad()
    def forward(self, obs: Tensor) -> Any:
        return super().forward(obs)


class NotFinite(Own):
    def features(self, obs: Tensor) -> Tensor:
        return super().features(obs) / 0 * 0


class Dropped(Own):
    def features(self, obs: Tensor) -> Tensor:
        return nn.functional.dropout(super().features(obs), 0.5)


class Mixed(Own):
    def features(self, obs: Tensor) -> Tensor:
        x = super().features(obs)
        return x - x.mean(0)


class Doubles(Own):
    def forward(self, obs: Tensor) -> Any:
        outputs, values = super().forward(obs)
        return outputs.double(), values


class Hidden(Own):
    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.offset = torch.randn(8)

    def features(self, obs: Tensor) -> Tensor:
        return super().features(obs) + self.offset


class Unforgetting(OwnMemory):
    def before(self, state: Tensor, start: Tensor) -> Tensor:
        return state


BROKEN: list[tuple[Any, str]] = [
    (WrongWidth, "outputs must have shape [12, 2], found [12, 4]"),
    (Unsqueezed, "values must have shape [12], found [12, 1]"),
    (NoValue, "it must return (outputs [12, 2], values [12]), found one tensor [12, 2]"),
    (Unused, "no gradient reaches forgotten.weight, forgotten.bias"),
    (Detached, "no gradient reaches layer.weight, layer.bias"),
    (NoGradient, "its results carry no gradient"),
    (NotFinite, "outputs has NaN or infinity"),
    (Dropped, "the same observations gave other results the second time"),
    (Mixed, "results for one environment depend on the others in the batch"),
    (Doubles, "outputs must be torch.float32, found torch.float64"),
    (Hidden, "it keeps numbers that are neither parameters nor buffers"),
    (Unforgetting, "forget the state where `starts` is true"),
    (lambda spec: Own, "must return a torch.nn.Module when it is called with the spec, found type"),
    (lambda spec: nn.Linear(5, 2), "observations [12, 4] (float32) made it raise RuntimeError"),
    (lambda spec: 1 / 0, "building it raised ZeroDivisionError"),
]


@pytest.mark.parametrize(("model", "message"), BROKEN, ids=lambda x: getattr(x, "__name__", None))
def test_a_broken_network_is_told_what_is_wrong(model: Any, message: str) -> None:
    with pytest.raises(BuildError, match=re.escape(message)) as caught:
        exercise(make_spec(VECTOR, model=model))
    assert model.__name__ in str(caught.value)


def test_it_is_offered_to_users_without_torch_for_the_rest() -> None:
    """`rillflow.testing` is light until somebody exercises a network."""
    code = "import sys, rillflow.testing; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert rillflow.testing.exercise is exercise
    with pytest.raises(AttributeError, match="no attribute 'exercize'"):
        rillflow.testing.exercize  # noqa: B018
