"""What CNI plugins are told and what they answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.container.spec import cni
from mesos_gpu.container.spec.cni import Answer, Network
from mesos_gpu.errors import BadInput, ProtocolError
from tests.support.golden import Golden

INFO = {
    "name": "net",
    "ip_addresses": [{"protocol": "IPv4"}],
    "port_mappings": [{"host_port": 31000, "container_port": 80, "protocol": "TCP"}],
}
MAPPINGS = [{"hostPort": 31000, "containerPort": 80, "protocol": "tcp"}]
CHAIN = {
    "name": "net",
    "cniVersion": "0.4.0",
    "plugins": [
        {"type": "bridge", "ipam": {"type": "host-local"}, "args": {"mine": 1}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


def read(document: Any, *there: str) -> Network:
    return cni.read_network(json.dumps(document), lambda plugin: plugin in there)


def test_a_list_of_configurations_is_a_chain_in_which_each_plugin_hears_of_the_one_before() -> None:
    network = read(CHAIN)
    assert network.programs() == ("bridge", "host-local", "portmap")
    first = cni.plugin_input(network, 0, INFO, None, cni.ADD)
    assert first == {
        "name": "net",
        "cniVersion": "0.4.0",
        "type": "bridge",
        "ipam": {"type": "host-local"},
        "args": {"mine": 1, "org.apache.mesos": {"network_info": INFO}},
    }
    before = {"ips": []}
    second = cni.plugin_input(network, 1, INFO, before, cni.ADD)
    assert second["prevResult"] == before
    assert second["runtimeConfig"] == {"portMappings": MAPPINGS}
    assert "capabilities" not in second
    assert "runtimeConfig" not in cni.plugin_input(network, 1, {"name": "net"}, before, cni.ADD)


def test_addresses_are_asked_for_where_a_plugin_can_give_them() -> None:
    info = {"name": "net", "ip_addresses": [{"protocol": "IPv4"}, {"ip_address": "10.1.2.9"}]}
    able = Network("net", "1.0.0", ({"type": "bridge", "capabilities": {"ips": True, "portMappings": True}},))
    assert cni.plugin_input(able, 0, info, None, cni.ADD)["runtimeConfig"] == {"ips": ["10.1.2.9"]}
    assert "runtimeConfig" not in cni.plugin_input(able, 0, {"name": "net"}, None, cni.ADD)
    assert "runtimeConfig" not in cni.plugin_input(read(CHAIN), 0, info, None, cni.ADD)


@pytest.mark.parametrize(
    ("version", "command", "told"),
    [
        ("0.2.0", cni.ADD, False),
        ("0.3.1", cni.ADD, True),
        ("0.3.1", cni.DEL, False),
        ("0.4.0", cni.DEL, True),
        ("1.0.0", cni.DEL, True),
        ("", cni.ADD, False),
    ],
)
def test_the_result_before_is_passed_on_from_the_version_that_knows_it(version: str, command: str, told: bool) -> None:
    network = Network("net", version, ({"type": "x"},))
    document = cni.plugin_input(network, 0, INFO, {"ips": []}, command)
    assert ("prevResult" in document) is told
    assert document.get("cniVersion", "") == version


def test_mesos_port_mapper_means_its_delegate_and_portmap_where_it_is_not_installed() -> None:
    mapper = {
        "name": "net",
        "type": "mesos-cni-port-mapper",
        "chain": "MESOS",
        "excludeDevices": ["br0", "br1"],
        "delegate": {"type": "bridge", "ipam": {"type": "host-local"}},
    }
    network = read(mapper)
    delegate, portmap = network.plugins
    assert network.version == "0.3.1"
    assert delegate == mapper["delegate"]
    assert (portmap["type"], portmap["conditionsV4"]) == ("portmap", ["!", "-i", "br1"])
    assert cni.plugin_input(network, 1, INFO, {}, cni.ADD)["runtimeConfig"] == {"portMappings": MAPPINGS}
    assert read({**mapper, "cniVersion": "0.2.0"}).version == "0.3.1"
    assert read({**mapper, "cniVersion": "1.0.0"}).version == "1.0.0"
    assert [plugin["type"] for plugin in read(mapper, "mesos-cni-port-mapper").plugins] == ["mesos-cni-port-mapper"]
    with pytest.raises(BadInput, match="delegate"):
        read({"name": "net", "type": "mesos-cni-port-mapper"})


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"type": "bridge"},
        {"name": "a/b", "type": "bridge"},
        {"name": "net"},
        {"name": "net", "type": "../../bin/sh"},
        {"name": "net", "plugins": []},
        {"name": "net", "plugins": [{"name": "net"}]},
        {"name": "net", "type": "x", "cniVersion": 1},
        {"name": "net", "type": "x", "args": {"org.apache.mesos": {}}},
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_in_words(document: Any, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read(document)
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    "result",
    [
        {"ip4": {"ip": "10.1.2.3/24"}, "ip6": {"ip": "fd00::5/64"}},
        {
            "cniVersion": "0.3.1",
            "ips": [{"version": "4", "address": "10.1.2.3/24"}, {"version": "6", "address": "fd00::5/64"}],
        },
        {"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.3/24"}, {"address": "fd00::5/64"}], "dns": {}},
    ],
)
def test_addresses_are_read_from_results_of_every_version(result: dict[str, Any]) -> None:
    answer = cni.read_answer(result)
    assert (answer.ipv4, answer.ipv6) == (("10.1.2.3",), ("fd00::5",))
    assert cni.shown(INFO, answer) == {
        **INFO,
        "ip_addresses": [
            {"protocol": "IPv4", "ip_address": "10.1.2.3"},
            {"protocol": "IPv6", "ip_address": "fd00::5"},
        ],
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ips", "ip4", "ip", "address", "dns", "name", "type", "plugins"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_answer_and_no_file_does_more_than_be_refused(value: Any) -> None:
    try:
        cni.read_answer(value)
    except ProtocolError:
        pass
    try:
        read(value)
    except BadInput:
        pass
    cni.error_words(json.dumps(value))


def test_a_container_finds_itself_by_its_first_address_and_asks_the_networks_nameservers() -> None:
    first = Answer(ipv4=("10.1.2.3",), nameservers=("10.1.2.1",), domain="one", search=("one",), options=("ndots:1",))
    second = Answer(ipv4=("10.9.2.3",), nameservers=("10.9.2.1", "10.1.2.1"), domain="two", search=("two", "one"))
    assert cni.hosts_text("web", [first, second]) == "127.0.0.1 localhost\n10.1.2.3 web\n"
    assert cni.hosts_text("web", [], "127.0.0.1 localhost\n\n") == "127.0.0.1 localhost\n127.0.1.1 web\n"
    assert cni.resolver_text([Answer()]) is None
    assert cni.resolver_text([first, second]) == (
        "domain two\nsearch one two\noptions ndots:1\nnameserver 10.1.2.1\nnameserver 10.9.2.1\n"
    )


def test_default_nameservers_are_those_of_the_network_or_of_all_and_yield_to_the_plugins() -> None:
    dns = {"nameservers": ["10.0.0.1"], "search": ["lan"]}
    entries = [
        {"network_mode": "CNI", "network_name": "one", "dns": dns},
        {"network_mode": "CNI", "dns": {"nameservers": ["10.0.0.2"]}},
    ]
    defaults = cni.read_default_dns(json.dumps({"mesos": entries, "docker": [{"network_mode": "BRIDGE", "dns": dns}]}))
    bare, own = Answer(ipv4=("10.1.2.3",)), Answer(nameservers=("10.1.2.1",))
    assert cni.with_default("one", bare, defaults) == Answer(("10.1.2.3",), (), ("10.0.0.1",), None, ("lan",))
    assert cni.with_default("two", bare, defaults).nameservers == ("10.0.0.2",)
    assert cni.with_default("one", own, defaults) == own
    assert cni.with_default("one", bare, cni.NO_DNS) == bare
    twice = {"mesos": [entries[1], entries[1]]}
    for text in ("{", "[]", '{"mesos": [{}]}', '{"mesos": [{"network_mode": "HOST", "dns": {}}]}', json.dumps(twice)):
        with pytest.raises(BadInput):
            cni.read_default_dns(text)


def test_a_network_is_joined_once(golden: Golden) -> None:
    assert cni.names_of([{"name": "a"}, {"name": "b"}]) == ["a", "b"]
    with pytest.raises(BadInput) as refused:
        cni.names_of([{"name": "a"}, {"name": "b"}, {"name": "a"}])
    assert str(refused.value) == golden
