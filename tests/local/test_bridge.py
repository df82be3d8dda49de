"""The network of a box: a subnet that nobody else has."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.container.spec import cni
from mesos_gpu.local.bridge import FILE, POOL, bridge_name, choose_subnet, configuration, routed, subnet_of
from mesos_gpu.local.network import prepare_network, remove_network
from mesos_gpu.local.plan import box_id, networks_dir

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
ROUTES = HEAD + (
    "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "br0\t0000FE0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "short\n"
)

networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False),
    st.integers(0, 2**32 - 1) | st.integers(int(POOL.network_address), int(POOL.broadcast_address)),
    st.integers(14, 32),
)
ids = st.integers(0, 2**32 - 1).map(lambda number: f"{number:08x}")


def test_routes_are_read_and_the_default_one_takes_nothing() -> None:
    assert routed(ROUTES) == [IPv4Network("192.0.2.0/24"), IPv4Network("10.254.0.0/16")]
    assert choose_subnet(routed(ROUTES), "00000001") is None, "all of the pool is routed"


@given(taken=st.lists(networks, max_size=6), name=ids, before=st.none() | networks)
def test_a_subnet_overlaps_with_nothing_and_is_kept_while_it_is_free(
    taken: list[IPv4Network], name: str, before: IPv4Network | None
) -> None:
    found = choose_subnet(taken, name, before)
    if before is not None and not any(before.overlaps(one) for one in taken):
        assert found == before
    elif found is None:
        assert all(any(subnet.overlaps(one) for one in taken) for subnet in POOL.subnets(new_prefix=24))
    else:
        assert found.subnet_of(POOL)
        assert not any(found.overlaps(one) for one in taken)


@given(name=ids)
def test_the_configuration_is_one_that_an_agent_understands(name: str) -> None:
    subnet = IPv4Network("10.254.7.0/24")
    document = configuration(name, subnet, "/leases")
    network = cni.read_network(json.dumps(document), lambda plugin: True)
    assert (network.name, network.programs()) == ("mesos-bridge", ("bridge", "host-local", "portmap"))
    assert subnet_of(document) == subnet
    assert len(bridge_name(name)) <= 15, "the kernel takes no more"


def test_a_box_keeps_its_subnet_and_writes_over_what_it_cannot_read(tmp_path: Path) -> None:
    path = networks_dir(tmp_path) / FILE
    prepare_network(tmp_path)
    first = subnet_of(json.loads(path.read_bytes()))
    assert first is not None
    other = next(one for one in POOL.subnets(new_prefix=24) if choose_subnet(_routes(), "0", one) == one != first)
    path.write_text(json.dumps(configuration(box_id(tmp_path), other, "/leases")))
    prepare_network(tmp_path)
    assert subnet_of(json.loads(path.read_bytes())) == other
    path.write_text("{")
    prepare_network(tmp_path)
    assert subnet_of(json.loads(path.read_bytes())) == first
    remove_network(tmp_path)  # there is no bridge yet


def _routes() -> list[IPv4Network]:
    return routed(Path("/proc/net/route").read_text())
