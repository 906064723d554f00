"""Every error rillflow raises, named by the phase in which it is found.

    RillflowError
    ├── BuildError            a wrong argument while a flow is being written
    │   └── TypeMismatch      two neighbouring operators whose annotated types disagree
    ├── CheckError            a flow that cannot work, found before anything starts
    └── RunError              something happened while a flow was running
        ├── OperatorError     user code raised (also an instance of the original exception's type)
        ├── ActorStartError   the constructor of an actor raised
        ├── WorkerLost        an actor's process died, hung, or was killed
        ├── DeviceLost        a GPU failed under a process, which cannot use it any more
        ├── DeadlockError     nothing can ever happen again in this run
        └── EngineError       the engine itself cannot do what was asked

Messages state the rule, the offender and the way out.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E", bound="RillflowError")


class RillflowError(Exception):
    """Base class of everything rillflow raises on purpose."""


class BuildError(RillflowError, ValueError):
    """A wrong argument while a flow is being written."""


class TypeMismatch(BuildError):  # noqa: N818 - what it is, not that it is an error
    """Two neighbouring operators whose annotated types are known to disagree."""


class CheckError(RillflowError):
    """A flow that cannot work; `problems` lists every reason found."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        head = (
            "this flow cannot run"
            if len(problems) == 1
            else f"this flow has {len(problems)} problems"
        )
        super().__init__(head + ":\n" + "\n".join(f"  - {problem}" for problem in problems))


class RunError(RillflowError):
    """Something happened while a flow was running."""


class DeadlockError(RunError):
    """Nothing can ever happen again in this run."""


class EngineError(RunError):
    """The engine itself cannot do what was asked."""


class WorkerLost(RunError):  # noqa: N818 - what it is, not that it is an error
    """An actor's process died, hung, or was killed."""


class DeviceLost(RunError):  # noqa: N818 - what it is, not that it is an error
    """A GPU failed under a process, which cannot use it any more: only a new process can."""


class EndOfStream(Exception):  # noqa: N818 - a signal, like StopIteration
    """Raised by a source actor's method to say: this shard has no more items.

    `StopIteration` from user code is an error, never the end of a stream.
    """


class NotReady(Exception):  # noqa: N818 - a signal, like StopIteration
    """Raised by a source actor's method to say: nothing yet, ask again after my next message.

    The scheduler parks the shard and asks again when a message has been sent to the actor,
    so that a replay buffer below `learning_starts` costs nothing. Users never see it.
    """


class Recycle(Exception):  # noqa: N818 - a signal, like StopIteration
    """Raised by an actor's method to say: make me anew, for a reason that is no failure.

    An actor that has grown too large says so before it begins its next item: the request is asked
    of its next incarnation, at once, and no limit of restarts counts it.
    """


@dataclass(frozen=True)
class UserFailure:
    """An exception of user code as plain data, so that it survives any process boundary."""

    type_name: str
    message: str
    frame: str
    """the user's own line: file, line number, function and source text; empty if there is none"""
    traceback: str
    pickled: bytes | None = None
    """the exception's class, arguments and attributes, when they can be pickled"""
    operator: str = ""
    """label of the operator inside the actor that raised, empty for the actor's own method"""


def describe_exception(error: BaseException, operator: str = "") -> UserFailure:
    """Turn a caught exception into data that can cross a process boundary; never raises."""
    return UserFailure(
        type_name=type(error).__name__,
        message=_message(error),
        frame=_told(lambda: user_frame(error)),
        traceback=_told(lambda: "".join(traceback.format_exception(error))),
        pickled=_pickled(error),
        operator=operator,
    )


def _message(error: BaseException) -> str:
    """What an exception says of itself, or that it cannot."""
    try:
        return str(error)
    except BaseException as refused:  # the exception's own code may raise anything
        return f"(its message cannot be read: str() raised {type(refused).__name__})"


def _told(describe: Callable[[], str]) -> str:
    """A description, or none where the exception's own code gets in the way."""
    try:
        return describe()
    except BaseException:  # as above
        return ""


def _pickled(error: BaseException) -> bytes | None:
    """The exception's class, arguments and attributes; None: only its text can travel."""
    import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps((type(error), error.args, vars(error)))
    except BaseException:  # any class may refuse to be pickled; the text is kept
        return None
    return pickled if _rebuild(pickled) is not None else None


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple(
    path
    for path in {sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib")}
    if path
)


def user_frame(error: BaseException) -> str:
    """The deepest frame of the traceback that is the user's own code, as text.

    An error of ours about user code has that code's exception as its cause: then it is looked for
    there. Libraries are the second choice; what is only our own code is nobody's line.
    """
    others: list[traceback.FrameSummary] = []
    here: BaseException | None = error
    while here is not None:
        frames = traceback.extract_tb(here.__traceback__)
        foreign = [f for f in frames if not _is_ours(f.filename)]
        own = [f for f in foreign if not f.filename.startswith(_LIBRARIES)]
        if own:
            return _frame_text(own[-1])
        others = foreign or others
        here = here.__cause__
    return _frame_text(others[-1]) if others else ""


def _is_ours(filename: str) -> bool:
    # what our checks of engines do stands for what users do
    checks = os.path.join(_PACKAGE, "testing")
    return filename.startswith(_PACKAGE) and not filename.startswith(checks)


def _frame_text(frame: traceback.FrameSummary) -> str:
    line = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{frame.filename}:{frame.lineno} in {frame.name}\n    {line}"


class OperatorError(RunError):
    """User code raised inside an operator or an actor.

    The class actually raised also inherits from the original exception's type where Python
    allows it, so `except ValueError` works as if the code had run in place.
    """

    operator: str
    actor: str | None
    failure: UserFailure

    @staticmethod
    def build(
        failure: UserFailure,
        operator: str,
        actor: str | None,
        original: BaseException | None = None,
    ) -> OperatorError:
        """The error to raise for `failure`, naming the operator path and the user's frame."""
        where = f" in actor {actor!r}" if actor else ""
        text = f"{failure.type_name}: {failure.message}\n"
        if failure.frame and "  your code: " not in failure.message:
            text += f"  your code: {failure.frame}\n"
        text += f"  operator:  {operator}{where}"
        if actor:
            text += "\n  remote traceback:\n" + "".join(
                f"    {line}\n" for line in failure.traceback.rstrip().splitlines()
            )
        original = original or _rebuild(failure.pickled)
        error = dual_error(OperatorError, text, original)
        error.operator, error.actor, error.failure = operator, actor, failure
        error.__cause__ = original
        return error


class ActorStartError(OperatorError):
    """The constructor of an actor raised."""

    @staticmethod
    def of(failure: UserFailure, operator: str, actor: str | None) -> ActorStartError:
        """As `OperatorError.build`, saying that the constructor is to blame."""
        error = OperatorError.build(failure, f"{operator} (constructor)", actor)
        started = dual_error(ActorStartError, str(error), error.__cause__)
        started.operator, started.actor, started.failure = operator, actor, failure
        started.__cause__ = error.__cause__
        return started


def _rebuild(data: bytes | None) -> BaseException | None:
    """The exception, made without calling a constructor that may want other arguments.

    None where its class cannot be imported here, or will not be made this way.
    """
    import cloudpickle

    if data is None:
        return None
    try:
        kind, args, attributes = cloudpickle.loads(data)
        error: BaseException = kind.__new__(kind, *args)
        error.args = args
        error.__dict__.update(attributes)
    except BaseException:  # user code runs here, and may raise anything
        return None
    return error


def dual_error(base: type[E], text: str, original: BaseException | None) -> E:
    """An error of ours that is also an instance of the original's class, if Python allows it.

    A StopIteration must never be re-raised as one: it would end the user's own loop.
    """
    if original is not None and isinstance(original, Exception):
        cls = type(original)
        if not issubclass(cls, StopIteration | StopAsyncIteration | base):
            try:
                body = {"__str__": lambda self: str(self.args[0])}  # KeyError would quote it
                dual: Any = type(f"{base.__name__}[{cls.__name__}]", (base, cls), body)
                error: E = dual.__new__(dual, text)
                Exception.__init__(error, text)
                error.__dict__.update(getattr(original, "__dict__", {}))
                if str(error) == text:
                    return error
            except Exception:  # a class may refuse to be derived from, or to be made, in any way
                return base(text)
    return base(text)
