"""Losses of distributions over atoms, in NumPy; `categorical` says what they are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rillflow.learning.losses.checks_in_numpy import (
    FLOAT,
    array_of,
    check_floats,
    check_ints,
)
from rillflow.learning.losses.node import node
from rillflow.learning.tape import Array, Var
from rillflow.policies.atoms import atoms_of, chances
from rillflow.policies.shape_checks import check_atoms, check_shape, check_support

Given = Var | Array


def expected_values(logits: Given, v_min: float, v_max: float) -> Any:
    """`categorical.expected_values`."""
    x = array_of(logits)
    check_support("expected_values", v_min, v_max)
    if not (x.dtype is FLOAT and _is_atoms(x)):
        check_floats("expected_values", logits=logits)
        check_atoms("expected_values", logits=x)
    turned, atoms = x.transpose(1, 2, 0), _atoms(v_min, v_max, x.shape[2])
    p = chances(turned, 1)
    q = np.matmul(atoms, p)

    def pull(g: Any) -> Array:
        slope = g.T if isinstance(g, np.ndarray) else np.full(q.shape, g, np.float32)
        pulled: Array = (p * (atoms[:, None] - q[:, None]) * slope[:, None]).transpose(2, 0, 1)
        return pulled

    return node(q.T, logits, pull)


def categorical_target(
    logits_t: Given,
    q_t_selector: Given,
    r_t: Given,
    discount_t: Given,
    v_min: float,
    v_max: float,
) -> tuple[Array, Array]:
    """`categorical.categorical_target`."""
    where = "categorical_target"
    x, chooser, r, d = (array_of(one) for one in (logits_t, q_t_selector, r_t, discount_t))
    check_support(where, v_min, v_max)
    if not (
        x.dtype is chooser.dtype is r.dtype is d.dtype is FLOAT
        and _is_atoms(x)
        and chooser.shape == x.shape[:2]
        and r.shape == d.shape == x.shape[:1]
    ):
        check_floats(
            where, logits_t=logits_t, q_t_selector=q_t_selector, r_t=r_t, discount_t=discount_t
        )
        check_atoms(where, logits_t=x)
        check_shape(where, x.shape[:2], "logits_t without atoms", q_t_selector=chooser)
        check_shape(where, x.shape[:1], "one row each", r_t=r, discount_t=d)
    rows, _, count = x.shape
    p = chances(x[np.arange(rows), chooser.T.argmax(0)], 1)
    moved = r[:, None] + d[:, None] * _atoms(v_min, v_max, count)
    place = (moved - np.float32(v_min)) * np.float32((count - 1) / (v_max - v_min))
    clipped: Array = np.add.reduce(p * ((place < -0.5) | (place > count - 0.5)), 1)
    place = np.clip(place, 0, count - 1)
    # the last atom has no neighbour above: what falls on it is wholly its own all the same
    below = np.minimum(place.astype(np.int64), count - 2)
    above = place - below.astype(p.dtype)
    at = (np.arange(rows)[:, None] * count + below).reshape(-1)
    near, far = (p * (1 - above)).reshape(-1), (p * above).reshape(-1)
    # sums in double precision, in the order of the rows
    target = np.bincount(at, near, rows * count) + np.bincount(at + 1, far, rows * count)
    return target.reshape(rows, count).astype(p.dtype), clipped


def categorical_error(logits_tm1: Given, a_tm1: Array, target: Given) -> Any:
    """`categorical.categorical_error`."""
    where = "categorical_error"
    x, a, y = array_of(logits_tm1), array_of(a_tm1), array_of(target)
    if not (
        x.dtype is y.dtype is FLOAT
        and a.dtype.kind == "i"
        and _is_atoms(x)
        and a.shape == x.shape[:1]
        and y.shape == x.shape[::2]
    ):
        check_floats(where, logits_tm1=logits_tm1, target=target)
        check_ints(where, a_tm1=a_tm1)
        check_atoms(where, logits_tm1=x)
        check_shape(where, x.shape[:1], "one row each", a_tm1=a)
        check_shape(where, x.shape[::2], "the logits of one action", target=y)
    everyone = np.arange(len(x))
    picked = x[everyone, a]
    picked = picked - np.maximum.reduce(picked, 1, keepdims=True)
    raised = np.exp(picked)
    total = np.add.reduce(raised, 1, keepdims=True)
    log_target = np.log(np.where(y > 0, y, 1))  # no chance adds nothing
    errors = np.add.reduce(y * (log_target - picked + np.log(total)), 1)

    def pull(g: Any) -> Array:
        # in memory as networks give logits: actions, atoms, rows
        gradient = np.zeros((*x.shape[1:], len(x)), x.dtype).transpose(2, 0, 1)
        slope = g[:, None] if isinstance(g, np.ndarray) else g
        gradient[everyone, a] = (raised / total * np.add.reduce(y, 1, keepdims=True) - y) * slope
        return gradient

    return node(errors, logits_tm1, pull)


def _is_atoms(x: Any) -> bool:
    return bool(x.ndim == 3 and x.shape[1] > 0 and x.shape[2] > 1)


@lru_cache(maxsize=32)
def _atoms(v_min: float, v_max: float, count: int) -> Array:
    atoms = atoms_of(v_min, v_max, count)
    atoms.flags.writeable = False
    return atoms
