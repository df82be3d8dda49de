"""The 25 acceptance cases of the wire between master and agent: each has its tests, or a line that says why not.

Cases 1 to 18 are an agent of ours under a real master, 19 to 25 real agents under a master of ours. What stands for the
real ones here are their recorded messages, peers that speak in their forms, and our own other half.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import TESTS

AGENT, LIVE, LINK = "agent/loop/test_agent.py", "agent/test_live.py", "master/agent_link/test_link.py"
CASES: dict[int, tuple[str, ...]] = {
    1: (
        "agent/cluster/test_master_link.py::test_our_registration_is_the_real_agents_but_for_its_capabilities",
        f"{AGENT}::test_it_registers_with_all_that_a_master_wants_to_know",
        "cluster/test_recorded_peers.py::test_the_recorded_master_registers_our_agent_and_runs_its_task",
    ),
    2: (
        "mesos/test_recorded_wire.py::test_the_whole_recording_on_one_connection_is_the_same_for_any_splitting",
        "process/test_endpoint.py::test_answers_come_in_the_order_of_the_requests_sent_byte_by_byte",
    ),
    3: (
        f"{AGENT}::test_a_pong_goes_to_the_observer_that_pinged",
        f"{LINK}::test_silence_makes_an_agent_unreachable_and_a_word_brings_it_back",
    ),
    4: (
        f"{AGENT}::test_it_keeps_trying_until_the_master_answers",
        f"{LINK}::test_two_registrations_before_our_answer_make_one_agent",
    ),
    5: (
        f"{AGENT}::test_it_keeps_trying_until_the_master_answers",
        "master/decisions/test_agents.py::test_agents_that_are_too_old_get_no_answer",
    ),
    6: (
        f"{AGENT}::test_a_task_starts_runs_and_finishes_each_acknowledged",
        "cluster/test_recorded_peers.py::test_the_recorded_master_registers_our_agent_and_runs_its_task",
    ),
    7: (
        "agent/model/test_updates.py::test_an_update_without_acknowledgement_is_sent_again_after_10_s_doubling_to_10_minutes",
        "agent/model/test_updates.py::test_an_acknowledgement_of_another_uuid_changes_nothing",
    ),
    8: ("agent/decisions/test_state.py::test_an_offer_of_an_earlier_agent_process_is_dropped",),
    9: (
        f"{AGENT}::test_a_kill_before_the_container_runs",
        f"{AGENT}::test_a_kill_reaches_the_container_and_is_told_of",
        "agent/decisions/test_state.py::test_a_kill_of_an_unknown_task_of_a_known_framework_is_answered",
        "agent/decisions/test_state.py::test_a_kill_of_an_unknown_framework_or_an_ended_task_does_nothing",
    ),
    10: (f"{LIVE}::test_killed_and_started_again_nothing_is_lost",),
    11: (
        f"{AGENT}::test_told_to_go_it_kills_everything_and_forgets_who_it_was",
        "master/decisions/test_agents.py::test_an_agent_that_forgot_its_id_takes_the_place_of_the_old_one",
    ),
    12: (
        f"{AGENT}::test_a_ping_that_calls_it_disconnected_makes_it_register_again",
        "cluster/test_network_faults.py::test_both_sides_agree_about_every_task_and_gpu_when_the_link_is_whole_again",
    ),
    13: (
        "cluster/test_bad_peers.py::test_a_master_that_vanishes_after_the_launch_finds_the_task_when_it_is_back",
        "cluster/test_failover.py::test_the_next_master_has_the_agent_the_task_and_the_framework",
    ),
    14: (
        "agent/decisions/test_registration.py::test_each_ping_winds_the_watch_up_and_a_missing_one_is_noticed",
        f"{LINK}::test_silence_makes_an_agent_unreachable_and_a_word_brings_it_back",
    ),
    15: (
        f"{AGENT}::test_reservations_of_the_master_are_kept_and_told_again",
        "box/test_reservations.py::test_a_volume_outlives_its_task_and_its_agent_and_goes_when_destroyed",
    ),
    16: (
        f"{AGENT}::test_a_framework_shut_down_ends_without_a_word",
        f"{AGENT}::test_told_to_go_it_kills_everything_and_forgets_who_it_was",
        "conformance/test_mesos_master_sessions.py::test_an_agent_marked_gone_is_gone",
    ),
    17: (
        "agent/decisions/test_state.py::test_draining_kills_with_a_capped_grace_and_takes_no_more_tasks",
        "cluster/test_draining.py::test_draining_outlives_the_agent_and_ends_with_the_last_task",
    ),
    18: (
        f"{LIVE}::test_sent_away_by_its_operator_it_says_goodbye_and_kills_everything",
        "master/decisions/test_agents.py::test_an_agent_may_leave_and_only_it_can_say_so",
    ),
    19: (
        f"{LINK}::test_registration_goes_as_recorded",
        "cluster/test_recorded_peers.py::test_our_master_takes_the_recorded_agent_through_its_life",
    ),
    20: (f"{LINK}::test_two_registrations_before_our_answer_make_one_agent",),
    21: (
        f"{LINK}::test_a_task_goes_out_in_the_recorded_bytes",
        "cluster/test_recorded_peers.py::test_our_master_takes_the_recorded_agent_through_its_life",
    ),
    22: (
        f"{LINK}::test_a_broken_link_disconnects_and_pings_ask_the_agent_back",
        f"{LINK}::test_tasks_that_a_restarted_agent_lost_are_named_to_it",
    ),
    23: (f"{LINK}::test_after_a_restart_of_the_master_nothing_is_lost",),
    24: (
        "master/decisions/test_operations.py::test_the_status_goes_to_the_framework_as_recorded_and_its_acknowledgement_to_the_agent",
        "master/decisions/test_operations.py::test_an_agent_that_comes_back_knows_best_what_it_keeps",
        "master/decisions/test_agents.py::test_an_agents_newer_resource_version_is_the_one_that_tasks_name",
    ),
    25: (
        f"{LINK}::test_garbage_makes_no_agent_and_does_no_harm",
        f"{LINK}::test_another_machine_with_a_known_id_is_told_to_stop",
        "process/test_endpoint.py::test_a_message_to_an_unknown_process_is_answered_404",
    ),
}


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_case_is_there() -> None:
    assert sorted(CASES) == list(range(1, 26))


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_tests_of_a_case_are_there(case: int) -> None:
    assert CASES[case]
    for place in CASES[case]:
        file, _, name = place.partition("::")
        assert name in functions(TESTS / file), place
