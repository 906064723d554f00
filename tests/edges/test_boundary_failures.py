"""Whatever user code raises in an actor is a failure of that code, wherever the actor lives."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.edges.parts import (
    ANYWHERE,
    Numbered,
    Sink,
    Slowly,
    Trouble,
    Troubled,
    Unloadable,
    lost,
    messages,
)

pytestmark = pytest.mark.timeout(20)

any_trouble = pytest.mark.parametrize("trouble", ANYWHERE)
some_trouble = pytest.mark.parametrize("trouble", ["SystemExit", "Unspeakable", "Foreign"])


def troubled(placement: str, trouble: str, *args: Any, **options: Any) -> rf.Actors:
    return rf.Actors.of(Troubled, 1, trouble, *args, placement=placement, **options)


def check_error(error: BaseException, trouble: str, operator: str, actor: str | None) -> None:
    """An error of ours that names what was raised and where, and ends nobody's program."""
    assert isinstance(error, rf.OperatorError)
    assert isinstance(error, Exception)
    assert not isinstance(error, rf.WorkerLost | SystemExit | GeneratorExit | KeyboardInterrupt)
    assert trouble in str(error)
    assert operator in error.operator
    assert error.actor == actor


# -- requests --------------------------------------------------------------------------------------


@any_trouble
def test_what_a_source_raises_is_raised_as_an_error_of_its_operator(place, trouble):
    """Under `raise` the error names the source and its actor, and the next item comes after it."""
    engine, placement = place
    flow = rf.from_actors(troubled(placement, trouble)).gather_async()
    with flow.run(engine) as run:
        assert next(run) == 0
        with pytest.raises(rf.OperatorError) as caught:
            next(run)
        check_error(caught.value, trouble, "from_actors(Troubled.next)", "troubled-0")
        assert [next(run), next(run)] == [2, 3]
        (line,) = run.ledger().balances()
        assert line.dropped == {"error": 1}
        assert line.balanced


@any_trouble
def test_what_a_source_raises_is_dropped(place, trouble):
    """Under `drop` the item is counted and the next one comes, from the same incarnation."""
    engine, placement = place
    flow = rf.from_actors(troubled(placement, trouble, on_failure="drop")).gather_sync()
    with flow.run(engine) as run:
        assert list(islice(run, 3)) == [[0], [2], [3]]
        worker = run.workers()["troubled-0"]
        assert (worker["incarnation"], worker["errors"]) == (0, 1)
        (line,) = run.ledger().balances()
        assert line.dropped == {"error": 1}


@some_trouble
def test_what_an_operator_in_an_actor_raises_names_that_operator(place, trouble):
    """The path leads to the operator inside the actor, and the next item comes after it."""
    engine, placement = place
    numbers = rf.from_range(4, 1, placement=placement)
    flow = numbers.for_each(Trouble(trouble), name="trouble").gather_async()
    with flow.run(engine) as run:
        assert next(run) == 0
        with pytest.raises(rf.OperatorError) as caught:
            next(run)
        check_error(caught.value, trouble, "trouble", "range-0")
        assert list(run) == [2, 3]
        assert run.ledger().balanced


@some_trouble
@pytest.mark.parametrize("policy", ["retry", "restart"])
def test_what_a_source_raises_meets_the_other_policies(place, trouble, policy):
    """A retry is a new request, a restart a new incarnation, whatever was raised."""
    engine, placement = place
    flow = rf.from_actors(troubled(placement, trouble, on_failure=policy)).gather_async()
    with flow.run(engine) as run:
        expected = [0, 2, 3] if policy == "retry" else [0, 0, 0]
        assert list(islice(run, 3)) == expected
        assert run.ledger().balanced


@pytest.mark.proc
@pytest.mark.parametrize("placement", ["process", "thread"])
@pytest.mark.parametrize("policy", ["raise", "drop"])
def test_an_interrupt_raised_in_an_actor_of_its_own_is_an_error_of_its_operator(placement, policy):
    """A KeyboardInterrupt that user code raises elsewhere is not the user's own."""
    actors = troubled(placement, "KeyboardInterrupt", on_failure=policy)
    with rf.from_actors(actors).gather_async().run("local") as run:
        assert next(run) == 0
        if policy == "raise":
            with pytest.raises(rf.OperatorError) as caught:
                next(run)
            check_error(caught.value, "KeyboardInterrupt", "Troubled.next", "troubled-0")
        assert [next(run), next(run)] == [2, 3]


@pytest.mark.parametrize("where", ["source", "operator"])
def test_an_interrupt_on_sim_reaches_the_user_and_the_flow_goes_on(where):
    """Actors of `sim` live in the driver: Ctrl-C in their code is Ctrl-C, and nothing is stuck."""
    if where == "source":
        flow = rf.from_actors(troubled("process", "KeyboardInterrupt")).gather_async()
    else:
        flow = rf.from_range(9, 1).for_each(Trouble("KeyboardInterrupt")).gather_async()
    with flow.run("sim") as run:
        assert next(run) == 0
        with pytest.raises(KeyboardInterrupt):
            next(run)
        assert [next(run), next(run)] == [2, 3]
        assert run.ledger().balanced


# -- background operators and routed maps ----------------------------------------------------------


def learner(fn: Any, placement: str, **options: Any) -> rf.Flow[Any]:
    background = rf.Background(fn, name="learner", placement=placement, **options)
    feed = flow_of([0, 1, 2]).for_each(rf.Enqueue(background.inqueue))
    return rf.Concurrently(
        [feed, rf.Dequeue(background.outqueue)], mode="async", output_indexes=[1]
    )


def everything(run: rf.Run[Any]) -> tuple[list[Any], list[rf.OperatorError]]:
    """All items of a run that ends, and the errors in between."""
    items: list[Any] = []
    errors: list[rf.OperatorError] = []
    while True:
        try:
            items.append(next(run))
        except StopIteration:
            return items, errors
        except rf.OperatorError as error:
            errors.append(error)


@some_trouble
@pytest.mark.parametrize("policy", ["raise", "drop"])
def test_what_a_background_operator_raises_is_an_error_of_the_background(place, trouble, policy):
    """A learner that raises anything at all has failed with that item, and goes on."""
    engine, placement = place
    with learner(Trouble(trouble), placement, on_failure=policy).run(engine) as run:
        items, errors = everything(run)
        assert items == [0, 2]
        for error in errors:
            check_error(error, trouble, "background(learner)", "learner-0")
        assert len(errors) == (policy == "raise")
        assert run.ledger().balanced


class Signals:
    """A callable that raises, in place of item 1, what only a source may say."""

    def __init__(self, signal: type[Exception]) -> None:
        self.signal = signal

    def __call__(self, item: int) -> int:
        if item == 1:
            raise self.signal
        return item


@pytest.mark.parametrize("signal", [rf.NotReady, rf.EndOfStream])
def test_a_background_operator_is_no_source(place, signal):
    """NotReady and EndOfStream in a background operator are errors, never items, never the end."""
    engine, placement = place
    with learner(Signals(signal), placement).run(engine) as run:
        items, errors = everything(run)
        assert items == [0, 2]
        assert [signal.__name__ in str(error) for error in errors] == [True]
        assert "background(learner)" in errors[0].operator
        assert run.ledger().balanced


@pytest.mark.parametrize("signal", [rf.NotReady, rf.EndOfStream])
def test_a_routed_map_is_no_source(engine, signal):
    """The same for a map that is spread over helpers."""
    flow = rf.from_range(3, 1).for_each(Signals(signal), max_concurrency=2).gather_async()
    with flow.run(engine) as run:
        items, errors = everything(run)
        assert sorted(items) == [0, 2]
        assert [signal.__name__ in str(error) for error in errors] == [True]
        assert run.ledger().balanced


# -- messages, calls, constructors, pipelines ------------------------------------------------------


@some_trouble
def test_what_a_message_handler_raises_is_raised_once(place, trouble):
    """The actor lives on, knows what it knew, and the message is counted as lost."""
    engine, placement = place
    actors = troubled(placement, trouble, 1000)
    with rf.from_actors(actors).gather_async().run(engine) as run:
        assert next(run) == 0
        run.send(actors, "fail")
        with pytest.raises(rf.OperatorError) as caught:
            list(islice(run, 500))
        check_error(caught.value, trouble, "fail", "troubled-0")
        last = next(run)
        assert [next(run), next(run)] == [last + 1, last + 2]
        assert run.workers()["troubled-0"]["incarnation"] == 0
        assert lost(messages(run, "troubled")) == {"error": 1}


@any_trouble
def test_what_a_call_raises_is_raised_there(place, trouble):
    """`run.call` raises an error that names the method; the actor lives on."""
    engine, placement = place
    actors = troubled(placement, trouble, 1000)
    with rf.from_actors(actors).gather_sync().run(engine) as run:
        assert next(run) == [0]
        with pytest.raises(rf.OperatorError) as caught:
            run.call(actors[0], "fail")
        check_error(caught.value, trouble, "", "troubled-0")
        assert "in fail" in str(caught.value)
        assert next(run) == [1]
        assert run.workers()["troubled-0"]["incarnation"] == 0


@pytest.mark.parametrize("policy", ["raise", "drop", "retry", "restart", "shrink"])
def test_a_mistyped_call_destroys_nobody(engine, policy):
    """Under every policy it is an AttributeError of the call, and the actor keeps what it knows."""
    sinks = rf.Actors.of(Sink, 2, name="sink", on_failure=policy)
    with rf.from_actors(sinks, "count").gather_sync().run(engine) as run:
        run.send(sinks, "add", 7)
        next(run)
        with pytest.raises(AttributeError, match="nmubers") as caught:
            run.call("sink-0", "nmubers")
        assert isinstance(caught.value, rf.OperatorError)
        with pytest.raises(LookupError, match="cannot be handled"):
            run.call("sink-0", "fail")
        assert [run.call(sink, "numbers") for sink in sinks] == [[7], [7]]
        assert next(run) == [("sink-0", 1), ("sink-1", 1)]
        workers = run.workers().values()
        assert [(w["status"], w["incarnation"]) for w in workers] == [("live", 0)] * 2


def test_a_mistyped_message_destroys_nobody(engine):
    """A message that no method handles is an AttributeError, raised by the next pull."""
    sinks = rf.Actors.of(Sink, 1, name="sink", on_failure="restart")
    with rf.from_actors(sinks, "count").gather_async().run(engine) as run:
        run.send(sinks, "add", 7)
        run.send(sinks, "dad", 8)
        with pytest.raises(AttributeError, match="dad"):
            list(islice(run, 500))
        assert run.call("sink-0", "numbers") == [7]
        assert run.workers()["sink-0"]["incarnation"] == 0


@any_trouble
def test_what_a_constructor_raises_is_a_start_error(place, trouble):
    """An actor that cannot be built says so, whatever its constructor raised."""
    engine, placement = place
    broken = rf.from_actors(troubled(placement, trouble, -1, name="broken")).gather_async()
    whole = rf.from_actors(rf.Actors.of(Numbered, 1, name="whole")).gather_async()
    with rf.Union(broken, whole, weights=[1, 1]).run(engine) as run:
        with pytest.raises(rf.ActorStartError) as caught:
            next(run)
        assert trouble in str(caught.value)
        assert "broken" in str(caught.value)
        assert next(run)[0] == "whole-0"


def test_an_operator_that_cannot_be_read_in_the_actor_is_an_error(place):
    """Code that arrives broken is an error with the text of what went wrong."""
    engine, placement = place
    flow = rf.from_range(4, 1, placement=placement).for_each(Unloadable()).gather_async()
    with flow.run(engine) as run, pytest.raises(rf.OperatorError, match="no such level"):
        next(run)


# -- deadlines -------------------------------------------------------------------------------------


@pytest.mark.proc
@pytest.mark.parametrize("placement", ["process", "thread"])
def test_the_deadline_of_a_request_does_not_run_during_the_constructor(placement):
    """A constructor may take longer than a request may."""
    policy = rf.FailurePolicy(on_lost="restart", timeout=1.0, max_restarts=1)
    actors = rf.Actors.of(Slowly, 1, 2.5, placement=placement, on_failure=policy)
    with rf.from_actors(actors).gather_async(num_async=2).run("local") as run:
        assert [next(run), next(run)] == [(0, 1), (0, 2)]
        assert run.workers()["slowly-0"]["restarts"] == 0


# -- the streams of a worker process ---------------------------------------------------------------


class Speaks:
    """Uses its standard streams as libraries do."""

    def next(self) -> Any:
        import sys

        facts = []
        for stream in (sys.stdout, sys.stderr):
            facts.append((stream.encoding, stream.errors is None, stream.isatty()))
            stream.buffer.write(b"by bytes\n")
            stream.buffer.flush()
            stream.write("by text\n")
            stream.writelines(["by ", "lines\n"])
            stream.flush()
        return facts


@pytest.mark.proc
def test_the_streams_of_an_actor_have_an_encoding_and_a_buffer(capfd):
    """What is written as text and as bytes reaches the terminal."""
    flow = rf.from_actors(rf.Actors.of(Speaks, 1, name="speaks")).gather_sync().flatten()
    (facts,) = flow.take(1, engine="local")
    assert [(encoding.lower(), no_errors) for encoding, no_errors, _ in facts] == [
        ("utf-8", False),
        ("utf-8", False),
    ]
    for text in capfd.readouterr():
        assert [line.removeprefix("(speaks-0) ") for line in text.splitlines()] == [
            "by bytes",
            "by text",
            "by lines",
        ]
        assert f"(speaks-0) by text{os.linesep}" in text
