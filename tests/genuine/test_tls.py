"""TLS between genuine Mesos and ours, each verifying the other: a genuine master, and genuine drivers on our master.

Its OpenSSL is that of this machine, kept to TLS 1.2, and its ciphers are Mesos' defaults. Not before 1.8: those do not
read behind TLS with the libevent that there is.
"""

from __future__ import annotations

import re
import ssl
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.genuine.frameworks import Framework, MakeFramework
from tests.genuine.master import GenuineMaster, MasterTls
from tests.genuine.recorded_walk import INFO, task, told
from tests.genuine.releases import Release, since
from tests.genuine.services import Service, services, until
from tests.support.tls import Authority

__all__ = ["services"]
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.parametrize("release", since(1, 8), indirect=True),
]
Services = Callable[..., Service]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def variables(authority: Authority) -> dict[str, str]:
    """What everybody has: a certificate that names his address, and the wish to see one of everybody else."""
    certificate, key = authority.issue("node", rsa=True)
    return tls_variables(authority, certificate, key)


def tls_variables(authority: Authority, certificate: Path, key: Path) -> dict[str, str]:
    asked = {"ENABLED": "true", "VERIFY_IPADD": "true", "CA_FILE": authority.certificate}
    asked |= dict.fromkeys(("VERIFY_SERVER_CERT", "REQUIRE_CLIENT_CERT"), "true")
    asked |= dict.fromkeys(("VERIFY_CERT", "REQUIRE_CERT"), "true")  # the names that they had before 1.9
    asked |= {"CERT_FILE": certificate, "KEY_FILE": key}
    return {f"LIBPROCESS_SSL_{name}": str(value) for name, value in asked.items()}


@pytest.fixture(scope="module")
def client(authority: Authority, variables: dict[str, str]) -> ssl.SSLContext:
    """Return what tests ask with; the ciphers are Mesos' defaults, which Python leaves out of its own."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(variables["LIBPROCESS_SSL_CERT_FILE"], variables["LIBPROCESS_SSL_KEY_FILE"])
    context.set_ciphers("AES128-SHA:AES256-SHA")
    return context


@pytest.fixture
def master(
    release: Release, variables: dict[str, str], client: ssl.SSLContext, tmp_path: Path
) -> Iterator[GenuineMaster]:
    master = GenuineMaster(release, tmp_path / "master", MasterTls(variables, client))
    try:
        yield master.start()
    finally:
        master.kill()


def start_agent(
    services: Services, master: str, variables: dict[str, str], folder: Path, *, ready: bool = True
) -> Service:
    flags = (f"--master={master}", f"--work_dir={folder}/work", "--gpu_driver=simulated", "--simulated_gpus=4")
    more = ("--resources=cpus:4;mem:4096;disk:1024", f"--cgroups_root=mesos-test-{uuid.uuid4().hex[:12]}")
    return services("agent", "mesos_gpu.agent.service", *flags, *more, variables=variables, ready=ready)


def test_our_agent_and_marathon_under_a_genuine_master_that_asks_for_certificates(
    master: GenuineMaster, services: Services, variables: dict[str, str], tmp_path: Path
) -> None:
    agent = start_agent(services, master.address, variables, tmp_path)
    flags = (f"--master={master.address}", f"--store_path={tmp_path}/marathon.db", "--hostname=127.0.0.1")
    marathon = services("marathon", "mesos_gpu.marathon.service", *flags, variables=variables)
    app = {"id": "/a", "cmd": "nvidia-smi -L; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 2}
    answer = requests.post(f"{marathon.url}/v2/apps", json=app, timeout=60)
    assert answer.ok, answer.text

    def states() -> list[str]:
        return [t["state"] for t in requests.get(f"{marathon.url}/v2/apps/a/tasks", timeout=60).json()["tasks"]]

    until(lambda: states() == ["TASK_RUNNING"] * 2, agent.log)
    (before,) = master.state()["slaves"]
    master.kill()
    master.start()
    until(
        lambda: (
            [(slave["id"], slave["used_resources"]["gpus"]) for slave in master.state()["slaves"]]
            == [(before["id"], 2)]
        ),
        agent.log,
    )
    assert requests.delete(f"{marathon.url}/v2/apps/a", timeout=60).ok
    until(lambda: [s["used_resources"]["gpus"] for s in master.state()["slaves"]] == [0], agent.log)


def test_who_shows_a_strangers_certificate_does_not_get_in(
    master: GenuineMaster, services: Services, variables: dict[str, str], tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger").issue("node", rsa=True)
    names = ("LIBPROCESS_SSL_CERT_FILE", "LIBPROCESS_SSL_KEY_FILE")
    shown = variables | dict(zip(names, map(str, stranger), strict=True))
    agent = start_agent(services, master.address, shown, tmp_path, ready=False)
    problem = re.compile(rf"{re.escape(master.address)}\b.*\bcertificate\b")
    until(lambda: problem.search(agent.log.read_text()), agent.log)
    until(lambda: re.search(r"after \d\d tries", agent.log.read_text()), agent.log)
    assert master.state()["slaves"] == []


def test_a_genuine_driver_on_our_master_that_asks_for_certificates(
    release: Release,
    services: Services,
    make_framework: MakeFramework,
    variables: dict[str, str],
    client: ssl.SSLContext,
    tmp_path: Path,
) -> None:
    master = services("master", "mesos_gpu.master.service", f"--work_dir={tmp_path}/master/work", variables=variables)
    address = master.url.removeprefix("https://")
    agent = start_agent(services, address, variables, tmp_path)
    driver: Framework = make_framework(release.version, **variables)
    driver.start("A", INFO, address)
    driver.expect("A", "registered")
    (offer,) = driver.expect("A", "resourceOffers")
    driver.launch("A", [offer], task(offer, "one", 1.0, "nvidia-smi -L"))
    assert told(driver, "A", 3) == {"one": ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]}
    driver.call("A", "stop")
    until(lambda: not master.state(client)["frameworks"], agent.log)
