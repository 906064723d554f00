"""Faults that were found in RLlib's algorithms, each with the test that keeps it out of ours.

Faults of algorithms that are not here (MB-MPO, ES, ARS, AlphaZero, PBT) are not in the table.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rillflow as rf
from rillflow.algorithms import apex, apex_ddpg, cql, marwil
from rillflow.policies.exploration_schedules import Place

ROOT = Path(__file__).parents[2]
if str(ROOT / "benchmarks") not in sys.path:
    sys.path.append(str(ROOT / "benchmarks"))  # they are scripts: they find each other by folder

from gate import GATES  # noqa: E402

FAULTS = {
    "R2D2: gamma^n with the value of t+1": (
        "tests/rl/test_r2d2.py::test_targets_on_a_chain_of_three_states_by_hand"
    ),
    "R2D2: gradients flow through burn-in": (
        "tests/rl/test_r2d2.py::test_no_gradient_flows_through_burn_in"
    ),
    "R2D2: the target network has no burn-in of its own": (
        "tests/rl/test_r2d2.py::test_the_target_network_has_a_memory_of_its_own_weights"
    ),
    "R2D2: a truncated episode ends in nothing": (
        "tests/unit/experience/test_n_step.py::test_windows_in_place_agree_with_the_loop"
    ),
    "R2D2: a state of zeros where one was stored": (
        "tests/rl/test_r2d2.py::test_the_stored_state_is_used_and_counts_without_burn_in"
    ),
    "R2D2: steps that are none count in the priority": (
        "tests/rl/test_r2d2.py::test_rows_that_are_no_steps_count_in_neither_loss_nor_priority"
    ),
    "rates and noise of workers: counted from 1 in a formula for 0": (
        "tests/algorithms/test_faults_of_rllib.py::test_the_first_worker_explores_most"
    ),
    "APPO: settings that nothing reads": (
        "tests/algorithms/test_settings_are_read.py::test_every_setting_is_read"
    ),
    "APPO: use_gae and lambda_ are accepted": (
        "tests/algorithms/test_appo.py::test_settings_that_cannot_be_are_refused"
    ),
    "APPO: batches are dropped before they were used often enough": (
        "tests/algorithms/test_appo.py::test_no_batch_is_dropped_before_its_last_use"
    ),
    "APPO: only workers that answered in the learner's step get its weights": (
        "tests/algorithms/test_appo.py::test_every_worker_is_answered_with_the_newest_weights"
    ),
    "CQL: a Lagrangian that is accepted and not there": (
        "tests/algorithms/test_faults_of_rllib.py::test_cql_refuses_a_lagrangian"
    ),
    "CQL: the density of random actions is that of [-1, 1]": (
        "tests/algorithms/test_offline.py::"
        "test_a_critic_that_knows_nothing_pays_the_volume_of_the_actions"
    ),
    "CQL: actions are drawn, or weighed, elsewhere than the paper says": (
        "tests/algorithms/test_offline_by_hand.py::test_the_conservative_term_by_hand"
    ),
    "SAC: the target has no entropy term, the actor one critic": (
        "tests/algorithms/test_continuous_by_hand.py::test_sac"
    ),
    "SAC: the entropy that is wanted has another sign, or is squared": (
        "tests/algorithms/test_sac_entropy.py::"
        "test_it_is_worth_more_where_there_is_less_than_minus_three_of_it"
    ),
    "TD3: the actor follows both critics": (
        "tests/algorithms/test_continuous_by_hand.py::test_td3s_actor_follows_the_first_critic"
    ),
    "IQL: values of the networks that learn, and nothing of where rows end": (
        "tests/algorithms/test_offline_by_hand.py::test_iql_where_targets_differ_and_rows_end"
    ),
    "MARWIL: advantages are weighed by a constant": (
        "tests/algorithms/test_offline.py::test_marwil_learns_the_same_whatever_the_unit_of_rewards"
    ),
    "TD3: a goal above what the environment pays": (
        "tests/algorithms/test_faults_of_rllib.py::test_goals_can_be_reached"
    ),
    "what an episode that is cut would have brought is lost": (
        "tests/rl/test_truncated_ends.py::"
        "test_an_actor_critic_goes_on_in_the_value_of_the_last_observation"
    ),
    "restored settings overwrite what was given to go on with": (
        "tests/runs/test_supervised.py::"
        "test_a_run_that_goes_on_may_change_what_faults_do_and_nothing_else"
    ),
}
MOST = {"CartPole-v1": 500, "CartPole-hidden-velocity": 500, "Pendulum-v1": 0, "RepeatPast": 18}
"""the best return of environments whose goals are returns"""


@pytest.mark.parametrize("test", FAULTS.values(), ids=FAULTS)
def test_each_has_a_test(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_first_worker_explores_most() -> None:
    """At 0.4, and the last one at its eighth power: workers are counted from 0."""
    rate, scale = apex.Config().explorer().rate, apex_ddpg.Config().explorer().scale
    first, last = Place(0, 8), Place(7, 8)
    assert (rate(first, 0), rate(last, 0)) == pytest.approx((0.4, 0.4**8))
    assert (scale(first), scale(last)) == pytest.approx((0.4, 0.4**8))


def test_cql_refuses_a_lagrangian() -> None:
    with pytest.raises(rf.BuildError, match="unknown setting 'lagrangian'"):
        cql.Config.make(lagrangian=True)


def test_marwil_has_no_constant_to_weigh_by() -> None:
    with pytest.raises(rf.BuildError, match="moving_average_sqd_adv_norm_start"):
        marwil.Config.make(moving_average_sqd_adv_norm_start=100.0)


def test_goals_can_be_reached() -> None:
    returns = [goal for goals in GATES.values() for goal in goals if goal.judge is None]
    known = [goal for goal in returns if goal.env in MOST]
    assert len(known) > 10
    for goal in known:
        assert max(goal.each, goal.median or goal.each) <= MOST[goal.env], goal
