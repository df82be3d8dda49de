"""Where the master is: URLs, lists, and the nodes of a group as Mesos writes them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag, ProtocolError
from mesos_gpu.master.views.views import master_info
from mesos_gpu.mesos.leader import HostPort, ZkUrl, leading, parse_master, parse_zk_url, read_node, write_node
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import check, encode
from tests.support.golden import Golden

PID = Pid("master", "10.0.0.1", 5050)
# As a 1.12 master writes it: src/master/constants.hpp (MASTER_INFO_JSON_LABEL).
REAL = (
    b'{"address":{"hostname":"m1","ip":"10.0.0.1","port":5050},"capabilities":[{"type":"AGENT_UPDATE"}],'
    b'"hostname":"m1","id":"3c0e","ip":16777226,"pid":"master@10.0.0.1:5050","port":5050,"version":"1.12.0"}'
)


def test_an_address_a_list_and_zookeeper() -> None:
    assert parse_master("master", "m1:5051") == (HostPort("m1", 5051),)
    assert parse_master("master", "master@10.0.0.1:5050") == (HostPort("10.0.0.1", 5050),)
    assert parse_master("master", "m1, m2:5051") == (HostPort("m1", 5050), HostPort("m2", 5051))
    assert parse_master("master", "zk://z1:2181,z2:2181/mesos") == ZkUrl("z1:2181,z2:2181", "/mesos")
    assert parse_zk_url("zk", "zk://me:se@cret@z1:2181/a/b/") == ZkUrl("z1:2181", "/a/b", "me:se@cret")


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "m1:port",
        "m1:70000",
        "http://m1:5050",
        "m1:5050,",
        "zk://z1:2181",
        "zk://z1:2181/",
        "zk://me@z1:2181/mesos",
        "zk:// /mesos",
    ],
)
def test_what_names_no_master_is_refused_with_the_form_it_should_have(text: str | None, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        parse_master("master", text)
    assert str(refused.value) == golden


def test_a_password_is_neither_shown_nor_told_in_an_error() -> None:
    url = parse_zk_url("zk", "zk://me:secret@z1:2181/mesos")
    assert "secret" not in f"{url} {url!r}"
    with pytest.raises(BadFlag) as refused:
        parse_zk_url("zk", "zk://me:secret@z1:2181")
    assert "secret" not in str(refused.value)


def test_the_lowest_number_leads_whatever_its_label() -> None:
    assert leading(["log_replicas", "json.info_0000000012", "info_0000000007", "0000000009"]) == "info_0000000007"
    assert leading(["json.info_0000000012", "json.info_0000000009"]) == "json.info_0000000009"
    assert leading(["log_replicas", "something", ""]) is None


@given(st.lists(st.integers(0, 10**10 - 1), min_size=1, unique=True), st.sampled_from(["json.info_", "info_", ""]))
def test_any_group_is_led_by_its_first_member(sequences: list[int], label: str) -> None:
    assert leading(f"{label}{number:010d}" for number in sequences) == f"{label}{min(sequences):010d}"


def test_every_form_of_node_tells_the_same_master() -> None:
    leader = read_node("json.info_0000000001", REAL)
    assert (leader.pid, leader.hostname) == (PID, "m1")
    info = {"id": "3c0e", "ip": 16777226, "port": 5050, "hostname": "m1"}
    assert read_node("info_0000000001", encode("mesos.v1.MasterInfo", info)).pid == PID  # `pid` is optional
    bare = read_node("0000000001", b"master@10.0.0.1:5050")
    assert (bare.pid, bare.hostname) == (PID, "10.0.0.1")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json.info_0000000001", b"{"),
        ("json.info_0000000001", b"[]"),
        ("json.info_0000000001", b'{"id":"x"}'),
        ("json.info_0000000001", b'{"pid":"nonsense"}'),
        ("info_0000000001", b"\xff\xff"),
        ("0000000001", b"\xff"),
        ("text.info_0000000001", b"master@10.0.0.1:5050"),
    ],
)
def test_a_node_that_cannot_be_read_is_an_error_that_names_it(name: str, data: bytes) -> None:
    with pytest.raises(ProtocolError, match=name):
        read_node(name, data)


def test_our_node_has_the_keys_of_a_real_one() -> None:
    info = master_info("3c0e", "m1", "1.12.0", PID)
    ours, real = json.loads(write_node(info)), json.loads(REAL)
    assert {**ours, "capabilities": []} == {**real, "capabilities": []}
    assert check("mesos.v1.MasterInfo", ours) is None
    assert read_node("json.info_0000000000", write_node(info)).pid == PID
