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

OF_NUMPY = frozenset({Var, np.ndarray, np.float32, np.float64, float, int})


def either(in_numpy: ModuleType, in_torch: Callable[[], ModuleType]) -> Callable[[Any], Any]:
    """A function that gives, for an argument, the module of its framework.

    `in_torch` imports the other module; it is called once, when it is needed.
    """
    imported: list[ModuleType] = []

    def framework(x: Any) -> Any:
        if type(x) in OF_NUMPY or isinstance(x, (np.ndarray, np.generic)):
            return in_numpy
        if not imported:
            imported.append(in_torch())
        return imported[0]

    return framework
