"""Which framework a loss is computed in: the one that its arguments are of.

A loss is called by one name, whether it is given tensors or NumPy's arrays (or a `Var`, an array
on a tape). torch is imported when the first tensor comes: who learns in NumPy never loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from rillflow.learning.tape import Array, Number, Var

if TYPE_CHECKING:
    from torch import Tensor

    Numbers: TypeAlias = Tensor | Var | Array | Number
    """what a primitive takes: all of one framework"""

X = TypeVar("X", bound="Numbers")
"""what decides on the framework: a tensor leads to a tensor, a var to a var"""


def either(in_numpy: ModuleType, in_torch: Callable[[], ModuleType]) -> Callable[[Any], Any]:
    """A function that gives, for an argument, the module of its framework.

    `in_torch` imports the other module; it is called once, when it is needed.
    """
    modules: dict[type, ModuleType] = {}

    def framework(x: Any) -> Any:
        kind = type(x)
        return modules[kind] if kind in modules else decide(x, kind)

    def decide(x: Any, kind: type) -> ModuleType:
        numpy = isinstance(x, (Var, np.ndarray, np.generic, float, int))
        modules[kind] = in_numpy if numpy else in_torch()
        return modules[kind]

    return framework
