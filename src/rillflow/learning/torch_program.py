"""A recorded update as one function: a flat list of operations on memory of its own.

Views cost nothing, because what they are views of stays where it is. What nobody needs is left out,
and what is the same each time is computed once. A block of memory serves one result after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from rillflow.learning.torch_recording import (
    Act,
    Call,
    Place,
    Recorder,
    places_of,
    tensors_in,
)

_ROOM = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""operators that only make room"""
_ONLY_SHAPE = ("ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full")
"""operators that look at the shape of what they are given"""
_COPIES = ("clone", "_to_copy")
_WITH_NUMBER = ("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_")
"""operators that take a number for a tensor, and are asked for sooner with a tensor"""
_POINTWISE = (
    *("add", "sub", "mul", "div", "neg", "exp", "pow", "clamp", "addcmul", "maximum", "minimum"),
    *("threshold_backward", "tanh_backward", "hardtanh_backward", "softplus", "tanh", "relu"),
)
"""operators that may write to what they read"""
_NOT_NEEDED = ("pin_memory", "memory_format", "layout")
_RANDOM = torch.Tag.nondeterministic_seeded


def name_of(what: Any) -> str:
    """An operator's name: "add", "add_"."""
    return str(what._schema.name).partition("::")[2]


def random(call: Call) -> bool:
    """Whether an operator draws from torch's generator."""
    return not isinstance(call.what, Act) and _RANDOM in call.what.tags


def computed(calls: Iterable[Call]) -> tuple[list[Call], set[int]]:
    """The operations that compute something new each time; and the blocks that are constant."""
    calls = list(calls)
    changed = frozenset[int]().union(*(call.writes for call in calls))
    constant: set[int] = set()
    kept = []
    for call in calls:
        if not isinstance(call.what, Act):
            view = not call.writes and not call.makes
            if view or name_of(call.what) in _ROOM:
                continue
            fixed = _reads(call) <= constant and not random(call)
            if fixed and not call.writes and not call.makes & changed:
                constant |= call.makes
                continue
        kept.append(call)
    return kept, constant


def needed(calls: Sequence[Call], wanted: Iterable[int]) -> list[Call]:
    """The operations that lead to the wanted blocks, and random ones: those draw in any case."""
    live = set(wanted)
    kept = []
    for call in reversed(calls):
        if isinstance(call.what, Act) or random(call) or (call.writes | call.makes) & live:
            kept.append(call)
            live -= call.makes
            live |= _reads(call) | ({call.only_if.block} if call.only_if else set())
    return kept[::-1]


def _reads(call: Call) -> set[int]:
    if not isinstance(call.what, Act) and name_of(call.what) in _ONLY_SHAPE:
        return set()
    return {place.block for place in places_of((call.args, call.named))}


class Memory:
    """Blocks that are given out, taken back and given out again."""

    def __init__(self) -> None:
        self.bytes = 0
        self._free: dict[int, list[Any]] = {}

    def take(self, size: int) -> Any:
        """A block of so many bytes."""
        free = self._free.get(size)
        if free:
            return free.pop()
        self.bytes += size
        return torch.zeros(size, dtype=torch.uint8).untyped_storage()

    def give_back(self, storage: Any) -> None:
        """Nobody needs it any more."""
        self._free.setdefault(storage.nbytes(), []).append(storage)


class Program:
    """Repeats a recorded update.

    Args:
        recorder: what was recorded.
        results: places of the recorded update; a call gives what is there then.
    """

    def __init__(self, recorder: Recorder, results: Sequence[Place]) -> None:
        self._recorder = recorder
        self._results = results
        calls, constant = computed(recorder.calls)
        outside = set(recorder.outside)
        self.calls = needed(calls, outside | {place.block for place in self._results})
        self.reads = {block for call in self.calls for block in _reads(call)}
        self.reads |= {place.block for place in self._results}
        """blocks that it looks at"""
        changed = {block for call in self.calls for block in call.writes}
        self.changes = [recorder.storages[block] for block in sorted(outside & changed)]
        """memory that was there before and that it writes to"""
        self.random = any(map(random, self.calls))
        self.memory = Memory()
        self._at = {block: recorder.storages[block] for block in outside | constant}
        self._tensors: dict[Place, Tensor] = {}
        self._loose: dict[int, tuple[str, Place, Tensor]] = {}
        """results that are somewhere else each time: a name, and where within that they are"""
        self._names: dict[int, str] = {}
        self._known: dict[str, Any] = {"isfinite": math.isfinite}
        self._lines: list[str] = []
        with torch.inference_mode():
            self._write()
        del self._recorder
        self._loose = {}
        self.source = "\n".join(["def repeat():", *self._lines])
        """what is done, in Python"""
        exec(compile(self.source, "<recorded update>", "exec"), self._known)
        self._repeat: Callable[[], tuple[Tensor, ...]] = self._known["repeat"]

    def __call__(self) -> tuple[Tensor, ...]:
        """The update once more; its results, which the next call overwrites."""
        with torch.inference_mode():
            return self._repeat()

    def _write(self) -> None:
        last: dict[int, int] = {}
        for index, call in enumerate(self.calls):
            for place in places_of((call.args, call.named, call.out, call.only_if)):
                last[place.block] = index
        kept = {place.block for place in self._results} | self._at.keys()
        for index, call in enumerate(self.calls):
            used = {place.block for place in places_of((call.args, call.named, call.out))}
            for block in used - call.makes - self._at.keys() - self._loose.keys():
                self._make_room(block)
            done = {block for block in used if last[block] == index and block not in kept}
            self._write_call(_with_tensor(call), done)
            for block in done & self._at.keys():
                self.memory.give_back(self._at[block])
        given = ", ".join(self._text(place) for place in self._results)
        self._lines.append(f"    return ({given},)")

    def _make_room(self, block: int) -> None:
        self._at[block] = self.memory.take(self._recorder.storages[block].nbytes())

    # -- one operation -----------------------------------------------------------------------------

    def _write_call(self, call: Call, done: set[int]) -> None:
        """Write a call. Its result may lie in one of the blocks that are not needed behind it; that
        one is taken out of `done`."""
        if isinstance(call.what, Act):
            reads, writes = map(self._text, call.args)
            line = f"{self._name(call.what.do)}({reads}, {writes})"
            if call.only_if is not None:
                line = f"if isfinite({self._text(call.only_if)}.item()): {line}"
            self._lines.append(f"    {line}")
        elif call.writes and not call.makes:
            self._write_in_place(call)
        elif not (isinstance(call.out, Place) and self._write_to_room(call, done)):
            self._write_loose(call)

    def _write_in_place(self, call: Call) -> None:
        name, first = name_of(call.what), call.args[0]
        if isinstance(first, Place) and name.endswith("_") and hasattr(Tensor, name):
            method, args = getattr(self._tensor(first), name), call.args[1:]
            if first.block in self._loose:
                self._line(f"{self._text(first)}.{name}", args, call.named)
            else:
                self._line(self._name(method), args, call.named)
        else:
            method, args = getattr(torch, name, call.what), call.args
            self._line(self._name(method), args, call.named)
        if not call.writes & set(self._recorder.outside) and not random(call):
            self._try(method, args, call.named)

    def _write_to_room(self, call: Call, done: set[int]) -> bool:
        """Have the result written to where there is room already, if the operator can do so."""
        name, block = name_of(call.what), call.out.block
        shared = self._shared(call, done)
        if shared is None:
            self._make_room(block)
        else:
            self._at[block] = self._at[shared]
        out = self._tensor(call.out)
        if name in _COPIES:
            self._try(out.copy_, call.args[:1], {})
            self._line(self._name(out.copy_), call.args[:1], {})
            return True
        for operator, to in _with_room(call.what) if _may_be_tried(call) else ():
            try:
                self._try(operator, call.args, {**_plain(call.named), to: call.out})
            except TypeError:
                continue
            self._line(self._name(operator), call.args, {**_plain(call.named), to: call.out})
            done -= {shared}
            return True
        del self._tensors[call.out]
        room = self._at.pop(block)
        if shared is None:
            self.memory.give_back(room)
        return False

    def _shared(self, call: Call, done: set[int]) -> int | None:
        """The block of something that is read for the last time, to which the result may go."""
        if name_of(call.what) not in _POINTWISE:
            return None
        read = list(places_of((call.args, call.named)))
        sizes = [one and one.nbytes() for one in self._recorder.storages]
        for place in read:
            block = place.block
            alike = (
                place == call.out._replace(block=block) and sizes[block] == sizes[call.out.block]
            )
            if block in done and block in self._at and alike and _all_there(read, place):
                return block
        return None

    def _write_loose(self, call: Call) -> None:
        name = name_of(call.what)
        operator, named = call.what, dict(call.named)
        found = getattr(torch, name, None)
        given: Any = None
        if found is not None and _may_be_tried(call):
            try:
                given = self._try(found, call.args, _plain(named))
                operator, named = found, _plain(named)
            except TypeError:
                pass
        if given is None:
            given = tensors_in(call.out, lambda p: torch.zeros(p.size, dtype=p.dtype))
        single = isinstance(call.out, Place)
        places, tensors = ([call.out], [given]) if single else (call.out, given)
        names = []
        for place, tensor in zip(places, tensors, strict=True):
            names.append(f"v{place.block}")
            self._loose[place.block] = names[-1], place, tensor
        to = names[0] if single else f"{', '.join(names)},"
        self._line(f"{to} = {self._name(operator)}", call.args, named)

    def _try(self, operator: Any, args: Any, named: Any) -> Any:
        """Do it once, on what is there by now: does it take such arguments?"""
        return operator(*tensors_in(args, self._tensor), **tensors_in(named, self._tensor))

    # -- text --------------------------------------------------------------------------------------

    def _line(self, called: str, args: Sequence[Any], named: dict[str, Any]) -> None:
        texts = [*map(self._text, args), *(f"{n}={self._text(v)}" for n, v in named.items())]
        self._lines.append(f"    {called}({', '.join(texts)})")

    def _tensor(self, place: Place) -> Tensor:
        if place.block in self._loose:
            _, whole, tensor = self._loose[place.block]
            if place == whole:
                return tensor
            return tensor.as_strided(place.size, place.stride, place.offset)
        if place not in self._tensors:
            with torch.inference_mode(False), torch.no_grad():
                empty = torch.empty(0, dtype=place.dtype)
                self._tensors[place] = empty.set_(
                    self._at[place.block], place.offset, place.size, place.stride
                )
        return self._tensors[place]

    def _text(self, value: Any) -> str:
        if isinstance(value, Place):
            if value.block not in self._loose:
                return self._name(self._tensor(value))
            name, whole, _ = self._loose[value.block]
            if value == whole:
                return name
            return f"{name}.as_strided({value.size}, {value.stride}, {value.offset})"
        if isinstance(value, (bool, int, str)) or value is None:
            return repr(value)
        if isinstance(value, float) and math.isfinite(value):
            return repr(value)
        if any(place.block in self._loose for place in places_of(value)):  # a list
            return f"[{', '.join(map(self._text, value))}]"
        return self._name(tensors_in(value, self._tensor))

    def _name(self, value: Any) -> str:
        """What a value is called in the function, which finds it by that name."""
        if id(value) not in self._names:
            name = f"_{len(self._names)}"
            self._names[id(value)], self._known[name] = name, value  # kept: so is its id
        return self._names[id(value)]


def _may_be_tried(call: Call) -> bool:
    """Whether nothing is different for having done it once more."""
    return not call.writes and not random(call)


def _all_there(read: Iterable[Place], place: Place) -> bool:
    """Whether all that is read of a block is read from one place."""
    return all(other == place for other in read if other.block == place.block)


def _with_tensor(call: Call) -> Call:
    """The same call with a tensor for a number, where that is the same."""
    if isinstance(call.what, Act) or name_of(call.what) not in _WITH_NUMBER or call.named:
        return call
    first, *others = call.args
    number = len(others) == 1 and type(others[0]) in (int, float)
    if not (number and isinstance(first, Place) and first.dtype.is_floating_point):
        return call
    return call._replace(args=(first, torch.tensor(others[0], dtype=first.dtype)))


def _with_room(what: Any) -> Iterable[tuple[Any, str]]:
    """What does the same as an operator but writes to where it is told, and how that is called."""
    name = name_of(what)
    found = getattr(torch, name, None) or getattr(torch._C._nn, name, None)
    if found is not None:
        yield found, "out"
    if "grad_input" in what.overloadpacket.overloads():
        yield what.overloadpacket.grad_input, "grad_input"


def _plain(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name not in _NOT_NEEDED}
