"""A wrong tensor, array or number is refused at the door, by name, with what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rillflow.learning import losses
from rillflow.learning.tape import Tape

X = torch.ones(3, 2)
ROW, FLAGS, INTS = torch.ones(2), torch.zeros(3, 2, dtype=torch.bool), torch.zeros(3).long()
V = torch.ones(3)
ATOMS = torch.ones(3, 2, 4)

GOOD: dict[str, dict[str, Any]] = {
    "advantage_weights": {"advantages": X, "beta": 1.0, "most": 20.0},
    "approximate_kl": {"old_logp": X, "logp": X},
    "categorical_error": {"logits_tm1": ATOMS, "a_tm1": INTS, "target": torch.ones(3, 4)},
    "categorical_target": {"logits_t": ATOMS, "q_t_selector": X, "r_t": V, "discount_t": V,
                           "v_min": -1.0, "v_max": 1.0},
    "clip_fraction": {"logp": X, "old_logp": X, "clip": 0.2},
    "clipped_surrogate_loss": {"logp": X, "old_logp": X, "advantages": X, "clip": 0.2},
    "clipped_value_loss": {"v": X, "old_v": X, "target": X, "clip": 0.2},
    "conservative_loss": {"q": ATOMS, "logp": torch.ones(2, 4), "q_data": torch.ones(3, 4)},
    "discounted_returns": {"r_t": X, "discount_t": X, "bootstrap_value": ROW},
    "double_q_td_error": {"q_tm1": X, "a_tm1": INTS, "r_t": V, "discount_t": V, "q_t_target": X,
                          "q_t_selector": X},
    "dueling": {"value": V, "advantages": X},
    "entropy_bonus": {"entropy": X},
    "entropy_categorical": {"logits": X},
    "entropy_gaussian": {"log_std": X},
    "expected_values": {"logits": ATOMS, "v_min": -1.0, "v_max": 1.0},
    "expectile_loss": {"v": X, "target": X, "tau": 0.7},
    "gae": {"r_t": X, "v_tm1": X, "v_t": X, "terminated_t": FLAGS, "ended_t": FLAGS,
            "gamma": 0.9, "lam": 0.9},
    "huber": {"x": X},
    "huber_loss": {"errors": X, "weights": X},
    "joined": {"a": X, "b": X},
    "kl_categorical": {"logits_p": X, "logits_q": X},
    "kl_gaussian": {"mean_p": X, "log_std_p": X, "mean_q": X, "log_std_q": X},
    "lambda_returns": {"r_t": X, "discount_t": X, "v_t": X, "ended_t": FLAGS, "lam": 0.9},
    "lowest": {"q": X},
    "masked_mean": {"x": X, "mask": FLAGS},
    "mean": {"x": X, "mask": FLAGS},
    "minimum": {"a": X, "b": X},
    "n_step_returns": {"r_t": X, "discount_t": X, "v_t": X, "ended_t": FLAGS, "n": 2},
    "n_step_td_target": {"r_tn": X, "discount_tn": X, "v_tn": X},
    "policy_gradient_loss": {"logp": X, "advantages": X},
    "q_learning_td_error": {"q_tm1": X, "a_tm1": INTS, "r_t": V, "discount_t": V, "q_t": X},
    "q_of_taken": {"q": X, "actions": INTS},
    "repeated": {"x": X, "times": 2},
    "rescaled": {"x": X},
    "soft_value": {"logits": X, "q": X, "alpha": 0.3},
    "standardized": {"x": X},
    "td_loss": {"q": X, "target": ROW, "weights": ROW},
    "td_target": {"rewards": X, "discount": X, "next_values": X},
    "uniform_entropy": {"mask": FLAGS},
    "unscaled": {"x": X},
    "value_loss": {"v": X, "target": X},
    "vtrace": {"log_rhos": X, "r_t": X, "discount_t": X, "v_tm1": X, "v_t": X, "ended_t": FLAGS},
}  # fmt: skip
"""arguments that each loss accepts; the tests below spoil one at a time"""

TENSORS = [(f, a) for f, args in GOOD.items() for a, x in args.items() if torch.is_tensor(x)]
ALONE = {("expected_values", "logits"), ("entropy_bonus", "entropy"),
         ("entropy_categorical", "logits"), ("huber", "x"), ("entropy_gaussian", "log_std"),
         ("standardized", "x"), ("lowest", "q"), ("rescaled", "x"), ("unscaled", "x"),
         ("uniform_entropy", "mask"), ("advantage_weights", "advantages"),
         ("repeated", "x")}  # fmt: skip
"""the only tensor of its function"""
BROADCAST = {("minimum", "a"), ("minimum", "b")}

ANY_DTYPE = {("repeated", "x"), ("joined", "a"), ("joined", "b")}
"""rows of whatever kind, such as pictures"""

both = pytest.mark.parametrize("kind", ["torch", "numpy", "tape"])


def made(x: Any, kind: str) -> Any:
    """An argument in a framework; on a tape if a loss could be differentiated by it."""
    if not torch.is_tensor(x) or kind == "torch":
        return x
    array = x.numpy()
    return Tape().var(array) if kind == "tape" and x.is_floating_point() else array


def call(function: str, kind: str = "torch", **spoiled: Any) -> Any:
    loss: Callable[..., Any] = getattr(losses, function)
    good = {name: made(x, kind) for name, x in GOOD[function].items()}
    return loss(**good | spoiled)


def test_every_public_loss_is_listed_here() -> None:
    public = {n for n in vars(losses) if callable(getattr(losses, n)) and not n.startswith("_")}
    assert public == set(GOOD)


@both
@pytest.mark.parametrize("function", GOOD)
def test_good_arguments_are_accepted(function: str, kind: str) -> None:
    call(function, kind)


@pytest.mark.parametrize(("function", "name"), [case for case in TENSORS if case not in ALONE])
def test_frameworks_are_not_mixed(function: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"{function}|masked_mean") as caught:
        call(function, **{name: made(GOOD[function][name], "numpy")})
    assert re.search("must be a (torch tensor|NumPy array); found (ndarray|Tensor)", str(caught))


@both
@pytest.mark.parametrize(("function", "name"), TENSORS)
def test_a_list_is_refused_by_name(function: str, name: str, kind: str) -> None:
    with pytest.raises(TypeError, match=r"\w+ must be a (torch tensor|NumPy array); found"):
        call(function, kind, **{name: [1.0, 2.0]})


@both
@pytest.mark.parametrize(("function", "name"), [case for case in TENSORS if case not in ANY_DTYPE])
def test_a_wrong_dtype_is_refused_by_name(function: str, name: str, kind: str) -> None:
    good = GOOD[function][name]
    bad = good.bool() if not good.is_floating_point() and good.dtype != torch.bool else good.int()
    kinds = {torch.float32: "floating-point", torch.bool: "boolean", torch.int64: "integer"}
    expected = rf"{name} must be an? {kinds[good.dtype]} (tensor|array); found (torch.)?"
    with pytest.raises(TypeError, match=expected + str(bad.dtype).removeprefix("torch.")):
        call(function, kind, **{name: made(bad, kind)})


@both
@pytest.mark.parametrize(
    ("function", "name"), [case for case in TENSORS if case not in ALONE | BROADCAST]
)
def test_a_shape_that_would_broadcast_is_refused(function: str, name: str, kind: str) -> None:
    """The extra dimension of a forgotten squeeze is caught, whichever argument has it."""
    bad = made(GOOD[function][name].unsqueeze(-1), kind)
    with pytest.raises(ValueError, match=f"({function}|masked_mean): .*must .*; found") as caught:
        call(function, kind, **{name: bad})
    assert name in str(caught.value)


NUMBERS = [
    *[(f, "lam", x) for f in ("gae", "lambda_returns", "vtrace") for x in (-0.1, 1.1, math.nan)],
    *[("gae", "gamma", x) for x in (-0.1, 1.1, math.nan)],
    *[(f, "clip", x) for f in ("clip_fraction", "clipped_surrogate_loss", "clipped_value_loss")
      for x in (0.0, -1.0, math.nan)],
    ("huber", "delta", 0.0), ("n_step_returns", "n", 0), ("vtrace", "clip_rho", 0.0),
    ("vtrace", "clip_pg_rho", -1.0),
]  # fmt: skip


@both
@pytest.mark.parametrize(("function", "name", "number"), NUMBERS)
def test_a_number_out_of_range_is_refused_by_name(
    function: str, name: str, number: float, kind: str
) -> None:
    rule = rf"{function}: {name} must be (in \[0, 1\]|above 0); found {re.escape(repr(number))}"
    with pytest.raises(ValueError, match=rule):
        call(function, kind, **{name: number})


@both
@pytest.mark.parametrize("shape", [(6,), (3, 2, 1), (0, 2)])
def test_returns_need_rows_of_time_and_batch(shape: tuple[int, ...], kind: str) -> None:
    x = made(torch.ones(shape), kind)
    flags = made(torch.zeros(shape, dtype=torch.bool), kind)
    with pytest.raises(ValueError, match=r"r_t must be time-major, \[T, B\] with T >= 1; found"):
        losses.gae(x, x, x, flags, flags, 0.9, 0.9)


@both
@pytest.mark.parametrize("shape", [(), (3, 0)])
def test_a_distribution_needs_actions(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(ValueError, match=r"logits must be \[\.\.\., A\] with A >= 1; found"):
        losses.entropy_categorical(made(torch.ones(shape), kind))


@both
@pytest.mark.parametrize("shape", [(3, 2), (3, 0, 4), (3, 2, 1), (3, 2, 4, 1)])
def test_distributions_need_actions_and_atoms(shape: tuple[int, ...], kind: str) -> None:
    rule = r"logits must be \[N, A, atoms\] with A >= 1 and at least 2 atoms; found"
    with pytest.raises(ValueError, match=rule):
        call("expected_values", kind, logits=made(torch.ones(shape), kind))


@both
@pytest.mark.parametrize("function", ["expected_values", "categorical_target"])
@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_the_least_return_is_below_the_largest(
    function: str, ends: tuple[float, float], kind: str
) -> None:
    with pytest.raises(ValueError, match="v_min must be below v_max; found"):
        call(function, kind, v_min=ends[0], v_max=ends[1])


@both
@pytest.mark.parametrize("shape", [(3,), (0, 3), (2, 3, 1)])
def test_an_ensemble_has_members(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(ValueError, match=r"lowest: q must be \[K, N\], one row for each of K"):
        losses.lowest(made(torch.ones(shape), kind))


@both
@pytest.mark.parametrize("shape", [(), (2, 3, 2)])
def test_a_td_loss_is_of_one_critic_or_of_an_ensemble(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(ValueError, match=r"td_loss: q must be \[N\], or \[K, N\] of K members"):
        losses.td_loss(made(torch.ones(shape), kind), made(torch.ones(shape[-1:]), kind))


@both
@pytest.mark.parametrize("function", ["q_learning_td_error", "dueling"])
def test_q_values_need_actions(function: str, kind: str) -> None:
    none = {name: made(torch.ones(3, 0), kind) for name in ("q_tm1", "q_t", "advantages")}
    given = {name: x for name, x in none.items() if name in GOOD[function]}
    with pytest.raises(ValueError, match=r"must be \[\.\.\., A\] with A >= 1; found \[3, 0\]"):
        call(function, kind, **given)


@both
@pytest.mark.parametrize("function", ["policy_gradient_loss", "value_loss", "entropy_bonus"])
def test_a_mask_has_the_shape_of_what_it_masks(function: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"mask must have the shape of x, \[3, 2\]; found \[3\]"):
        call(function, kind, mask=made(torch.ones(3, dtype=torch.bool), kind))


@both
def test_the_message_states_the_rule_the_offender_and_the_reason(kind: str) -> None:
    with pytest.raises(ValueError, match="value_loss") as caught:
        losses.value_loss(made(torch.ones(3), kind), made(torch.ones(3, 1), kind))
    assert str(caught.value) == (
        "value_loss: target must have the shape of v, [3]; found [3, 1]. "
        "Nothing is broadcast, as that would hide a forgotten squeeze or transpose."
    )
