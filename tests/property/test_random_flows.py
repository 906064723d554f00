"""Random small flows, random latencies, random faults: the contracts hold for all of them.

The contracts are those of `docs/contracts.md`.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings

from tests.engines.processes import children, gone, no_more_shared_memory, shared_memory
from tests.property.flows import Recipe, check_order, leaves, recipes, run_and_check

RELAXED = [HealthCheck.too_slow]


@settings(max_examples=300, deadline=None, suppress_health_check=RELAXED)
@given(recipes)
def test_ledger_order_and_bounds_hold_and_every_flow_ends(recipe: Recipe) -> None:
    """The ledger balances at every step, bounds are kept, progress is made to the end."""
    outcome = run_and_check(recipe)
    if recipe.shape in ("plain", "union", "weighted", "thread"):
        check_order(outcome.items)


@settings(max_examples=100, deadline=None, suppress_health_check=RELAXED)
@given(recipes)
def test_the_same_seed_gives_the_same_run(recipe: Recipe) -> None:
    """Two runs with one seed have the same items and the same log of events, faults included."""
    one, two = run_and_check(recipe), run_and_check(recipe)
    assert one.items == two.items
    assert one.trace == two.trace


@settings(max_examples=100, deadline=None, suppress_health_check=RELAXED)
@given(recipes)
def test_without_faults_nothing_is_lost(recipe: Recipe) -> None:
    """Every item reaches the output once per branch, unless an operator rejected it."""
    whole = tuple(op for op in recipe.driver_ops if op not in ("limit", "filter", "combine"))
    inside = tuple(op for op in recipe.actor_ops if op != "filter")
    clean = dataclasses.replace(recipe, faults=(), driver_ops=whole, actor_ops=inside)
    found = sorted(leaf[:3] for item in run_and_check(clean).items for leaf in leaves(item))
    names = [f"tagger-{i}" for i in range(clean.shards)]
    if clean.shape in ("union", "weighted"):
        names += [f"other-{i}" for i in range(clean.shards)]
    times = 2 if clean.shape == "split" else 1
    expected = sorted(
        (name, 0, n + 1) for name in names for n in range(clean.items) for _ in range(times)
    )
    assert found == expected


@pytest.mark.proc
@pytest.mark.alone
def test_random_flows_on_processes_leave_nothing_behind() -> None:
    """The same flows on real processes: bounds hold, and no process or segment is left."""
    before, segments = children(), shared_memory()

    @settings(max_examples=10, deadline=None, suppress_health_check=RELAXED, derandomize=True)
    @given(recipes)
    def run_one(recipe: Recipe) -> None:
        run_and_check(dataclasses.replace(recipe, faults=(), shards=min(recipe.shards, 2)), "local")

    run_one()
    assert gone(list(children() - before))
    assert no_more_shared_memory(than=segments)


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(1200)
def test_a_thousand_runs_leave_nothing_behind() -> None:
    """900 runs in virtual time and 100 on processes: no process, no segment, no contract broken."""
    before, segments = children(), shared_memory()

    @settings(max_examples=900, deadline=None, suppress_health_check=RELAXED, database=None)
    @given(recipes)
    def simulated(recipe: Recipe) -> None:
        run_and_check(recipe)

    @settings(max_examples=100, deadline=None, suppress_health_check=RELAXED, database=None)
    @given(recipes)
    def on_processes(recipe: Recipe) -> None:
        run_and_check(dataclasses.replace(recipe, faults=()), "local")

    simulated()
    on_processes()
    assert gone(list(children() - before))
    assert no_more_shared_memory(than=segments)
