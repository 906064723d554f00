"""What every engine must do, as functions: each asserts one contract through the public API.

    from rillflow.testing.conformance import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check):
        check(MyEngine)

A check takes a function that makes a new engine, because an engine serves one run. The number at
the beginning of its docstring is that of a contract in `docs/contracts.md`. Each check starts a few
actors and takes well under a second where that is cheap.
"""

from __future__ import annotations

from collections.abc import Callable

from rillflow.engines.contract import Engine
from rillflow.testing import _failure, _life, _order, _streams

Check = Callable[[Callable[[], Engine]], None]

CHECKS: list[Check] = [
    # order
    _order.check_gather_sync_is_a_barrier,
    _order.check_requests_in_flight_are_bounded,
    _order.check_lag_behind_a_batch_is_bounded,
    _order.check_messages_come_before_later_requests,
    _order.check_body_of_the_loop_is_part_of_the_step,
    _order.check_last_message_of_a_flow_arrives,
    # streams
    _streams.check_provenance_survives,
    _streams.check_weights_reach_every_contributor,
    _streams.check_split_gives_every_item_to_each_child,
    _streams.check_union_weights_are_exact,
    _streams.check_rejecting_branch_starves_nobody,
    _streams.check_not_ready_is_invisible,
    _streams.check_queues_are_bounded,
    _streams.check_dropping_queue_counts,
    _streams.check_ledger_balances_at_every_step,
    # failure
    _failure.check_learner_raises_its_own_error,
    _failure.check_user_errors_meet_their_policy,
    _failure.check_lost_workers_meet_their_policy,
    _failure.check_constructor_error_is_a_start_error,
    _failure.check_stop_iteration_is_an_error,
    _failure.check_errors_name_operator_and_line,
    # life
    _life.check_workers_join_and_leave,
    _life.check_resumed_run_equals_uninterrupted,
    _life.check_resumed_asynchronous_run_loses_nothing,
    _life.check_arrays_are_read_only,
    _life.check_references_are_forwarded_unread,
    _life.check_values_are_serialised_once,
    _life.check_stop_leaves_nothing_behind,
    _life.check_flows_nest,
]
"""every check, in the order of the contracts"""
