"""What users need to test their own operators, plans and engines.

    flow_of(items)      a list as a flow, without actors of its own
    ScriptedEngine      an engine whose events are fed by hand: the scheduler by itself
    Kill, Hang, Fail    what goes wrong, for `Sim(faults=[...])`
    exercise            a policy or a network of one's own, tried on generated inputs
    conformance         checks that every engine must pass

None of it is needed to run a flow. A network is tried before any environment is:

>>> from gymnasium.spaces import Box, Discrete
>>> from rillflow.policies.spec import PolicySpec
>>> from rillflow.testing import exercise
>>> spec = PolicySpec(observation_space=Box(-1, 1, (4,)), action_space=Discrete(2), hidden=(8,))
>>> for line in exercise(spec).checks:
...     print(line)
results have the shapes and dtypes of the spec, and are finite
rows do not depend on each other, nor on earlier calls
actions fit their space and have the right log-probabilities
a gradient reaches every parameter
weights survive a round trip and follow from the seed
NumPy and torch agree

What is wrong is told with the network's name:

>>> from torch import nn
>>> def forgetful(spec):
...     return nn.Linear(spec.observation_size, spec.actions.width)
>>> broken = PolicySpec(observation_space=Box(-1, 1, (4,)), action_space=Discrete(2),
...                     model=forgetful)
>>> exercise(broken)
Traceback (most recent call last):
rillflow.errors.BuildError: model=forgetful: with head='actor_critic' it must return \
(outputs [12, 2], values [12]), found one tensor [12, 2]. It has no value head: ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rillflow.engines.sim_faults import Fail as Fail
from rillflow.engines.sim_faults import Hang as Hang
from rillflow.engines.sim_faults import Kill as Kill
from rillflow.flows.flow import Flow
from rillflow.flows.sources import from_items
from rillflow.testing.scripted import ScriptedEngine as ScriptedEngine

if TYPE_CHECKING:
    from rillflow.policies.try_policy import exercise as exercise

T = TypeVar("T")


def __getattr__(name: str) -> Any:
    if name != "exercise":
        raise AttributeError(f"module 'rillflow.testing' has no attribute {name!r}")
    from rillflow.policies.try_policy import exercise  # torch comes with it

    return exercise


def flow_of(items: Sequence[T]) -> Flow[T]:
    """The items of a list as a flow in the driver; no process is started for it.

    >>> flow_of([1, 2, 3]).for_each(lambda x: 10 * x).take(5, engine="sim")
    [10, 20, 30]
    """
    return from_items(items, 1, placement="driver").gather_sync().flatten()
