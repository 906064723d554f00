"""Any flow, cut anywhere, whoever came and went: the restored run is the run that went on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings

import rillflow as rf
from tests.edges.flows import History, Plan, build, histories, plans, play

MORE = 24
"""items that are compared after the cut"""


def engine(plan: Plan) -> rf.Sim:
    span = plan.base.latency
    return rf.Sim(latency=(lambda rng: rng.random() * span) if span else None)


def standing(run: rf.Run[Any]) -> Any:
    """Where a run stands: its accounts, its members, and whether everything is in one state."""
    ledger = run.ledger()
    assert ledger.balanced, str(ledger)
    members = {name: (one["status"], one["incarnation"]) for name, one in run.workers().items()}
    return [str(line) for line in ledger.balances()], members


def check(plan: Plan, history: History) -> None:
    """Cut a run; what comes after the cut comes again from a rebuilt flow and the state."""
    flow, group = build(plan)
    with flow.run(engine(plan), seed=plan.base.seed) as run:
        if play(run, group, history.before, history.cut).ended:
            event("it ended before the cut")
            return
        state = copy.deepcopy(run.get_state())
        rest = play(run, group, history.after, MORE)
        stands = standing(run)
    event(f"{plan.shape}: {'ended' if rest.ended else 'went on'}")
    flow, group = build(plan)
    with flow.run(engine(plan), seed=plan.base.seed) as resumed:
        resumed.set_state(state)
        assert play(resumed, group, history.after, MORE) == rest
        assert standing(resumed) == stands


@pytest.mark.timeout(120)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans, histories)
def test_a_run_resumes_bit_for_bit_wherever_it_was_cut(plan: Plan, history: History) -> None:
    """The same items, the same ledger, the same members, with members coming and going."""
    check(plan, history)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans, histories)
def test_many_runs_resume_bit_for_bit_wherever_they_were_cut(plan: Plan, history: History) -> None:
    """The same law, for as long as one has time."""
    check(plan, history)
