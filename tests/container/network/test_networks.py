"""Containers in networks of real CNI plugins: joined, found again, and left without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.container import Containerizer
from mesos_gpu.container.network.netns import socket_in
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.cni import Answer
from mesos_gpu.container.spec.config import ContainerConfig, SessionConfig
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.container.box import Box
from tests.support.container.cni_networks import PLUGINS, CniNetwork, cni_network, run
from tests.support.container.waiting import until
from tests.support.golden import Golden
from tests.support.ports import free_port

pytestmark = pytest.mark.root

LISTEN = (
    "cat /etc/hosts; cat /etc/hostname; ls /sys/class/net | xargs echo; "
    'exec python3 -c \'import http.server as h; s = h.HTTPServer(("", 80), h.BaseHTTPRequestHandler); '
    'print("ready", flush=True); s.serve_forever()\''
)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[CniNetwork]:
    with cni_network(tmp_path) as network:
        yield network


def networks(box: Box, network: CniNetwork) -> Networks:
    return Networks(
        box.folder / "run" / "isolators" / "network" / "cni",
        network.configs,
        [PLUGINS],
        {"": Answer(nameservers=("192.0.2.53",))},
    )


def joining(box: Box, name: str, info: dict[str, Any], shell: str = LISTEN, **more: Any) -> ContainerConfig:
    return replace(box.config(name, shell=shell), networks=(info,), **more)


def status_of(port: int, host: str = "127.0.0.1") -> int:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_a_container_in_a_network_has_an_address_a_name_and_its_ports_on_the_host(
    box: Box, network: CniNetwork, runtime: str, golden: Golden
) -> None:
    network.write_chain()
    containerizer = await box.open(networks=networks(box, network), runtimes=(runtime,))
    port = free_port()
    info = network.info((port, 80))
    await containerizer.launch(joining(box, "one", info, hostname="web-1"))
    await containerizer.launch(joining(box, "two", network.info()))
    for name in ("one", "two"):
        await asyncio.to_thread(box.until_said, name, "ready")
    (shown,) = containerizer.network_infos("one")
    (address,) = shown["ip_addresses"]
    assert address == {"protocol": "IPv4", "ip_address": f"{network.prefix}.2"}
    assert {key: value for key, value in shown.items() if key != "ip_addresses"} == info
    assert await asyncio.to_thread(status_of, port) == 501, "by the host's port"
    assert await asyncio.to_thread(status_of, 80, f"{network.prefix}.3") == 501, "both have a port 80"
    assert box.said("one").splitlines()[:4] == ["127.0.0.1 localhost", f"{network.prefix}.2 web-1", "web-1", "eth0 lo"]
    assert box.said("two").splitlines()[1:3] == [f"{network.prefix}.3 two", "two"]

    child = replace(
        box.config("one.child", shell="hostname; cat /etc/hosts /etc/resolv.conf; ls /sys/class/net | xargs echo"),
        mem_bytes=0,
    )
    await containerizer.launch(child)
    assert (await containerizer.wait("one.child")).exit_code == 0
    assert box.said("one.child").splitlines() == [
        "web-1",
        "127.0.0.1 localhost",
        f"{network.prefix}.2 web-1",
        "nameserver 192.0.2.53",
        "eth0 lo",
    ]
    namespace = containerizer.network_namespace("one")
    assert namespace is not None
    with socket_in(namespace, socket.AF_INET, socket.SOCK_STREAM) as inside:
        inside.connect(("127.0.0.1", 80))
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(joining(box, "one.other", info))
    assert str(refused.value) == golden

    await containerizer.destroy("one")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    await containerizer.destroy("two")
    assert network.left() == []


async def test_networks_outlive_the_agent_and_are_left_by_the_next(box: Box, network: CniNetwork) -> None:
    network.write_chain()
    first = await box.open(networks=networks(box, network))
    port = free_port()
    for name in ("stays", "ended", "stray"):
        await first.launch(joining(box, name, network.info(*[(port, 80)] * (name == "stays"))))
        await asyncio.to_thread(box.until_said, name, "ready")
    pid = first.pid_of("ended")
    assert pid is not None
    await first.close()
    os.kill(pid, signal.SIGKILL)  # before the next agent is there
    await asyncio.to_thread(box.until_exit_file, "ended")
    for file in network.configs.iterdir():
        file.unlink()  # what is left is left as it was joined

    second = await box.open({"stays", "ended"}, networks=networks(box, network))
    assert (await second.wait("ended")).signal == 9
    (shown,) = second.network_infos("stays")
    assert [one["ip_address"] for one in shown["ip_addresses"]] == [f"{network.prefix}.2"]
    assert len(list(network.leases.glob(f"*/{network.prefix}.*"))) == 1, "only that of the one that stays"
    assert await asyncio.to_thread(status_of, port) == 501
    attachment = await second.enter(SessionConfig("stays.session", Command(value="hostname; ls /sys/class/net")))
    said = b"".join([data async for stream, data in attachment if stream == "STDOUT"])
    assert said.split() == [b"stays", b"eth0", b"lo"]
    await second.destroy("stays")
    assert network.left() == []


async def test_mesos_port_mapper_is_understood_and_maps_ports(box: Box, network: CniNetwork) -> None:
    delegate = network.bridge_plugin()
    network.write(
        {"type": "mesos-cni-port-mapper", "chain": "MESOS", "excludeDevices": [network.bridge], "delegate": delegate},
        "n.cni",
    )
    containerizer = await box.open(networks=networks(box, network))
    port = free_port()
    await containerizer.launch(joining(box, "one", network.info((port, 80))))
    await asyncio.to_thread(box.until_said, "one", "ready")
    assert await asyncio.to_thread(status_of, port) == 501
    await containerizer.destroy("one")
    assert network.left() == []


async def test_a_failed_join_leaves_nothing(box: Box, network: CniNetwork, tmp_path: Path, golden: Golden) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    error = '{"code": 7, "msg": "no", "details": "way"}'
    script = f"#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = DEL ] || {{ echo '{error}'; exit 1; }}\n"
    (plugins / "broken").write_text(script)
    (plugins / "broken").chmod(0o755)
    network.write({"cniVersion": "0.4.0", "plugins": [network.bridge_plugin(), {"type": "broken"}]})
    (network.configs / "absent.conf").write_text(json.dumps({"name": "absent", "type": "nowhere"}))
    folder = box.folder / "run" / "isolators" / "network" / "cni"
    containerizer = await box.open(networks=Networks(folder, network.configs, [PLUGINS, plugins]))
    with pytest.raises(ContainerError) as failed:
        await containerizer.launch(joining(box, "one", network.info()))
    assert str(failed.value) == golden.hide(network=network.name)
    for name in ("absent", "other"):
        with pytest.raises(BadInput) as refused:
            await containerizer.launch(joining(box, name, {"name": name}))
        assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(replace(box.config("twice", "true"), networks=(network.info(), network.info())))
    assert str(refused.value) == golden
    assert network.left() == []
    assert list(folder.iterdir()) == []


async def test_without_networks_a_container_may_still_have_a_host_name(
    containerizer: Containerizer, box: Box, golden: Golden
) -> None:
    own = replace(box.config("named", shell="hostname; tail -1 /etc/hosts"), hostname="trainer")
    await containerizer.launch(own)
    await containerizer.wait("named")
    assert box.said("named").splitlines() == ["trainer", "127.0.1.1 trainer"]
    assert socket.gethostname() != "trainer"
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(joining(box, "one", {"name": "x"}))
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(replace(own, container_id="bad", hostname="-"))
    assert str(refused.value) == golden


async def test_after_a_restart_of_the_machine_addresses_are_given_back(
    box: Box, network: CniNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    network.write(network.bridge_plugin(ipMasq=False), "plain.conf")  # in the oldest form, without a version
    first = await box.open(networks=networks(box, network))
    pid = await first.launch(joining(box, "one", network.info(), shell="sleep 1000"))
    (shown,) = first.network_infos("one")
    assert [one["ip_address"] for one in shown["ip_addresses"]] == [f"{network.prefix}.2"]
    await first.close()
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(box.until_exit_file, "one")
    state = box.folder / "run" / "isolators" / "network" / "cni" / "one"
    run("umount", str(state / "ns"))
    assert list(network.leases.glob(f"*/{network.prefix}.2"))

    await box.open((), networks=networks(box, network))
    assert not state.exists()
    assert network.left() == []
    assert network.name not in caplog.text, "it was left without an error"


async def test_whoever_gives_up_or_is_killed_while_a_plugin_runs_leaves_nothing(
    box: Box, network: CniNetwork, tmp_path: Path
) -> None:
    plugins, begun, go_on = tmp_path / "plugins", tmp_path / "begun", tmp_path / "go"
    plugins.mkdir()
    wait = f"touch {begun}; until [ -e {go_on} ]; do sleep 0.02; done; echo '{{}}'"
    (plugins / "slow").write_text(f"#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = DEL ] || {{ {wait}; }}\n")
    (plugins / "slow").chmod(0o755)
    network.write({"cniVersion": "0.4.0", "plugins": [network.bridge_plugin(), {"type": "slow"}]})
    folder = box.folder / "run" / "isolators" / "network" / "cni"
    first = Networks(folder, network.configs, [PLUGINS, plugins])
    containerizer = await box.open(networks=first)
    launch = asyncio.ensure_future(containerizer.launch(joining(box, "one", network.info())))
    await asyncio.to_thread(until, begun.exists)
    assert network.left() != []

    after_a_kill = Networks(folder, network.configs, [PLUGINS, plugins])
    await after_a_kill.recover({})
    after_a_kill.close()
    assert network.left() == []
    assert list(folder.iterdir()) == []

    launch.cancel()
    go_on.touch()
    with pytest.raises(asyncio.CancelledError):
        await launch
    assert containerizer.containers() == frozenset()
    begun.unlink()
    go_on.unlink()
    launch = asyncio.ensure_future(containerizer.launch(joining(box, "two", network.info())))
    await asyncio.to_thread(until, begun.exists)
    launch.cancel()
    go_on.touch()
    with pytest.raises(asyncio.CancelledError):
        await launch
    assert network.left() == []
    assert list(folder.iterdir()) == []
