"""Updates on the processor that are recorded once, and then repeated without autograd.

An update of a small network is some hundreds of operations of a few microseconds each. Autograd,
the calls that lead to them and the views between them take longer than the operations themselves. A
`Program` asks for what is computed alone, in the same order on the same numbers, so that results
are those of the update as it is written, to the bit.

That is made sure of: an update is recorded twice, from different batches, and what is not the same
both times is not repeated; a third one is made both ways, and they have to agree in every bit.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rillflow.experience.batch import TIMELESS
from rillflow.learning import rows as rows_of
from rillflow.learning.figures import Figures
from rillflow.learning.torch_graphs import FORGET, MOST, WARM, shapes_of
from rillflow.learning.torch_parts import parts_of
from rillflow.learning.torch_program import Program
from rillflow.learning.torch_recording import (
    NO_SLOTS,
    PASSING,
    Act,
    Place,
    Recorder,
    recorder_at_work,
)
from rillflow.learning.update import Rows

if TYPE_CHECKING:
    from rillflow.learning.torch_learner import TorchLearner

LARGEST = 2**26
"""bytes of memory that a program may have: arithmetic on more takes longer than to ask for it"""
PATIENCE = 10
"""pairs of recordings that may differ, before no more are made"""

Key = tuple[Any, ...]
Turns = tuple[tuple[int, bool], ...]


class RepeatedUpdates:
    """The updates of one learner, by the shapes of their rows and the steps that are taken."""

    def __init__(self, learner: TorchLearner) -> None:
        self.learner = learner
        self.given_up: str | None = None
        """why no update is repeated"""
        self._seen: dict[Key, int] = {}
        self._rows: dict[Key, Rows] = {}
        """where recorded operations look for them"""
        self._begun: dict[tuple[Key, Turns], Recording] = {}
        """recorded once"""
        self._programs: dict[Key, dict[Turns, Repeat]] = {}
        self._differed = 0

    def forget(self) -> None:
        """What was recorded goes on from what is no longer so."""
        self._seen, self._rows, self._begun, self._programs = {}, {}, {}, {}

    @property
    def repeats(self) -> bool:
        """Whether updates are repeated by now."""
        return any(one.agreed for found in self._programs.values() for one in found.values())

    def learn_from(self, rows: Rows, chosen: Any) -> tuple[Figures, Any]:
        """One update from the chosen rows; its figures, and how large losses and gradients were."""
        order = None if chosen is None else torch.as_tensor(chosen)
        key = () if self.given_up else shapes_of(rows, order)
        for turns, repeat in self._programs.get(key, {}).items():
            if self._are_due(turns):
                repeat.take(rows, order)
                if repeat.agreed:
                    return repeat.again()
                return self._compared(repeat)
        if self.given_up or not self._worth_recording(key) or self._waits(key):
            return self.learner.update_once(list(parts_of([rows], order)))
        return self._recorded(key, rows, order)

    def _are_due(self, turns: Turns) -> bool:
        """Whether the next update takes the same ones of the steps that are taken now and then."""
        number = self.learner.updates + 1
        return all((number % every == 0) == taken for every, taken in turns)

    def _worth_recording(self, key: Key) -> bool:
        if len(self._seen) >= FORGET:
            self._seen = {}
        self._seen[key] = self._seen.get(key, 0) + 1
        kept = sum(map(len, self._programs.values()))
        return self._seen[key] > WARM and kept < MOST

    def _waits(self, key: Key) -> bool:
        """Whether the next update was recorded once, and its second recording is of a later batch:
        what is made once for each batch is seen then."""
        now = self.learner.version
        return any(
            of == key and one.version == now and self._are_due(turns)
            for (of, turns), one in self._begun.items()
        )

    def _recorded(self, key: Key, rows: Rows, order: Tensor | None) -> tuple[Figures, Any]:
        if key not in self._rows:
            self._rows[key] = _room_for(rows, order)
        own = self._rows[key]
        _copy(rows, order, own, list(own))
        recording = Recording(self.learner, own)
        turns = tuple(recording.recorder.turns)
        first = self._begun.get((key, turns))
        why = recording.recorder.refused
        if why is not None:
            if why not in PASSING:
                self._give_up(why)
        elif first is None:
            self._begin(key, turns, recording)
        else:
            del self._begun[key, turns]
            self._join(key, turns, first, recording)
        return _apart(recording.figures), recording.size

    def _begin(self, key: Key, turns: Turns, recording: Recording) -> None:
        """Keep a recording until there is a second one, which there may never be."""
        if len(self._begun) >= MOST:
            kept = {*self._programs, key}
            self._rows = {of: rows for of, rows in self._rows.items() if of in kept}
            self._begun = {}
        recording.recorder.keep_only(recording.recorder.outside)
        self._begun[key, turns] = recording

    def _join(self, key: Key, turns: Turns, first: Recording, second: Recording) -> None:
        why = differing(first, second)
        if why is not None:
            self._differed += 1
            if self._differed >= PATIENCE:
                self._give_up(why)
            return
        try:
            repeat = Repeat(self.learner, self._rows[key], second)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            self._give_up(_first_line(error))
            return
        if repeat.program.memory.bytes > LARGEST:
            self._give_up(f"what it computes takes more than {LARGEST >> 20} MB")
            return
        self._programs.setdefault(key, {})[turns] = repeat

    def _compared(self, repeat: Repeat) -> tuple[Figures, Any]:
        """The same update as it is written and repeated; they have to agree in every bit."""
        learner = self.learner
        before = repeat.state()
        figures, size = learner.update_once([repeat.rows])
        told = _apart(figures), size
        usual = repeat.state()
        repeat.restore(before)
        try:
            found = repeat.again()
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            repeat.restore(usual)
            self._give_up(_first_line(error))
            return told
        if _same(usual, repeat.state()) and _same_figures(told, found):
            repeat.agreed = math.isfinite(size)  # where steps are left out there is less to agree
        else:
            repeat.restore(usual)
            self._give_up("repeated it gives other numbers")
        return told

    def _give_up(self, why: str) -> None:
        self.given_up = why
        self.forget()
        if self.learner.config.record_updates:
            warnings.warn(
                f"an update of {self.learner.config.algorithm.name} cannot be recorded and "
                f"repeated, so it is made as it is written: {why}. record_updates=False does not "
                "try it.",
                stacklevel=2,
            )


class Recording:
    """An update that was made, and what was written down meanwhile."""

    def __init__(self, learner: TorchLearner, rows: Rows) -> None:
        self.version = learner.version
        with Recorder() as self.recorder:
            self.figures, size = learner.update_once([rows])
        self.size = float(size)
        tensors = {n: value for n, value in self.figures.items() if isinstance(value, Tensor)}
        self.single = [name for name, value in tensors.items() if value.ndim == 0]
        """figures of one number each"""
        self.each = [name for name in tensors if name not in self.single]
        """figures of rows"""
        self.plain = {name: value for name, value in self.figures.items() if name not in tensors}
        self.results: list[Place] = []
        """the size and all figures that are tensors"""
        if self.recorder.refused is None:
            told = [size, *(tensors[name] for name in (*self.single, *self.each))]
            self.results = [self.recorder.place(tensor) for tensor in told]


class Repeat:
    """An update of rows of one shape that is repeated."""

    def __init__(self, learner: TorchLearner, rows: Rows, recording: Recording) -> None:
        self.learner = learner
        self.rows = rows
        self.agreed = False
        """whether it has been found to be what the update gives"""
        self._single, self._each = recording.single, recording.each
        self._plain, self._order = recording.plain, list(recording.figures)
        recorder = recording.recorder
        blocks = {name: recorder.place(column).block for name, column in rows.items()}
        self.program = Program(recorder, recording.results)
        self._read = [name for name in rows if blocks[name] in self.program.reads]
        """the columns that it looks at"""

    def take(self, rows: Rows, order: Tensor | None) -> None:
        """Copy the rows to where the operations look for them."""
        _copy(rows, order, self.rows, self._read if self.agreed else list(self.rows))

    def again(self) -> tuple[Figures, float]:
        """The update, from the rows that were taken."""
        size, *given = self.program()
        count = len(self._single)
        found: Figures = dict(self._plain)
        for name, number in zip(self._single, given, strict=False):
            found[name] = number.item()
        for name, values in zip(self._each, given[count:], strict=True):
            found[name] = values.clone()
        return {name: found[name] for name in self._order}, size.item()

    def state(self) -> Any:
        """All that the update changes."""
        memory = [_bytes(storage).clone() for storage in self.program.changes]
        numbers = copy.deepcopy(self.learner.rng.bit_generator.state)
        return memory, numbers, torch.get_rng_state() if self.program.random else None

    def restore(self, state: Any) -> None:
        """Go back to that."""
        memory, self.learner.rng.bit_generator.state, numbers = state
        for storage, before in zip(self.program.changes, memory, strict=True):
            _bytes(storage).copy_(before)
        if numbers is not None:
            torch.set_rng_state(numbers)


def recorded_step(learner: TorchLearner, names: Sequence[str], size: Tensor) -> bool:
    """Steps of optimisers, if the update is being recorded; they are made anew each time, with the
    rate of the moment."""
    recorder = recorder_at_work()
    if recorder is None:
        return False
    with recorder.only_if_finite(size) as finite:
        for name in names if finite else ():
            parameters = learner.lists[0][name]
            gradients: list[Any] = [parameter.grad for parameter in parameters]
            slots = learner.averages.get(name, ())
            if any(gradient is None for gradient in gradients):
                recorder.refuse("a weight has no gradient")
            elif not slots:
                recorder.refuse(NO_SLOTS)
            changed = [*parameters, *(one for slot in slots for one in slot)]
            recorder.act(Act(f"step {name}", partial(_step, learner, name)), gradients, changed)
    return True


def _step(
    learner: TorchLearner, name: str, gradients: Sequence[Tensor], _: Sequence[Tensor]
) -> None:
    learner.step_by(name, list(gradients))


def differing(first: Recording, second: Recording) -> str | None:
    """In what two recordings of an update differ; None: they are the same."""
    one, other = first.recorder, second.recorder
    if one.calls != other.calls or one.outside != other.outside:
        return "it does not do the same each time"
    if first.results != second.results or first.plain != second.plain:
        return "its figures are not the same each time"
    for block in one.outside:
        was, now = one.storages[block], other.storages[block]
        if was._cdata != now._cdata and not torch.equal(_bytes(was), _bytes(now)):
            return "it computes with numbers that are made anew each time"
    return None


def _apart(figures: Figures) -> Figures:
    """Figures that stay as they are, whatever becomes of the rows and weights that they show."""
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in figures.items()}


def _same(one: Any, other: Any) -> bool:
    """Whether two states are the same in every bit."""
    pairs = zip(one[0], other[0], strict=True)
    return one[1] == other[1] and all(torch.equal(was, now) for was, now in pairs)


def _same_figures(told: tuple[Figures, Any], found: tuple[Figures, Any]) -> bool:
    """Whether figures and sizes are the same numbers, nan included."""
    pairs = [*((told[0][name], found[0][name]) for name in told[0]), (told[1], found[1])]
    return told[0].keys() == found[0].keys() and all(
        np.array_equal(np.asarray(was), np.asarray(now), equal_nan=True) for was, now in pairs
    )


def _bytes(storage: Any) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _room_for(rows: Rows, order: Tensor | None) -> Rows:
    (part,) = parts_of([rows], order)
    return Rows({name: torch.empty_like(column) for name, column in part.items()})


def _copy(rows: Rows, order: Tensor | None, to: Rows, names: Sequence[str]) -> None:
    """The chosen rows of some columns."""
    whole = rows_of.time_major(rows)
    for name in names:
        if order is None:
            to[name].copy_(rows[name])
        else:
            axis = 1 if whole and name not in TIMELESS else 0
            torch.index_select(rows[name], axis, order, out=to[name])


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(". ")
