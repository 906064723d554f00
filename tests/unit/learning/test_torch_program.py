"""What is asked of torch is written down, and repeated without what nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rillflow.learning import torch_recording
from rillflow.learning.torch_program import Program, name_of
from rillflow.learning.torch_recording import Act, Recorder, drawn, recorder_at_work


def recorded(work: Callable[[], Any]) -> Program:
    """A program that repeats the work, and gives its results."""
    with Recorder() as recorder:
        given = work()
    assert recorder.refused is None
    given = given if isinstance(given, tuple) else (given,)
    return Program(recorder, [recorder.place(tensor) for tensor in given])


def names(program: Program) -> list[str]:
    return [one.what.label if isinstance(one.what, Act) else name_of(one.what)
            for one in program.calls]  # fmt: skip


def test_a_program_computes_from_what_is_there_then() -> None:
    x = torch.arange(6.0)

    def work() -> Tensor:
        rows = x.view(2, 3)
        return (rows.mT @ rows).relu().sum(0)

    program = recorded(work)
    x.copy_(torch.randn(6))
    torch.testing.assert_close(program()[0], work(), rtol=0, atol=0)


def test_gradients_are_computed_without_autograd() -> None:
    w = torch.randn(3, requires_grad=True)
    x = torch.randn(5, 3)

    def work() -> Tensor:
        return torch.autograd.grad((x @ w).tanh().square().sum(), w)[0]

    program = recorded(work)
    x.copy_(torch.randn(5, 3))
    with torch.no_grad():
        w.mul_(2)
    (found,) = program()
    assert not found.requires_grad
    torch.testing.assert_close(found, work(), rtol=0, atol=0)
    assert "ones_like" not in names(program), "what is the same each time was computed once"
    assert "detach" not in names(program), "views are not asked for"


def test_what_nobody_needs_is_left_out() -> None:
    x = torch.randn(4)

    def work() -> Tensor:
        (x.exp() * 2).sum()
        return x + 1

    assert names(recorded(work)) == ["add"]


def test_what_is_written_outside_is_needed() -> None:
    x, count = torch.randn(4), torch.zeros(())

    def work() -> Tensor:
        count.add_(x.exp().sum())
        return x + 1

    program = recorded(work)
    before = float(count)
    program()
    assert float(count) == pytest.approx(2 * before)
    assert [one.data_ptr() for one in program.changes] == [count.data_ptr()]


def test_to_write_a_program_changes_nothing_outside() -> None:
    """What is tried while it is written is not what changes something."""
    x, kept = torch.randn(8, 3), torch.zeros(3)

    def work() -> Tensor:
        kept.lerp_(x.mean(0), 0.5)
        torch._foreach_add_([kept], 1)
        return kept * 2

    program = recorded(work)
    before = kept.clone()
    assert torch.equal(before, 0.5 * x.mean(0) + 1)
    (found,) = program()
    torch.testing.assert_close(found, 2 * (0.5 * before + 0.5 * x.mean(0) + 1))


def test_statistics_that_change_unsaid_are_refused() -> None:
    x, mean, variance = torch.randn(8, 3), torch.zeros(3), torch.ones(3)
    with Recorder() as recorder:
        torch.nn.functional.batch_norm(x, mean, variance, training=True)
    assert "does not say" in str(recorder.refused)


def test_one_block_of_memory_serves_one_result_after_another() -> None:
    x = torch.randn(1000)

    def work() -> Tensor:
        y = x
        for _ in range(20):
            y = (y.sin() + x).cos()
        return y

    program = recorded(work)
    x.copy_(torch.randn(1000))
    torch.testing.assert_close(program()[0], work(), rtol=0, atol=0)
    assert program.memory.bytes <= 2 * x.untyped_storage().nbytes()


def test_a_result_that_is_read_again_is_not_written_over() -> None:
    x = torch.randn(8)

    def work() -> tuple[Tensor, Tensor]:
        y = x.exp()
        z = y * 2
        half = y[:4]
        w = z.neg()
        y.add_(1)
        return half + w[4:], z

    program = recorded(work)
    x.copy_(torch.randn(8))
    for found, wanted in zip(program(), work(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_results_that_lie_somewhere_else_each_time() -> None:
    """Operators with several results, lists of them, and views of those."""
    x = torch.randn(6, 2)

    def work() -> Tensor:
        best, at = x.max(0)
        lengths = torch._foreach_norm([best, x])
        top = x.flatten().topk(4).values.view(2, 2).mT
        return torch.stack(lengths) + at + top

    program = recorded(work)
    for _ in range(2):
        x.copy_(torch.randn(6, 2))
        torch.testing.assert_close(program()[0], work(), rtol=0, atol=0)


def test_numbers_are_drawn_anew() -> None:
    """From torch's generator and from another; also where nobody needs them."""
    drawn_by: list[float] = []

    def draw(out: Any) -> None:
        drawn_by.append(len(drawn_by))
        out[:] = drawn_by[-1]

    def work() -> Tensor:
        torch.rand(3)
        return torch.rand(2) + drawn(draw, (2,))

    torch.manual_seed(0)
    program = recorded(work)
    found = program()[0].clone()
    torch.manual_seed(0)
    for number in range(2):
        torch.rand(3)
        wanted = torch.rand(2) + number
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert drawn_by == [0, 1]


def test_an_act_is_done_where_a_number_is_finite() -> None:
    x, done = torch.ones(2), []

    def work() -> Tensor:
        recorder = recorder_at_work()
        assert recorder is not None
        size = x.sum()
        with recorder.only_if_finite(size) as finite:
            assert finite
            recorder.act(Act("keep", lambda reads, _: done.append(float(reads[0][0]))), [x * 3], [])
        return size

    program = recorded(work)
    for value in (2.0, float("nan"), 4.0):
        x.fill_(value)
        program()
    assert done == [3.0, 6.0, 12.0]


@pytest.mark.parametrize(
    "looks",
    [
        lambda x: float(x.sum()),
        lambda x: bool(x.sum() > 0),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: torch.equal(x, x + 1),
        lambda x: x.sum().item(),
    ],
)
def test_what_looks_at_numbers_is_refused_and_done(looks: Any) -> None:
    x = torch.randn(5)
    with Recorder() as recorder:
        y = x * 2
        found = looks(y)
        y.add_(1)
    assert "looks at numbers" in str(recorder.refused)
    assert recorder.calls == []
    wanted = looks(x * 2)
    assert torch.equal(found, wanted) if isinstance(found, Tensor) else found == wanted


def test_indices_that_are_numbers_are_not_looked_at() -> None:
    x, at = torch.randn(5), torch.tensor([3, 1])
    program = recorded(lambda: x[at] * 2)
    at.copy_(torch.tensor([0, 4]))
    torch.testing.assert_close(program()[0], x[at] * 2)


def test_what_takes_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_recording, "MOST_BYTES", 2000)
    x = torch.randn(400)
    with Recorder() as recorder:
        y = x * 2 + 1
    assert "takes more than" in str(recorder.refused)
    torch.testing.assert_close(y, x * 2 + 1)


def test_nobody_records_outside() -> None:
    with Recorder() as recorder:
        assert recorder_at_work() is recorder
    assert recorder_at_work() is None
    with pytest.raises(ValueError, match="mine"), Recorder():
        raise ValueError("mine")
    assert recorder_at_work() is None
