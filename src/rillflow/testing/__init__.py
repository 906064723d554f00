"""What users need to test their own operators, plans and engines.

    flow_of(items)      a list as a flow, without actors of its own
    ScriptedEngine      an engine whose events are fed by hand: the scheduler by itself
    Kill, Hang, Fail    what goes wrong, for `Sim(faults=[...])`
    conformance         checks that every engine must pass

None of it is needed to run a flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rillflow.engines.faults import Fail as Fail
from rillflow.engines.faults import Hang as Hang
from rillflow.engines.faults import Kill as Kill
from rillflow.graph.flow import Flow
from rillflow.ops.sources import from_items
from rillflow.testing.scripted import ScriptedEngine as ScriptedEngine

T = TypeVar("T")


def flow_of(items: Sequence[T]) -> Flow[T]:
    """The items of a list as a flow in the driver; no process is started for it.

    >>> flow_of([1, 2, 3]).for_each(lambda x: 10 * x).take(5, engine="sim")
    [10, 20, 30]
    """
    return from_items(items, 1, placement="driver").gather_sync().flatten()
