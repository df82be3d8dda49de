"""Agents as values, from what masters answer: ours, and a real one that was recorded."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mesos_gpu.errors import BadInput, NotFound, ProtocolError
from mesos_gpu.mesos.clients import process_io
from mesos_gpu.mesos.clients.agents import find_agent, names, read_agent
from mesos_gpu.mesos.clients.process_io import Output, exit_status, output_of
from mesos_gpu.mesos.recordio import RecordDecoder
from tests.support.golden import Golden
from tests.support.places import RECORDED


def slave(number: int, hostname: str = "gpu1", port: int = 5051, **more: Any) -> dict[str, Any]:
    return {"id": f"47f0-S{number}", "hostname": hostname, "pid": f"slave(1)@10.0.0.1:{port}", **more}


def test_an_agent_of_a_real_master_is_read() -> None:
    answers = json.loads((RECORDED / "master-get-after.json").read_text())
    body = next(a["response"]["body"] for a in answers if a["request"]["path"] == "/state")
    agent = read_agent(body["slaves"][0])
    assert (agent.gpus, agent.amount("free", "gpus"), agent.amount("total", "cpus")) == (4, 4, 2)
    assert agent.attributes == {"gpu_model": "stub", "rack": "r1"}
    assert agent.takes_tasks
    assert agent.exact
    assert agent.ports == "[31000-32000]"


def test_what_is_reserved_for_a_role_is_free_for_that_role_only() -> None:
    gpus = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 1}}
    agent = read_agent(
        slave(
            0,
            resources={"gpus": 4},
            unreserved_resources={"gpus": 2},
            reserved_resources={"ml": {"gpus": 2}},
            used_resources={"gpus": 2},
            used_resources_full=[
                {**gpus, "role": "*"},
                {**gpus, "reservations": [{"type": "STATIC", "role": "ml"}]},
            ],
        )
    )
    assert agent.amount("free", "gpus", ("*",)) == 1
    assert agent.amount("free", "gpus", ("ml",)) == 1
    assert agent.amount("free", "gpus") == 2


def test_where_the_master_does_not_tell_what_roles_use_no_more_is_free_than_on_the_whole_agent() -> None:
    agent = read_agent(
        slave(
            0,
            unreserved_resources={"gpus": 2},
            reserved_resources={"ml": {"gpus": 2}},
            used_resources={"gpus": 3},
        )
    )
    assert not agent.exact
    assert agent.amount("free", "gpus", ("ml",)) == 1


def test_attributes_are_text_as_constraints_compare_it() -> None:
    attributes = {"count": 8.0, "speed": 1.25, "set": "{b, a}", "ranges": "[1-2, 5-6]", "text": "a, b"}
    assert read_agent(slave(0, attributes=attributes)).attributes == {
        "count": "8",
        "speed": "1.25",
        "set": "{b,a}",
        "ranges": "[1-2,5-6]",
        "text": "a, b",
    }


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({}, "active"),
        ({"active": False}, "inactive"),
        ({"deactivated": True}, "deactivated"),
        ({"deactivated": True, "drain_info": {"state": "DRAINED"}}, "drained"),
    ],
)
def test_the_state_of_an_agent_is_one_word(told: dict[str, Any], state: str) -> None:
    agent = read_agent(slave(0, **told))
    assert agent.state == state
    assert agent.takes_tasks == (state == "active")


AGENTS = [read_agent(item) for item in (slave(0, "a"), slave(1, "b", 5051), slave(2, "b", 5052), slave(10, "box"))]


def test_agents_are_called_by_hostname_and_by_port_where_several_share_one() -> None:
    assert list(names(AGENTS).values()) == ["a", "b:5051", "b:5052", "box"]


@pytest.mark.parametrize(
    ("word", "found"), [("a", 0), ("S1", 1), ("47f0-S10", 10), ("b:5052", 2), ("bo", 10), ("10.0.0.1:5052", 2)]
)
def test_an_agent_is_found_by_any_of_its_names(word: str, found: int) -> None:
    assert find_agent(AGENTS, word).id == f"47f0-S{found}"


def test_a_name_of_several_agents_is_refused_with_all_of_them(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        find_agent(AGENTS, "b")
    assert str(refused.value) == golden


def test_a_name_of_no_agent_is_answered_with_the_nearest(golden: Golden) -> None:
    with pytest.raises(NotFound) as refused:
        find_agent(AGENTS, "xbox")
    assert str(refused.value) == golden
    with pytest.raises(NotFound) as refused:
        find_agent([], "gpu1")
    assert str(refused.value) == golden


def sent(record: bytes) -> dict[str, object]:
    (data,) = RecordDecoder().feed(record)
    call = json.loads(data)
    assert call["type"] == "ATTACH_CONTAINER_INPUT"
    return call["attach_container_input"]  # type: ignore[no-any-return]


def test_records_are_mesos_own() -> None:
    assert sent(process_io.feeding({"value": "c"})) == {"type": "CONTAINER_ID", "container_id": {"value": "c"}}
    text = base64.b64encode(b"\xff\0").decode()
    assert sent(process_io.typed(b"\xff\0"))["process_io"] == {"type": "DATA", "data": {"type": "STDIN", "data": text}}
    window = {"window_size": {"rows": 3, "columns": 4}}
    control = {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": window}}
    assert sent(process_io.resized(3, 4))["process_io"] == control
    beat = {"type": "HEARTBEAT", "heartbeat": {"interval": {"nanoseconds": 1_500_000_000}}}
    assert sent(process_io.heartbeat(1.5))["process_io"] == {"type": "CONTROL", "control": beat}


def test_output_is_read_and_a_heartbeat_is_none() -> None:
    assert output_of(b'{"type":"DATA","data":{"type":"STDERR","data":"ZXJyCg=="}}') == Output(True, b"err\n")
    assert output_of(b'{"type":"DATA","data":{"type":"STDOUT"}}') == Output(False, b"")
    assert output_of(b'{"type":"CONTROL","control":{"type":"HEARTBEAT"}}') is None


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"type":"DATA"}', b'{"type":"DATA","data":7}', b"\xff"])
def test_a_record_that_is_none_is_the_agents_fault(record: bytes) -> None:
    with pytest.raises(ProtocolError, match="ProcessIO"):
        output_of(record)


@pytest.mark.parametrize(("waited", "status"), [(0, 0), (3 << 8, 3), (9, 137), (15 | 0x80, 143)])
def test_how_a_process_ended_is_told_as_a_shell_does(waited: int, status: int) -> None:
    assert exit_status(waited) == status
