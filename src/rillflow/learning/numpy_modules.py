"""The networks of an algorithm in NumPy; their methods are those of the modules in torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rillflow.learning.names import Namespace, named, seed_of, seed_of_policy
from rillflow.learning.numpy_actors import Actor
from rillflow.learning.numpy_categorical import CategoricalNetwork
from rillflow.learning.numpy_critics import Critic, Number
from rillflow.learning.numpy_module import NumpyModule
from rillflow.learning.numpy_network import Network
from rillflow.learning.tape import Tape
from rillflow.policies.modules import Modules, QOfAction
from rillflow.policies.spec import PolicySpec


class NumpyModules:
    """Networks that are ready to learn: `m.policy`, `m.target.policy`, `m.frozen.policy`.

    A target follows its network as its algorithm says; what is frozen is the network itself, whose
    results nothing is learned through.
    """

    def __init__(self, modules: Modules, seed: int) -> None:
        self.description = modules
        self.by_name: dict[str, NumpyModule] = {
            name: build(modules, name, seed) for name in modules.networks
        }
        self.targets: dict[str, NumpyModule] = {
            name: build(modules, name, seed) for name in modules.targets
        }
        self.target = Namespace(self.targets)
        frozen = {name: module.frozen() for name, module in self.by_name.items()}
        self.frozen = Namespace(frozen)
        self._frozen = list(frozen.values())
        self.tape = Tape()
        for name, module in self.by_name.items():  # found without `__getattr__`
            self.__dict__.setdefault(name, module)

    def __getattr__(self, name: str) -> Any:
        return named(self.__dict__.get("by_name", {}), name)

    def all(self) -> Iterator[tuple[str, NumpyModule]]:
        """Every network with its name, targets too."""
        yield from self.by_name.items()
        yield from ((f"target {name}", module) for name, module in self.targets.items())

    def at_target(self, name: str) -> bool:
        """Whether a network and its target are equal, so that a pass through one is one through
        both."""
        return self.by_name[name].equals(self.targets[name])

    def draw_from(self, rng: np.random.Generator) -> None:
        """Networks that draw actions do it with this generator."""
        for module in (*self.by_name.values(), *self.targets.values(), *self._frozen):
            module.rng = rng

    def draw_noise(self, rng: np.random.Generator) -> None:
        """Noisy layers, those of targets too, have noise of this generator from now on."""
        for _, module in self.all():
            if isinstance(module, Network):
                module.draw_noise(rng)

    def record(self) -> None:
        """From now on results are on the tape."""
        for module in self.by_name.values():
            module.tape = self.tape

    def stop(self) -> None:
        """Results are plain arrays again, and the tape is empty."""
        self.tape.clear()
        for module in self.by_name.values():
            module.tape = None
            module.forget()


def build(modules: Modules, name: str, seed: int) -> NumpyModule:
    """One network in NumPy."""
    description = modules.networks[name]
    if isinstance(description, PolicySpec):
        seed = seed_of_policy(name, seed, modules.acts)
        if description.bounded:
            return Actor(description, seed)
        return (CategoricalNetwork if description.num_atoms > 1 else Network)(description, seed)
    if isinstance(description, QOfAction):
        return Critic(description, seed_of(name, seed))
    return Number(description, seed_of(name, seed))


def hindrance(modules: Modules) -> str | None:
    """Why these networks cannot learn in NumPy; None: they can."""
    for name, network in modules.networks.items():
        if isinstance(network, PolicySpec) and not network.plain:
            if network.memory is not None:
                return f"the network {name!r} remembers, by memory={network.memory!r}"
            known = isinstance(network.model, str)
            return f"the network {name!r} is {repr(network.model) if known else 'one of your own'}"
    return None
