"""An algorithm's networks at a glance: what they are, how large, and who trains which.

RLgraph's idea (Schaarschmidt et al. 2018, arXiv:1810.09028): networks are built and their update is
tried on invented rows, before there is an environment.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

from rillflow.learning.acting_device import told
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.make_learner import framework_and_reason
from rillflow.learning.schedules import at_first, scheduled
from rillflow.learning.try_update import numpy_steps
from rillflow.learning.update import Step
from rillflow.policies.modules import Description, Modules, parameters_of
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Hard

_HEADS = {
    "actor_critic": "actor and critic",
    "categorical": "distribution over actions",
    "q": "q values",
    "squashed_gaussian": "squashed Gaussian",
    "deterministic": "deterministic actor",
}


@dataclass(frozen=True)
class NetworkLine:
    """One network."""

    name: str
    what: str
    numbers: int
    """that are learned"""
    rate: float
    """its learning rate"""
    target: str
    """how its target follows it; nothing: it has none"""
    acts: bool


@dataclass(frozen=True)
class StepLine:
    """One step of an update."""

    trains: tuple[str, ...]
    every: int
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Overview:
    """What an algorithm is made of, for an environment with given spaces."""

    algorithm: str
    networks: tuple[NetworkLine, ...]
    steps: tuple[StepLine, ...]
    framework: str
    reason: str
    scheduled: dict[str, str]
    """settings that change while a run goes on, with their schedules"""
    seconds: float
    """that building and trying took"""
    observation: str = ""
    """its parts, if there are several, and its mask of actions"""
    acting: str = ""
    """where workers act, if a device was asked for"""

    def __str__(self) -> str:
        lines = [f"{self.algorithm} learns in {self.framework}: {self.reason}"]
        lines += [f"It sees {self.observation}."] * bool(self.observation) + [""]
        lines += _table(
            ("network", "what it is", "numbers", "rate", "target"),
            [
                (
                    line.name + " *" * line.acts,
                    line.what,
                    f"{line.numbers:,}",
                    f"{line.rate:g}" if line.numbers else "-",
                    line.target or "-",
                )
                for line in self.networks
            ],
        )
        lines += [""]
        lines += _table(
            ("step", "trains", "every", "figures"),
            [
                (str(i), ", ".join(s.trains), _every(s.every), ", ".join(s.figures) or "-")
                for i, s in enumerate(self.steps, start=1)
            ],
        )
        if self.scheduled:
            told = ", ".join(f"{name} {text}" for name, text in self.scheduled.items())
            lines += ["", f"scheduled: {told}"]
        others = " and no others" if len(self.networks) > 1 else ""
        lines += [
            "",
            f"* acts: workers receive its weights{others}.",
            *([f"{self.acting[0].upper()}{self.acting[1:]}."] if self.acting else []),
            f"Built from the spaces and tried in {1000 * self.seconds:.0f} ms.",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "algorithm": self.algorithm,
            "framework": self.framework,
            "reason": self.reason,
            "scheduled": self.scheduled,
            "seconds": self.seconds,
            "observation": self.observation,
            "acting": self.acting,
            "networks": [vars(line) for line in self.networks],
            "steps": [vars(line) | {"trains": list(line.trains)} for line in self.steps],
        }

    def to_mermaid(self) -> str:
        """Rows go into networks, networks into the steps that train them."""
        lines = ["flowchart LR", '    rows[("rows")]']
        for line in self.networks:
            shape = f'{line.name}["<b>{line.name}</b><br/>{line.what}<br/>{line.numbers:,} numbers'
            lines.append(f'    {shape}{"<br/>acts" * line.acts}"]')
            lines.append(f"    rows --> {line.name}")
            if line.target:
                lines.append(f'    {line.name} -. "{line.target}" .-> target_{line.name}')
                lines.append(f'    target_{line.name}(["target of {line.name}"])')
        for index, step in enumerate(self.steps, start=1):
            every = "" if step.every == 1 else f"<br/>{_every(step.every)}"
            lines.append(f'    step{index}{{{{"step {index}{every}"}}}}')
            lines += [f"    step{index} == trains ==> {name}" for name in step.trains]
        return "\n".join(lines)


def overview(spec: PolicySpec, config: AlgorithmConfig) -> Overview:
    """The networks and steps of an algorithm, for a policy of this spec."""
    framework, reason = framework_and_reason(spec, config)
    if framework == "torch":
        importlib.import_module("torch")  # which takes longer than all the rest
    began = time.perf_counter()
    changing = {name: str(one) for name, one in scheduled(config).items()}
    config = at_first(config)
    modules = config.modules(spec)
    steps = numpy_steps(spec, config) if framework == "numpy" else _torch_steps(spec, config)
    networks = tuple(
        NetworkLine(
            name,
            described(network),
            _numbers(network),
            _rate(modules, name, config),
            _target(modules, name),
            name == modules.acts,
        )
        for name, network in modules.networks.items()
    )
    lines = tuple(StepLine(_trains(step, modules), step.every, tuple(step.stats)) for step in steps)
    seconds = time.perf_counter() - began
    name = config.algorithm.name
    parts = "" if spec.layout is None else str(spec.layout)
    acting = told(spec, config)
    return Overview(name, networks, lines, framework, reason, changing, seconds, parts, acting)


def described(network: Description) -> str:
    """A network in a few words: its kind and its layers."""
    if not isinstance(network, PolicySpec):
        return str(network)
    head = ("noisy " * bool(network.noisy)) + ("dueling " * network.dueling) + _HEADS[network.head]
    if network.num_atoms > 1:
        head += f" of {network.num_atoms} atoms, {network.v_min:g} to {network.v_max:g}"
    if network.plain:
        sizes = (network.observation_size, *network.hidden, network.width)
        return f"{head}, {' x '.join(map(str, sizes))}"
    if not isinstance(network.model, str):
        return f"{head} on a network of your own"
    above = "" if network.memory is None else f"{network.memory} of {network.memory_size} on "
    seen = "" if network.image is None else f" of {network.image}: {network.convolutions}"
    return f"{head} on {above}{network.model}{seen}"


def _torch_steps(spec: PolicySpec, config: AlgorithmConfig) -> list[Step]:
    from rillflow.learning.try_update_in_torch import (
        torch_steps,  # torch is imported where it is needed
    )

    return torch_steps(spec, config)


def _numbers(network: Description) -> int:
    known = parameters_of(network)
    if known is not None:
        return known
    from rillflow.policies.make_model import make_model

    assert isinstance(network, PolicySpec)
    return sum(parameter.numel() for parameter in make_model(network).parameters())


def _rate(modules: Modules, name: str, config: AlgorithmConfig) -> float:
    own = modules.optimisers.get(name)
    return config.lr if own is None or own.lr is None else own.lr


def _target(modules: Modules, name: str) -> str:
    target = modules.targets.get(name)
    if target is None:
        return ""
    if isinstance(target, Hard):
        return f"copied every {target.every:,} rows"
    often = "an update" if target.every == 1 else f"{target.every} updates"
    return f"follows by {target.tau:g} in {often}"


def _trains(step: Step, modules: Modules) -> tuple[str, ...]:
    if step.trains is None:
        return tuple(modules.networks)
    return (step.trains,) if isinstance(step.trains, str) else tuple(step.trains)


def _every(every: int) -> str:
    return "update" if every == 1 else f"{every} updates"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
