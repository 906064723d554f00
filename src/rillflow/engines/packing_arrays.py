"""Arrays inside a pickle: each kind that NumPy has comes out read-only."""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections import ChainMap
from typing import Any, ClassVar

import cloudpickle
import numpy as np

_NUMBERS = frozenset("biufc")


def _reduced(array: Any) -> Any:
    """An array of numbers is a buffer beside the pickle; other kinds are bytes or objects in it."""
    dtype = array.dtype
    if dtype.hasobject:
        return _frozen_objects, (array.shape, dtype, array.tolist() if array.ndim else array.item())
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    if dtype.kind in _NUMBERS:
        return _over_buffer, (pickle.PickleBuffer(array), dtype.str, array.shape)
    return _over_buffer, (array.tobytes(), dtype, array.shape)


def _reduced_masked(array: Any) -> Any:
    return _frozen_masked, (array.data.view(np.ndarray), np.ma.getmask(array), array.fill_value)


def _reduced_subclass(array: Any) -> Any:
    """An array of a subclass, as that class wants to be pickled; then read-only."""
    return _frozen_again, tuple(array.__reduce__()[:3])


_OURS: dict[type, Any] = {np.ndarray: _reduced}


def _override(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or type(value) in _OURS:
        return NotImplemented
    # who names `np.ma` imports it, which takes 40 ms; where nobody did, nothing is masked
    if "numpy.ma" in sys.modules and type(value) is np.ma.MaskedArray:
        return _reduced_masked(value)
    return _reduced_subclass(value)


class ArrayPickler(pickle.Pickler):
    """Writes what `pickle` can read, quickly; classes travel by their names."""

    def reducer_override(self, value: Any) -> Any:
        return _override(value)

    dispatch_table = ChainMap[type, Any](_OURS, copyreg.dispatch_table)  # noqa: RUF012 - as its base


class ArrayCloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As `ArrayPickler`, with code shipped by value where the other side cannot import it."""

    def reducer_override(self, value: Any) -> Any:
        found = _override(value)
        return super().reducer_override(value) if found is NotImplemented else found

    dispatch_table: ClassVar[Any] = ChainMap(_OURS, *cloudpickle.Pickler.dispatch_table.maps)


def _over_buffer(buffer: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array over the memory of the buffer, read-only as the buffer is."""
    array: Any = np.ndarray(shape, dtype, buffer)
    if array.flags.writeable:
        array.flags.writeable = False
    return array


def _frozen_objects(shape: tuple[int, ...], dtype: Any, values: Any) -> Any:
    array = np.empty(shape, dtype)
    if dtype == np.dtype(object):
        for index in np.ndindex(shape):
            value = values
            for position in index:
                value = value[position]
            array[index] = value
    else:
        array[...] = values
    array.flags.writeable = False
    return array


def _frozen_masked(data: Any, mask: Any, fill: Any) -> Any:
    array: Any = np.ma.MaskedArray(data, mask=mask, fill_value=fill, copy=False)
    array.flags.writeable = False
    return array


def _frozen_again(make: Any, args: Any, state: Any = None) -> Any:
    array = make(*args)
    if state is not None:
        array.__setstate__(state)
    array.flags.writeable = False
    return array
