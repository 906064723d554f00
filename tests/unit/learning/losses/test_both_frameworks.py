"""Every primitive in NumPy gives torch's values and gradients, in float32, with and without masks.

Each case lists its arguments, those that are learned first in `learned`; the rest are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rillflow.learning import losses
from rillflow.learning.tape import Tape, Var
from tests.unit.learning.losses.parts import few, seeds

Random = np.random.Generator
Shape = tuple[int, ...]


@dataclass
class Case:
    """How to call a primitive with random arguments."""

    arguments: Callable[[Random, Shape], dict[str, Any]]
    """from a shape: that of one number per step"""
    learned: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    rank: int | None = None
    """axes that the shape must have; None: any number"""
    masked: bool = False


def normal(*names: str) -> Callable[[Random, Shape], dict[str, Any]]:
    """Arrays of normal numbers, one per step."""
    return lambda random, shape: {name: floats(random, *shape) for name in names}


def floats(random: Random, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def rows(*names: str, a: int = 4) -> Callable[[Random, Shape], dict[str, Any]]:
    """Arrays [..., A]."""
    return lambda random, shape: {name: floats(random, *shape, a) for name in names}


def q_rows(*following: str) -> Callable[[Random, Shape], dict[str, Any]]:
    def make(random: Random, shape: Shape) -> dict[str, Any]:
        made = {"q_tm1": floats(random, *shape, 3), "a_tm1": random.integers(0, 3, shape)}
        made |= normal("r_t", "discount_t")(random, shape)
        return made | rows(*following, a=3)(random, shape)

    return make


def steps(*names: str) -> Callable[[Random, Shape], dict[str, Any]]:
    """Episodes that end anywhere [T, B], for either reason, or not at all, or in each row."""

    def make(random: Random, shape: Shape) -> dict[str, Any]:
        ended = random.random(shape) < random.choice([0, 0.3, 1])
        terminated = ended & (random.random(shape) < random.choice([0.5, 1]))
        made = {name: floats(random, *shape) for name in ("log_rhos", "r_t", "v_tm1", "v_t")}
        made |= {"ended_t": ended, "terminated_t": terminated}
        made["discount_t"] = np.where(terminated, 0, 0.9).astype(np.float32)
        made["bootstrap_value"] = floats(random, shape[-1])
        return {name: made[name] for name in names}

    return make


def ensemble(*others: str, k: int = 3) -> Callable[[Random, Shape], dict[str, Any]]:
    return lambda random, shape: {"q": floats(random, k, *shape), **normal(*others)(random, shape)}


def atoms(*others: str) -> Callable[[Random, Shape], dict[str, Any]]:
    """Logits of five atoms for each of three actions [N, 3, 5]."""

    def make(random: Random, shape: Shape) -> dict[str, Any]:
        chances = np.exp(floats(random, *shape, 5))
        made = {name: floats(random, *shape, 3, 5) for name in ("logits", "logits_tm1", "logits_t")}
        made |= normal("r_t", "discount_t")(random, shape) | rows("q_t_selector", a=3)(
            random, shape
        )
        made["a_tm1"] = random.integers(0, 3, shape)
        made["target"] = chances / chances.sum(-1, keepdims=True)
        return {name: made[name] for name in others}

    return make


TRACE = ("log_rhos", "r_t", "discount_t", "v_tm1", "v_t", "ended_t")


def drawn(random: Random, shape: Shape) -> dict[str, Any]:
    """Two critics' values of five actions for each of N observations, and of the data's."""
    parts = {"q": (2, 5, *shape), "logp": (5, *shape), "q_data": (2, *shape)}
    return {name: floats(random, *size) for name, size in parts.items()}


CASES: dict[str, Case] = {
    "advantage_weights": Case(normal("advantages"), options={"beta": 1.5, "most": 2.0}),
    "expectile_loss": Case(normal("v", "target"), ("v",), {"tau": 0.7}),
    "conservative_loss": Case(drawn, ("q", "q_data"), rank=1),
    "repeated": Case(rows("x"), options={"times": 3}, rank=1),
    "joined": Case(rows("a", "b"), rank=1),
    "policy_gradient_loss": Case(normal("logp", "advantages"), ("logp",), masked=True),
    "clipped_surrogate_loss": Case(
        normal("logp", "old_logp", "advantages"), ("logp",), {"clip": 0.2}, masked=True
    ),
    "clip_fraction": Case(normal("logp", "old_logp"), (), {"clip": 0.5}, masked=True),
    "approximate_kl": Case(normal("logp", "old_logp"), ("logp",), masked=True),
    "entropy_bonus": Case(normal("entropy"), ("entropy",), masked=True),
    "entropy_categorical": Case(rows("logits"), ("logits",)),
    "uniform_entropy": Case(lambda random, shape: {"mask": random.random((*shape, 4)) < 0.5}),
    "soft_value": Case(rows("logits", "q"), ("logits",), {"alpha": 0.3}),
    "entropy_gaussian": Case(rows("log_std"), ("log_std",)),
    "kl_categorical": Case(rows("logits_p", "logits_q"), ("logits_p", "logits_q")),
    "kl_gaussian": Case(
        rows("mean_p", "log_std_p", "mean_q", "log_std_q"),
        ("mean_p", "log_std_p", "mean_q", "log_std_q"),
    ),
    "masked_mean": Case(normal("x"), ("x",), masked=True),
    "mean": Case(normal("x"), ("x",), masked=True),
    "standardized": Case(normal("x")),
    "minimum": Case(normal("a", "b"), ("a", "b")),
    "lowest": Case(ensemble(), ("q",), rank=1),
    "value_loss": Case(normal("v", "target"), ("v",), masked=True),
    "clipped_value_loss": Case(normal("v", "old_v", "target"), ("v",), {"clip": 0.7}, masked=True),
    "huber": Case(normal("x"), ("x",), {"delta": 0.5}),
    "huber_loss": Case(normal("errors"), ("errors",)),
    "huber_loss weighted": Case(normal("errors", "weights"), ("errors",)),
    "td_loss": Case(normal("q", "target"), ("q",), rank=1),
    "td_loss weighted": Case(normal("q", "target", "weights"), ("q",), rank=1),
    "td_loss of an ensemble": Case(ensemble("target"), ("q",), rank=1),
    "td_loss weighted of an ensemble": Case(ensemble("target", "weights"), ("q",), rank=1),
    "td_target": Case(normal("rewards", "discount", "next_values")),
    "td_target by one discount": Case(normal("rewards", "next_values"), (), {"discount": 0.9}),
    "n_step_td_target": Case(normal("r_tn", "discount_tn", "v_tn")),
    "q_learning_td_error": Case(q_rows("q_t"), ("q_tm1",)),
    "double_q_td_error": Case(q_rows("q_t_target", "q_t_selector"), ("q_tm1",)),
    "q_of_taken": Case(
        lambda random, shape: rows("q")(random, shape) | {"actions": random.integers(0, 4, shape)},
        ("q",),
    ),
    "double_q_td_error rescaled": Case(
        q_rows("q_t_target", "q_t_selector"), ("q_tm1",), {"rescaling": 1e-2}
    ),
    "rescaled": Case(normal("x"), ("x",)),
    "rescaled by the root alone": Case(normal("x"), ("x",), {"epsilon": 0.0}),
    "unscaled": Case(normal("x"), ("x",)),
    "unscaled of the root alone": Case(normal("x"), ("x",), {"epsilon": 0.0}),
    "dueling": Case(
        lambda random, shape: normal("value")(random, shape) | rows("advantages")(random, shape),
        ("value", "advantages"),
    ),
    "expected_values": Case(atoms("logits"), ("logits",), {"v_min": -1.0, "v_max": 2.0}, rank=1),
    "categorical_target": Case(
        atoms("logits_t", "q_t_selector", "r_t", "discount_t"),
        (),
        {"v_min": -1.0, "v_max": 2.0},
        rank=1,
    ),
    "categorical_error": Case(atoms("logits_tm1", "a_tm1", "target"), ("logits_tm1",), rank=1),
    "discounted_returns": Case(steps("r_t", "discount_t", "bootstrap_value"), rank=2),
    "lambda_returns": Case(steps("r_t", "discount_t", "v_t", "ended_t"), (), {"lam": 0.8}, rank=2),
    "n_step_returns": Case(steps("r_t", "discount_t", "v_t", "ended_t"), (), {"n": 3}, rank=2),
    "gae": Case(
        steps("r_t", "v_tm1", "v_t", "terminated_t", "ended_t"),
        (),
        {"gamma": 0.9, "lam": 0.8},
        rank=2,
    ),
    "vtrace": Case(steps(*TRACE), rank=2),
    "vtrace with lambda": Case(
        steps(*TRACE), (), {"lam": 0.7, "clip_rho": 2.0, "clip_pg_rho": 1.5}, rank=2
    ),
}
MASKED = [name for name, case in CASES.items() if case.masked]
LEARNED = [name for name, case in CASES.items() if case.learned]
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


def compare(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a primitive in both frameworks; gradients in NumPy, if they are as in torch."""
    case, f = CASES[name], getattr(losses, name.split()[0])
    tape = Tape()
    ours = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
    theirs = {n: in_torch(x, n in case.learned) for n, x in arguments.items()}
    found, expected = f(**case.options | ours), f(**case.options | theirs)
    for our, their in zip(as_tuple(found), as_tuple(expected), strict=True):
        close(our.value if isinstance(our, Var) else our, their.detach().numpy())
    if case.learned:
        # a gradient may come as one number for all, or as one for each
        weights = np.linspace(0.5, 2, max(1, int(np.prod(found.shape))), dtype=np.float32)
        tape.backward((found * weights.reshape(found.shape)[()]).sum())
        (expected * torch.tensor(weights.reshape(found.shape))).sum().backward()
    assert [n for n, x in ours.items() if isinstance(x, Var)] == list(case.learned)
    gradients = {n: whole(ours[n]) for n in case.learned}
    for n, gradient in gradients.items():
        close(gradient, theirs[n].grad.numpy())
    return gradients


def in_torch(x: Any, learned: bool) -> Any:
    return torch.tensor(x, requires_grad=learned) if isinstance(x, np.ndarray) else x


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def whole(var: Var) -> Any:
    """A gradient with an entry for each entry of its var."""
    if isinstance(var.grad, np.ndarray):
        return var.grad
    return np.full(var.shape, var.grad, np.float32)


def close(found: Any, expected: Any) -> None:
    assert np.asarray(found).dtype == np.float32
    assert np.shape(found) == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def shaped(name: str, shape: Shape) -> Shape:
    rank = CASES[name].rank
    return shape if rank is None else (shape * 2)[:rank]


# --- all of them ---------------------------------------------------------------------------------


def test_every_public_loss_is_compared() -> None:
    public = {n for n in vars(losses) if callable(getattr(losses, n)) and not n.startswith("_")}
    assert {name.split()[0] for name in CASES} == public


@pytest.mark.parametrize("name", CASES)
@few
@given(seed=seeds, shape=SHAPES)
def test_values_and_gradients_are_those_of_torch(name: str, seed: int, shape: Shape) -> None:
    compare(name, CASES[name].arguments(np.random.default_rng(seed), shaped(name, shape)))


@pytest.mark.parametrize("name", MASKED)
@few
@given(seed=seeds, shape=SHAPES, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_masks_leave_out_the_same(name: str, seed: int, shape: Shape, share: float) -> None:
    """With a share of 0 nothing is left: both are 0, and so are the gradients."""
    random = np.random.default_rng(seed)
    arguments = CASES[name].arguments(random, shape)
    mask = random.random(shape) < share
    gradients = compare(name, arguments | {"mask": mask})
    for gradient in gradients.values():
        assert not gradient[~mask].any()


@pytest.mark.parametrize("name", MASKED)
def test_what_is_masked_out_need_not_be_finite(name: str) -> None:
    """Padding may hold anything: it shows in neither the value nor the gradient."""
    case, mask = CASES[name], np.array([True, False, True])
    arguments = case.arguments(np.random.default_rng(0), (3,))
    for x in arguments.values():
        x[1] = np.nan
    tape = Tape()
    ours = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
    found = getattr(losses, name)(**ours, **case.options, mask=mask)
    assert np.isfinite(float(found))
    if case.learned:
        tape.backward(found)
        assert np.isfinite(whole(ours[case.learned[0]])).all()


@pytest.mark.parametrize("name", LEARNED)
def test_a_gradient_may_be_one_number_for_all(name: str) -> None:
    """As that of a sum or a mean is, which sends one back: it counts for each entry."""
    case, f = CASES[name], getattr(losses, name.split()[0])
    arguments = case.arguments(np.random.default_rng(3), shaped(name, (4, 2)))
    for sum_up in (lambda x: x.sum(), lambda x: 3 * x.mean()):
        tape = Tape()
        ours = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
        theirs = {n: in_torch(x, n in case.learned) for n, x in arguments.items()}
        tape.backward(sum_up(f(**ours, **case.options)))
        sum_up(f(**theirs, **case.options)).backward()
        for n in case.learned:
            close(whole(ours[n]), theirs[n].grad.numpy())


@pytest.mark.parametrize("name", LEARNED)
def test_without_a_var_the_value_is_the_same_and_plain(name: str) -> None:
    case, f = CASES[name], getattr(losses, name.split()[0])
    arguments = case.arguments(np.random.default_rng(4), shaped(name, (4, 2)))
    found = f(**arguments, **case.options)
    assert isinstance(found, np.ndarray | np.float32)
    tape = Tape()
    learned = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
    assert np.array_equal(found, f(**learned, **case.options).value)


@pytest.mark.parametrize("name", CASES)
def test_constants_on_a_tape_are_read_and_not_differentiated(name: str) -> None:
    """Where torch detaches, a var is as good as its array, and gets no gradient."""
    case, f = CASES[name], getattr(losses, name.split()[0])
    arguments = case.arguments(np.random.default_rng(5), shaped(name, (4, 2)))
    tape = Tape()
    on_tape = {n: tape.var(x) if is_float(x) else x for n, x in arguments.items()}
    found = f(**on_tape, **case.options)
    for our, expected in zip(
        as_tuple(found), as_tuple(f(**arguments, **case.options)), strict=True
    ):
        assert np.array_equal(our.value if isinstance(our, Var) else our, expected)
    if case.learned:
        tape.backward(found.sum())
    taught = {n for n, x in on_tape.items() if isinstance(x, Var) and x.grad is not None}
    assert taught == set(case.learned)


def is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float32


@pytest.mark.parametrize("name", LEARNED)
def test_gradients_are_finite_differences(name: str) -> None:
    """In float64, without torch: what a small step changes is what the gradient says."""
    case, f = CASES[name], getattr(losses, name.split()[0])
    arguments = case.arguments(np.random.default_rng(6), shaped(name, (3, 2)))
    arguments = {n: x.astype(float) if is_float(x) else x for n, x in arguments.items()}

    def total(**changed: Any) -> float:
        return float(np.sum(f(**arguments | changed, **case.options)))

    tape = Tape()
    ours = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
    tape.backward(f(**ours, **case.options).sum())
    for n in case.learned:
        x, step = arguments[n], 1e-6
        for at in np.ndindex(x.shape):
            nudge = np.zeros_like(x)
            nudge[at] = step
            slope = (total(**{n: x + nudge}) - total(**{n: x - nudge})) / (2 * step)
            assert whole(ours[n])[at] == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_only_looked_at_teaches_nothing(name: str) -> None:
    """A figure on the tape that is no part of the loss leaves no gradient."""
    case, f = CASES[name], getattr(losses, name.split()[0])
    arguments = case.arguments(np.random.default_rng(7), shaped(name, (4, 2)))
    tape = Tape()
    other = tape.var(np.ones(3, np.float32))
    ours = {n: tape.var(x) if n in case.learned else x for n, x in arguments.items()}
    f(**ours, **case.options)
    tape.backward(other.sum())
    assert all(ours[n].grad is None for n in case.learned)


# --- corners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["entropy_categorical", "kl_categorical", "soft_value"])
def test_actions_that_cannot_be_taken_add_nothing(name: str) -> None:
    arguments = CASES[name].arguments(np.random.default_rng(0), (5,))
    for logits in arguments.values():
        logits[1, 2] = logits[3, :3] = -np.inf
    gradients = compare(name, arguments)
    assert gradients.popitem()[1][1, 2] == 0


def test_an_action_that_only_the_other_never_takes_is_infinitely_far() -> None:
    p, q = np.zeros((1, 2), np.float32), np.array([[0, -np.inf]], np.float32)
    assert losses.kl_categorical(p, q).tolist() == [np.inf]


def test_equal_terms_share_the_slope() -> None:
    """Of a value whose clipped error is the opposite of its error."""
    v, old_v, target = (np.array([x], np.float32) for x in (2, 0, 1.5))
    values = {"v": v, "old_v": old_v, "target": target, "clip": 1.0}
    assert compare("clipped_value_loss", values)["v"].tolist() == [0.125]


def test_members_with_the_same_least_estimate_share_the_gradient() -> None:
    q = np.array([[1, 2, 3], [1, 5, 3], [4, 2, 3]], np.float32)
    gradient = compare("lowest", {"q": q})["q"]
    assert np.allclose(gradient.sum(0), np.linspace(0.5, 2, 3))
    assert np.allclose(gradient[:, 0], [0.25, 0.25, 0])


@pytest.mark.parametrize("name", ["q_learning_td_error", "double_q_td_error"])
def test_q_values_may_be_views_of_arrays_by_action(name: str) -> None:
    """As networks in NumPy give them: [N, A] of [A, N], and so is the gradient."""
    arguments = CASES[name].arguments(np.random.default_rng(0), (6,))
    arguments = {n: np.ascontiguousarray(x.T).T if x.ndim == 2 else x for n, x in arguments.items()}
    assert compare(name, arguments)["q_tm1"].T.flags.c_contiguous


def test_one_entry_is_standardized_to_nothing() -> None:
    compare("standardized", {"x": np.array([3.0], np.float32)})
    assert losses.standardized(np.array([3.0], np.float32)).tolist() == [0]
    assert losses.standardized(torch.tensor([3.0])).tolist() == [0]


def test_values_after_termination_need_not_be_finite() -> None:
    arguments = steps("r_t", "v_tm1", "v_t", "terminated_t", "ended_t")(
        np.random.default_rng(0), (4, 2)
    )
    arguments["terminated_t"][1] = True
    arguments["v_t"][1] = np.nan
    compare("gae", arguments)


def test_arguments_are_left_as_they_were() -> None:
    for name, case in CASES.items():
        arguments = case.arguments(np.random.default_rng(8), shaped(name, (4, 2)))
        before = {n: np.copy(x) for n, x in arguments.items()}
        getattr(losses, name.split()[0])(**arguments, **case.options)
        for n, x in arguments.items():
            assert np.array_equal(x, before[n]), (name, n)
