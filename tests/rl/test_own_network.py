"""A network of one's own is tried before any worker starts, and told what is wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rillflow as rf
from rillflow.algorithms import dqn, impala, ppo
from rillflow.policies.spec import PolicySpec
from rillflow.policies.try_network import probe
from rillflow.rl.multi_agent import MultiAgentConfig
from rillflow.rl.workers import create_rollout_workers


class Net(nn.Module):
    """Right in every respect; the others differ in one."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.out = nn.Linear(8, spec.actions.width)
        self.value = nn.Linear(8, 1)

    def forward(self, obs: Tensor) -> Any:
        x = self.trunk(obs).relu()
        return self.out(x), self.value(x).squeeze(-1)


def changed(change: Callable[[Tensor, Tensor], Any]) -> type[Net]:
    """A network whose results are changed before it returns them."""

    class Changed(Net):
        def forward(self, obs: Tensor) -> Any:
            return change(*super().forward(obs))

    return Changed


class Memory(nn.Module):
    """Remembers, and nobody said so."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 8)
        self.out = nn.Linear(8, spec.actions.width)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> Any:
        x, _ = self.cell(obs)
        return self.out(x), x.mean(-1), state


class Remembers(Memory):
    """Says so, and forgets to return the state."""

    state_shape = (2, 8)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> Any:
        return super().forward(obs, state, starts)[:2]


class ForgetsArguments(Net):
    """Says that it remembers, and takes no state."""

    state_shape = (2, 8)


class Raises(Net):
    def forward(self, obs: Tensor) -> Any:
        raise KeyError("no such layer")


class Constructor(Net):
    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.more = nn.Linear(*spec.hidden)  # type: ignore[arg-type]
        raise ValueError("not enough layers")


WRONG: dict[str, tuple[Any, list[str]]] = {
    "no value head": (
        changed(lambda outputs, values: outputs),
        ["must return (outputs [3, 2], values [3]), found one tensor [3, 2]", "no value head"],
    ),
    "outputs of the wrong width": (
        changed(lambda outputs, values: (torch.cat([outputs, outputs], -1), values)),
        ["outputs must have shape [3, 2], found [3, 4]", "2 numbers for each observation"],
    ),
    "an axis too many": (
        changed(lambda outputs, values: (outputs, values.unsqueeze(-1))),
        ["values must have shape [3], found [3, 1]", "without an axis of its own"],
    ),
    "one value for all": (
        changed(lambda outputs, values: (outputs, values.mean())),
        ["values must have shape [3], found []"],
    ),
    "a wrong dtype": (
        changed(lambda outputs, values: (outputs, values.double())),
        ["values must be torch.float32, found torch.float64"],
    ),
    "whole numbers": (
        changed(
            lambda outputs, values: (outputs.argmax(-1, keepdim=True) + outputs.long(), values)
        ),
        ["outputs must be torch.float32, found torch.int64"],
    ),
    "a wrong device": (
        changed(lambda outputs, values: (outputs.to("meta"), values)),
        ["outputs must be on cpu, where its parameters are, found meta", "device=obs.device"],
    ),
    "no gradient": (
        changed(lambda outputs, values: (outputs.detach(), values.detach())),
        ["carry no gradient"],
    ),
    "not a number": (
        changed(lambda outputs, values: (outputs / 0 * 0, values)),
        ["outputs has NaN or infinity"],
    ),
    "a dict": (
        changed(lambda outputs, values: {"logits": outputs, "vf": values}),
        ["found a dict of logits, vf"],
    ),
    "arrays": (
        changed(lambda outputs, values: (outputs.detach().numpy(), values)),
        ["outputs must be a tensor, found a ndarray"],
    ),
    "three results": (
        changed(lambda outputs, values: (outputs, values, values)),
        ["found one tensor [3, 2], one tensor [3], one tensor [3]", "`state_shape`"],
    ),
    "nothing": (changed(lambda outputs, values: None), ["found a NoneType"]),
    "a memory that nobody was told of": (Memory, ["called with observations alone", "state_shape"]),
    "it raises": (Raises, ["made it raise KeyError", "your code: ", "raise KeyError("]),
    "its constructor raises": (Constructor, ["building it raised", "your code: "]),
    "no module": (lambda spec: Net, ["must return a torch.nn.Module", "found type"]),
    "other observations": (lambda spec: nn.Linear(5, 2), ["[3, 4] (float32) made it raise"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_actor_critic_that_is_wrong_is_refused_with_the_workers(case: str) -> None:
    """The network's name, what it returned and what is needed, before anything starts."""
    model, says = WRONG[case]
    with pytest.raises(rf.BuildError) as caught:
        create_rollout_workers(ppo.Config(model=model))
    for part in (f"model={model.__qualname__}", *says):
        assert part in str(caught.value), str(caught.value)


RECURRENT: dict[str, tuple[Any, str]] = {
    "without the state": (Remembers, "values [1, 3], state [3, 2, 8])"),
    "without its arguments": (ForgetsArguments, "called with (observations, state, starts)"),
}


@pytest.mark.parametrize("case", RECURRENT)
def test_a_memory_that_is_wrong_is_refused(case: str) -> None:
    model, says = RECURRENT[case]
    with pytest.raises(rf.BuildError) as caught:
        create_rollout_workers(impala.Config(model=model))
    assert says in str(caught.value)


Q_WRONG: dict[str, tuple[Any, list[str]]] = {
    "with a value head": (Net, ["with head='q' it must return (q [3, 2])", "return them alone"]),
    "of the wrong width": (
        lambda spec: nn.Linear(4, 5),
        ["q must have shape [3, 2], found [3, 5]"],
    ),
    "one for all": (
        lambda spec: nn.Sequential(nn.Linear(4, 2), nn.Flatten(0)),
        ["q must have shape [3, 2], found [6]"],
    ),
    "of the wrong dtype": (
        changed(lambda outputs, values: outputs.half()),
        ["q must be torch.float32, found torch.float16"],
    ),
}


@pytest.mark.parametrize("case", Q_WRONG)
def test_q_values_that_are_wrong_are_refused(case: str) -> None:
    model, says = Q_WRONG[case]
    with pytest.raises(rf.BuildError) as caught:
        create_rollout_workers(dqn.Config(model=model))
    for part in says:
        assert part in str(caught.value), str(caught.value)


def test_training_refuses_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rf.train` makes no worker for a network without a value head."""
    started: list[object] = []
    monkeypatch.setattr("rillflow.scheduler.run.Run.__enter__", started.append)
    with pytest.raises(rf.BuildError, match="It has no value head"):
        rf.train("ppo", "CartPole-v1", model=changed(lambda outputs, values: outputs))
    assert started == []


def test_each_policy_of_several_is_tried() -> None:
    config = MultiAgentConfig(
        policies={"left": ppo.Config(), "right": ppo.Config(model=WRONG["no value head"][0])},
        policy_mapping={"agent_0": "left", "agent_1": "right"},
    )
    with pytest.raises(rf.BuildError, match="It has no value head"):
        create_rollout_workers(config)


def test_one_environment_is_tried_with_one_row() -> None:
    """A bare squeeze() loses the axis of a batch of one, and of no other."""
    model = changed(lambda outputs, values: (outputs, values.unsqueeze(-1).squeeze()))
    create_rollout_workers(ppo.Config(model=model))
    with pytest.raises(rf.BuildError, match=r"values must have shape \[1\], found \[\]"):
        create_rollout_workers(ppo.Config(model=model, num_envs_per_worker=1))


def test_a_network_is_tried_with_what_the_environment_gives() -> None:
    """A space may allow more than a network takes and the environment ever gives."""

    class Careful(Net):
        def forward(self, obs: Tensor) -> Any:
            assert obs.abs().max() < 0.06, "CartPole begins within 0.05"
            return super().forward(obs)

    assert create_rollout_workers(ppo.Config(model=Careful)).spec.model is Careful


def test_trying_a_network_leaves_the_random_state_alone() -> None:
    workers = create_rollout_workers(ppo.Config(model=Net))
    state = torch.random.get_rng_state()
    noisy = changed(lambda outputs, values: (nn.functional.dropout(outputs), values))
    probe(dataclasses.replace(workers.spec, model=noisy))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("config", [ppo.Config, dqn.Config])
def test_a_network_that_is_right_is_accepted(config: Any) -> None:
    q = changed(lambda outputs, values: outputs)
    create_rollout_workers(config(model=Net if config is ppo.Config else q))


def test_a_list_of_results_is_as_good_as_a_tuple() -> None:
    create_rollout_workers(ppo.Config(model=changed(lambda outputs, values: [outputs, values])))
