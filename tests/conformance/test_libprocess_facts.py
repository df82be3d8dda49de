"""The facts of the wire between master and agent that we hold to, and the tests that show each.

Most are about an agent of ours under a real master, those that name our master about real agents under it. What stands for
the real ones here are their recorded messages, peers that speak in their forms, and our own other half.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import TESTS

AGENT, LIVE, LINK = "agent/loop/test_agent.py", "agent/test_live.py", "master/agent_link/test_link.py"
FACTS: dict[str, tuple[str, ...]] = {
    "an agent registers with all that a master wants to know": (
        "agent/cluster/test_master_link.py::test_our_registration_is_the_real_agents_but_for_its_capabilities",
        f"{AGENT}::test_it_registers_with_all_that_a_master_wants_to_know",
        "cluster/test_recorded_peers.py::test_the_recorded_master_registers_our_agent_and_runs_its_task",
    ),
    "requests come in any pieces and are answered in order": (
        "mesos/test_recorded_wire.py::test_the_whole_recording_on_one_connection_is_the_same_for_any_splitting",
        "process/test_endpoint.py::test_answers_come_in_the_order_of_the_requests_sent_byte_by_byte",
    ),
    "a ping is answered to the observer that sent it": (
        f"{AGENT}::test_a_pong_goes_to_the_observer_that_pinged",
        f"{LINK}::test_silence_makes_an_agent_unreachable_and_a_word_brings_it_back",
    ),
    "registering again before the answer makes one agent": (
        f"{AGENT}::test_it_keeps_trying_until_the_master_answers",
        f"{LINK}::test_two_registrations_before_our_answer_make_one_agent",
    ),
    "agents that are too old get no answer": (
        f"{AGENT}::test_it_keeps_trying_until_the_master_answers",
        "master/decisions/test_agents.py::test_agents_that_are_too_old_get_no_answer",
    ),
    "a command task runs, and each status is acknowledged": (
        f"{AGENT}::test_a_task_starts_runs_and_finishes_each_acknowledged",
        "cluster/test_recorded_peers.py::test_the_recorded_master_registers_our_agent_and_runs_its_task",
    ),
    "an update is sent again until its own uuid is acknowledged": (
        "agent/model/test_updates.py::test_an_update_without_acknowledgement_is_sent_again_after_10_s_doubling_to_10_minutes",
        "agent/model/test_updates.py::test_an_acknowledgement_of_another_uuid_changes_nothing",
    ),
    "an offer of an earlier agent process is dropped": (
        "agent/decisions/test_state.py::test_an_offer_of_an_earlier_agent_process_is_dropped",
    ),
    "a kill before, during and after a task, and of an unknown one": (
        f"{AGENT}::test_a_kill_before_the_container_runs",
        f"{AGENT}::test_a_kill_reaches_the_container_and_is_told_of",
        "agent/decisions/test_kills.py::test_a_kill_of_an_unknown_task_of_a_known_framework_is_answered",
        "agent/decisions/test_kills.py::test_a_kill_of_an_unknown_framework_or_an_ended_task_does_nothing",
    ),
    "an agent that is killed loses no task": (f"{LIVE}::test_killed_and_started_again_nothing_is_lost",),
    "an agent without its state is a new one": (
        f"{AGENT}::test_told_to_go_it_kills_everything_and_forgets_who_it_was",
        "master/decisions/test_agents.py::test_an_agent_that_forgot_its_id_takes_the_place_of_the_old_one",
    ),
    "an agent that is pinged as disconnected registers again": (
        f"{AGENT}::test_a_ping_that_calls_it_disconnected_makes_it_register_again",
        "cluster/test_network_faults.py::test_both_sides_agree_about_every_task_and_gpu_when_the_link_is_whole_again",
    ),
    "a master that was away finds agents, tasks and frameworks": (
        "cluster/test_bad_peers.py::test_a_master_that_vanishes_after_the_launch_finds_the_task_when_it_is_back",
        "cluster/test_failover.py::test_the_next_master_has_the_agent_the_task_and_the_framework",
    ),
    "silence makes an agent unreachable, a word brings it back": (
        "agent/decisions/test_registration.py::test_each_ping_winds_the_watch_up_and_a_missing_one_is_noticed",
        f"{LINK}::test_silence_makes_an_agent_unreachable_and_a_word_brings_it_back",
    ),
    "reservations outlive the agent's restart": (
        f"{AGENT}::test_reservations_of_the_master_are_kept_and_told_again",
        "box/test_reservations.py::test_a_volume_outlives_its_task_and_its_agent_and_goes_when_destroyed",
    ),
    "teardown ends tasks without updates; an agent marked gone stays away": (
        f"{AGENT}::test_a_framework_shut_down_ends_without_a_word",
        f"{AGENT}::test_told_to_go_it_kills_everything_and_forgets_who_it_was",
        "conformance/test_mesos_master_sessions.py::test_an_agent_marked_gone_is_gone",
    ),
    "draining kills with a capped grace": (
        "agent/decisions/test_kills.py::test_draining_kills_with_a_capped_grace_and_takes_no_more_tasks",
        "cluster/test_draining.py::test_draining_outlives_the_agent_and_ends_with_the_last_task",
    ),
    "an agent that is stopped says goodbye": (
        f"{LIVE}::test_sent_away_by_its_operator_it_says_goodbye_and_kills_everything",
        "master/decisions/test_agents.py::test_an_agent_may_leave_and_only_it_can_say_so",
    ),
    "our master registers real agents and pings in time": (
        f"{LINK}::test_registration_goes_as_recorded",
        "cluster/test_recorded_peers.py::test_our_master_takes_the_recorded_agent_through_its_life",
    ),
    "our master gives one id to two registrations": (
        f"{LINK}::test_two_registrations_before_our_answer_make_one_agent",
    ),
    "our master sends a task in the recorded bytes": (
        f"{LINK}::test_a_task_goes_out_in_the_recorded_bytes",
        "cluster/test_recorded_peers.py::test_our_master_takes_the_recorded_agent_through_its_life",
    ),
    "our master names what a restarted agent lost": (
        f"{LINK}::test_a_broken_link_disconnects_and_pings_ask_the_agent_back",
        f"{LINK}::test_tasks_that_a_restarted_agent_lost_are_named_to_it",
    ),
    "a restart of our master loses nothing": (f"{LINK}::test_after_a_restart_of_the_master_nothing_is_lost",),
    "our master sends operations and hears their statuses": (
        "master/decisions/test_operations.py::test_the_status_goes_to_the_framework_as_recorded_and_its_acknowledgement_to_the_agent",
        "master/decisions/test_operation_reports.py::test_an_agent_that_comes_back_knows_best_what_it_keeps",
        "master/decisions/test_agents.py::test_an_agents_newer_resource_version_is_the_one_that_tasks_name",
    ),
    "garbage does our master no harm": (
        f"{LINK}::test_garbage_makes_no_agent_and_does_no_harm",
        f"{LINK}::test_another_machine_with_a_known_id_is_told_to_stop",
        "process/test_endpoint.py::test_a_message_to_an_unknown_process_is_answered_404",
    ),
}


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("fact", FACTS)
def test_the_tests_of_a_fact_are_there(fact: str) -> None:
    assert FACTS[fact]
    for place in FACTS[fact]:
        file, _, name = place.partition("::")
        assert name in functions(TESTS / file), place
