"""Errors of user code keep their type, wherever the code ran."""

import json

import pytest

import rillflow as rf
from rillflow.testing import flow_of


class TwoArgumentsError(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code


class UnpicklableError(Exception):
    def __init__(self):
        super().__init__("cannot travel")
        self.lock = lambda: None
        self.generator = (x for x in ())


def raising(make):
    def broken(_):
        raise make()

    return broken


KINDS = [
    (ValueError, lambda: ValueError("bad")),
    (KeyError, lambda: KeyError("missing")),
    (IndexError, lambda: IndexError(3)),
    (FileNotFoundError, lambda: FileNotFoundError(2, "No such file", "x.txt")),
    (UnicodeDecodeError, lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte")),
    (TwoArgumentsError, lambda: TwoArgumentsError(7, "broken")),
    (json.JSONDecodeError, lambda: json.JSONDecodeError("bad", "{", 0)),
    (NotImplementedError, lambda: NotImplementedError()),
    (rf.NotReady, lambda: rf.NotReady()),
]


@pytest.mark.parametrize("where", ["actor", "driver"])
@pytest.mark.parametrize(("kind", "make"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_type_is_kept(kind, make, where):
    """`except OriginalType` works as if the code had run in place, and OperatorError as well."""
    if where == "actor":
        flow = rf.from_items([1], 1).for_each(raising(make)).gather_sync()
    else:
        flow = flow_of([1]).for_each(raising(make))
    with pytest.raises(kind) as caught:
        flow.take(1, engine="sim")
    assert isinstance(caught.value, rf.OperatorError)
    assert "for_each(broken)" in str(caught.value)


def test_unpicklable_error_is_told_as_text(engine):
    """An exception that cannot travel is still named, with its message and line."""
    flow = rf.from_items([1], 1).for_each(raising(UnpicklableError)).gather_sync()
    with pytest.raises(rf.OperatorError, match="UnpicklableError: cannot travel") as caught:
        flow.take(1, engine=engine)
    assert "raise make()" in str(caught.value)


def test_local_class_travels(engine):
    """An exception class defined in a function keeps its type across processes."""

    class MineError(Exception):
        pass

    def broken(_):
        raise MineError("own")

    flow = rf.from_items([1], 1).for_each(broken).gather_sync()
    with pytest.raises(rf.OperatorError, match="MineError: own"):
        flow.take(1, engine=engine)


def test_keyboard_interrupt_is_not_caught():
    """Ctrl-C in an operator is Ctrl-C."""

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow_of([1]).for_each(interrupt).take(1, engine="sim")
