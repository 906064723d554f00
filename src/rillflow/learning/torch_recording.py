"""What an update asks of torch, written down while it is made.

    with Recorder() as recorder:
        figures, size = learner.update_once(parts)

The update is made as ever; nothing about it is refused or changed. Written down is each operation
below autograd, with the places of what it reads and writes: a place is a shape within a block of
memory. What is not torch's, a draw from NumPy's generator or the step of an optimiser, is written
down as an `Act` that is done again each time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rillflow.experience.batch import Array

MOST_BYTES = 2**28
"""that a recording keeps; the arithmetic of a larger update takes longer than to ask for it"""
NOT_FINITE = "a loss or a gradient is not finite"
NO_SLOTS = "an optimiser has not made a step yet"
PASSING = (NOT_FINITE, NO_SLOTS)
"""reasons why an update cannot be repeated that do not hold for the next one"""
_LOOKS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_UNSAID = ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
"""operators that change their running statistics, which their schemas do not say"""
_MASKS = (torch.bool, torch.uint8)


class Place(NamedTuple):
    """Where a tensor lies: a shape within a block of memory, of which there is one per storage."""

    block: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Act:
    """Something that is done anew each time: it draws numbers, or makes a step."""

    label: str
    do: Callable[[Sequence[Tensor], Sequence[Tensor]], object] = field(compare=False)
    """called with what it reads and what it writes"""


class Call(NamedTuple):
    """One operation; two of them are equal if they do the same."""

    what: Any
    """an operator of torch, or an `Act`"""
    args: tuple[Any, ...]
    named: dict[str, Any]
    out: Any
    writes: frozenset[int]
    """blocks that it changes"""
    makes: frozenset[int]
    """blocks that it begins"""
    only_if: Place | None
    """a number that has to be finite"""


class Recorder(TorchDispatchMode):
    """Writes down what is asked of torch inside, in this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.storages: list[Any] = []
        """of each block, kept: while it is, no other one has its address"""
        self.outside: list[int] = []
        """blocks that were there before: weights, rows, constants"""
        self.turns: list[tuple[int, bool]] = []
        """of each step that is taken once in several updates: how often, and whether it was"""
        self.refused: str | None = None
        """why it cannot be repeated"""
        self._known: dict[int, int] = {}
        self._bytes = 0
        self._only_if: Place | None = None
        self._paused = False

    def __enter__(self) -> Recorder:
        _thread.recorder = self
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        _thread.recorder = None

    def refuse(self, why: str) -> None:
        """It cannot be repeated; the update goes on, and nothing more is written down."""
        self.refused = self.refused or why
        self._paused = True
        self.calls, self.storages = [], []

    def __torch_dispatch__(
        self, what: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Do it, and write it down."""
        named = dict(kwargs or {})
        if self._paused:
            return what(*args, **named)
        if _looks(what, args):
            self.refuse(f"{what} looks at numbers")
            return what(*args, **named)
        if what._schema.name in _UNSAID:
            self.refuse(f"{what} changes what it does not say")
            return what(*args, **named)
        reads = places_in(args, self.place), places_in(named, self.place)
        out = what(*args, **named)
        made: set[int] = set()
        places = places_in(out, lambda tensor: self.place(tensor, made))
        writes = _written(what, *reads)
        self.calls.append(Call(what, *reads, places, writes, frozenset(made), self._only_if))
        if self._bytes > MOST_BYTES:
            self.refuse(f"what it computes takes more than {MOST_BYTES >> 20} MB")
        return out

    def place(self, tensor: Tensor, made: set[int] | None = None) -> Place:
        """Where a tensor lies; its block is new if it has never been seen, and put into `made`."""
        storage = tensor.untyped_storage()
        block = self._known.get(storage._cdata)
        if block is None:
            block = self._known[storage._cdata] = len(self.storages)
            self.storages.append(storage)
            if made is None:
                self.outside.append(block)
            else:
                made.add(block)
                self._bytes += storage.nbytes()
        return Place(
            block, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype
        )

    def act(self, act: Act, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> None:
        """Do it now, and each time that the update is repeated."""
        if not self._paused:
            places = [self.place(one) for one in reads], [self.place(one) for one in writes]
            blocks = frozenset(place.block for place in places[1])
            none: frozenset[int] = frozenset()
            self.calls.append(Call(act, places, {}, None, blocks, none, self._only_if))
        with self._quiet():
            act.do(reads, writes)

    @contextmanager
    def only_if_finite(self, size: Tensor) -> Iterator[bool]:
        """Inside are acts that are done only where this number is finite; whether it is now."""
        with self._quiet():
            finite = math.isfinite(float(size))
        if not finite:
            self.refuse(NOT_FINITE)
        self._only_if = None if self._paused else self.place(size)
        yield finite
        self._only_if = None

    def keep_only(self, blocks: Iterable[int]) -> None:
        """Let go of all other memory."""
        kept = set(blocks)
        self.storages = [one if i in kept else None for i, one in enumerate(self.storages)]

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        before, self._paused = self._paused, True
        yield
        self._paused = before


_thread = threading.local()


def recorder_at_work() -> Recorder | None:
    """What writes down operations of this thread now."""
    return getattr(_thread, "recorder", None)


def note_turn(every: int, taken: bool) -> None:
    """Whether it was the turn of a step that is taken once in so many updates."""
    recorder = recorder_at_work()
    if recorder is not None:
        recorder.turns.append((every, taken))


def drawn(draw: Callable[[Array], object], shape: tuple[int, ...]) -> Tensor:
    """Numbers [*shape] that `draw` writes; an update that is repeated draws them anew."""
    numbers = torch.empty(shape)
    recorder = recorder_at_work()
    if recorder is None:
        draw(numbers.numpy())
    else:
        act = Act(f"draw {shape}", lambda _, writes: draw(writes[0].numpy()))
        recorder.act(act, [], [numbers])
    return numbers


# -- trees of arguments ---------------------------------------------------------------------------


def places_in(tree: Any, place: Callable[[Tensor], Any]) -> Any:
    """The same arguments with places for tensors."""
    if isinstance(tree, Tensor):
        return place(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(places_in(one, place) for one in tree)
    if isinstance(tree, dict):
        return {name: places_in(one, place) for name, one in tree.items()}
    return tree


def tensors_in(tree: Any, tensor: Callable[[Place], Any]) -> Any:
    """The same arguments with something for places."""
    if isinstance(tree, Place):
        return tensor(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(tensors_in(one, tensor) for one in tree)
    if isinstance(tree, dict):
        return {name: tensors_in(one, tensor) for name, one in tree.items()}
    return tree


def places_of(tree: Any) -> Iterator[Place]:
    """All places among arguments."""
    if isinstance(tree, Place):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for one in tree:
            yield from places_of(one)
    elif isinstance(tree, dict):
        for one in tree.values():
            yield from places_of(one)


def _written(what: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> frozenset[int]:
    """The blocks that an operator changes, by its schema."""
    blocks = set()
    for index, argument in enumerate(what._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[index] if index < len(args) else named.get(argument.name)
            blocks |= {place.block for place in places_of(given)}
    return frozenset(blocks)


def _looks(what: Any, args: tuple[Any, ...]) -> bool:
    """Whether what comes of an operator is a number in Python, or has a shape that depends on
    numbers."""
    if what._schema.name in ("aten::index", "aten::index_put_", "aten::index_put"):
        return any(index is not None and index.dtype in _MASKS for index in args[1])
    return any(tag in what.tags for tag in _LOOKS)
