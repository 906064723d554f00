"""Updates recorded once as CUDA graphs, and then repeated as one launch.

An update of a small network is some hundreds of operations that take a device a few microseconds
each, and the processor longer to ask for. A graph asks for all of them at once.

What is recorded is an update as the learner makes it: losses, gradients, optimiser. It is repeated
for rows of the same shapes, which are copied to where the recorded operations look for them. All
else that goes into it has to be there to stay: weights, what the optimiser remembers, the learning
rate, as numbers on the device; and the other settings, as they were when it was recorded. So a
learner whose settings follow a schedule, or that draws random numbers in an update, goes without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from rillflow.experience.batch import NEXT_OBS, TIMELESS
from rillflow.learning import rows as rows_of
from rillflow.learning.figures import Figures
from rillflow.learning.schedules import scheduled
from rillflow.learning.torch_modules import Policy
from rillflow.learning.torch_parts import parts_of
from rillflow.learning.update import Rows

if TYPE_CHECKING:
    from rillflow.learning.torch_learner import TorchLearner

T = TypeVar("T")

WARM = 3
"""updates of a shape that are made as usual, before one is recorded"""
FORGET = 100
"""shapes that are counted, before all are counted anew: rows that are never alike are many"""
MOST = 4
"""recordings that are kept, each with memory of its own; others are learned as usual"""

Shapes = tuple[tuple[str, tuple[int, ...], torch.dtype], ...]


def may_be_recorded(learner: TorchLearner) -> bool:
    """Whether all updates of a learner do the same, whatever the rows are.

    On a device that includes random numbers: there are none. On the processor they are drawn
    anew, and by default small networks alone are recorded: others have more to compute than to
    ask for.
    """
    config, device = learner.config, learner.device.type
    if device not in ("cuda", "cpu") or learner.others or config.record_updates is False:
        return False
    fixed = not (
        set(scheduled(config)) - {"lr"}
        or learner.noisy
        or learner.spec.recurrent  # looks where episodes begin
        or config.compile
        or getattr(config, "target_kl", None) is not None
    )
    ours = config.update is None and config.algorithm.update.__module__.startswith("rillflow.")
    nets = [net for _, net in learner.m.all()]
    if device == "cuda":
        usual = all(type(net) is Policy for net in nets)
    else:
        usual = all(net.spec.plain for net in nets if isinstance(net, Policy))
    return fixed and (config.record_updates is True or (ours and usual))


class Cuda:
    """Where updates are recorded: the streams and graphs of a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._aside: torch.cuda.Stream | None = None

    def aside(self, work: Callable[[], T]) -> T:
        """Work on a stream of its own, as CUDA wants it before anything is recorded."""
        if self._aside is None:
            self._aside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        usual = torch.cuda.current_stream(self.device)
        self._aside.wait_stream(usual)
        with torch.cuda.stream(self._aside):
            done = work()
        usual.wait_stream(self._aside)
        return done

    def record(self, work: Callable[[], T]) -> tuple[T, Callable[[], None]]:
        """What work gives, and what repeats it; it is not done now."""
        usual = torch.cuda.current_stream(self.device)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                given = work()
        except RuntimeError:
            torch.cuda.set_stream(usual)  # a recording that fails leaves its own
            raise
        return given, graph.replay


class UpdateGraphs:
    """The updates of one learner, by the shapes of their rows."""

    def __init__(self, learner: TorchLearner, cuda: Any = None) -> None:
        self.learner = learner
        self.cuda = Cuda(learner.device) if cuda is None else cuda
        self._seen: dict[Shapes, int] = {}
        self._recorded: dict[Shapes, Recorded] = {}
        self._given_up = False

    def forget(self) -> None:
        """What was recorded goes on from what is no longer so."""
        self._seen, self._recorded = {}, {}

    def learn_from(self, rows: Rows, chosen: torch.Tensor | None) -> tuple[Figures, Any]:
        """One update from the chosen rows; its figures, and how large losses and gradients were."""
        shapes = shapes_of(rows, chosen)
        recorded = self._recorded.get(shapes)
        if recorded is None and self._due(rows, shapes):
            recorded = self._record(rows, chosen, shapes)
        if recorded is not None:
            return recorded.repeat(rows, chosen)
        parts = list(parts_of([rows], chosen))
        if self._given_up:
            return self.learner.update_once(parts)
        return self.cuda.aside(lambda: self.learner.update_once(parts))

    def _due(self, rows: Rows, shapes: Shapes) -> bool:
        if len(self._seen) >= FORGET:
            self._seen = {}
        self._seen[shapes] = self._seen.get(shapes, 0) + 1
        return (
            not self._given_up
            and self._seen[shapes] > WARM
            and len(self._recorded) < MOST
            and not (NEXT_OBS in rows and rows_of.time_major(rows))  # looks where episodes end
        )

    def _record(self, rows: Rows, chosen: torch.Tensor | None, shapes: Shapes) -> Recorded | None:
        try:
            self._recorded[shapes] = Recorded(self.learner, self.cuda, rows, chosen)
        except RuntimeError as error:  # it looks at a number, say, which cannot be recorded
            self._given_up = True
            warnings.warn(
                f"an update of {self.learner.config.algorithm.name} cannot be recorded as a CUDA "
                f"graph, so its operations are asked for one by one: {_first_line(error)} "
                "record_updates=False does not try it.",
                stacklevel=2,
            )
        return self._recorded.get(shapes)


class Recorded:
    """One update, recorded for rows of some shapes."""

    def __init__(
        self, learner: TorchLearner, cuda: Any, rows: Rows, chosen: torch.Tensor | None
    ) -> None:
        self.learner = learner
        (part,) = parts_of([rows], chosen)
        self.rows = Rows({name: torch.empty_like(column) for name, column in part.items()})
        """where the recorded operations look for them"""
        self._copy(rows, chosen)
        self.single: list[str] = []
        """figures of one number each"""
        self.others: Figures = {}
        """figures of rows, and plain ones"""
        learner.rates.recording, learner.rates.recorded = True, []
        try:
            self.numbers, self._replay = cuda.record(self._update)
        finally:
            learner.rates.recording = False
        self.trained = tuple(learner.rates.recorded)
        """the optimisers that made a step"""

    def _update(self) -> torch.Tensor:
        figures, size = self.learner.update_once([self.rows])
        self.single = [name for name, value in figures.items() if _is_number(value)]
        self.others = {n: value for n, value in figures.items() if n not in self.single}
        numbers = [size, *[figures[name] for name in self.single]]
        return torch.stack([number.reshape(()).float() for number in numbers])

    def _copy(self, rows: Rows, chosen: torch.Tensor | None) -> None:
        whole = rows_of.time_major(rows)
        for name, own in self.rows.items():
            if chosen is None:
                own.copy_(rows[name])
            else:
                axis = 1 if whole and name not in TIMELESS else 0
                torch.index_select(rows[name], axis, chosen, out=own)

    def repeat(self, rows: Rows, chosen: torch.Tensor | None) -> tuple[Figures, Any]:
        """The update, from other rows of the same shapes."""
        self._copy(rows, chosen)
        for name in self.trained:
            self.learner.rate_there(name)
        self._replay()
        size, *numbers = self.numbers.clone().unbind()
        figures: Figures = dict(zip(self.single, numbers, strict=True))
        for name, value in self.others.items():
            figures[name] = value.clone() if isinstance(value, torch.Tensor) else value
        return figures, size


def shapes_of(rows: Rows, chosen: torch.Tensor | None) -> Shapes:
    """Of the rows that are learned from; `chosen` says only how many there are."""
    whole = rows_of.time_major(rows)
    count = None if chosen is None else chosen.shape[0]  # `len` of a tensor takes its time
    shapes = []
    for name, column in rows.items():
        shape = list(column.shape)
        if count is not None:
            shape[1 if whole and name not in TIMELESS else 0] = count
        shapes.append((name, tuple(shape), column.dtype))
    return tuple(shapes)


def _is_number(figure: Any) -> bool:
    return isinstance(figure, torch.Tensor) and figure.ndim == 0


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(". ") + "."
