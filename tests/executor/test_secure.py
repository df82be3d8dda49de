"""The default executor under an agent that speaks TLS, by the variables that its agent hands on."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.executor import secure as secure_module
from mesos_gpu.executor.main import wrap_of
from mesos_gpu.executor.secure import Secure, open_secure
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.process.secure.tls import Tls
from tests.fakes.container_agent import ContainerAgent
from tests.support.executor import PROGRAM, Pod, task
from tests.support.golden import Golden
from tests.support.tls import Authority

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    made.issue("node")
    made.issue("far", kind="elsewhere")
    return made


def files(authority: Authority, name: str = "node") -> tuple[Path, Path]:
    folder = authority.certificate.parent
    return folder / f"{name}.pem", folder / f"{name}.key"


def variables(authority: Authority, **more: str) -> dict[str, str]:
    certificate, key = files(authority)
    found = {"ENABLED": "1", "CERT_FILE": str(certificate), "KEY_FILE": str(key), "CA_FILE": str(authority.certificate)}
    strict = {"REQUIRE_CLIENT_CERT": "1", "VERIFY_IPADD": "1"}
    return {f"LIBPROCESS_SSL_{name}": text for name, text in {**found, **strict, **more}.items()}


async def test_a_group_runs_over_tls_with_certificates_at_both_ends(authority: Authority, tmp_path: Path) -> None:
    tls = Tls(replace(settings(authority), verify_ip=True, require_client=True))
    pod = Pod(await ContainerAgent().start(tls=tls), tmp_path)
    try:
        await pod.start(**variables(authority, HOSTNAME_VALIDATION_SCHEME="openssl"))
        containers = await pod.launch(task("a"))
        pod.agent.end(containers["a"], exit_status=0)
        assert await pod.exit_status() == 0
        assert pod.agent.states("a")[-1] == "TASK_FINISHED"
    finally:
        if pod.process is not None and pod.process.returncode is None:
            pod.process.kill()
            await pod.process.wait()
        await pod.agent.stop()


async def test_what_cannot_be_done_is_said_and_ends_the_program(authority: Authority) -> None:
    environment = {"MESOS_AGENT_ENDPOINT": "127.0.0.1:1", "MESOS_FRAMEWORK_ID": "F", "MESOS_EXECUTOR_ID": "pod"}
    missing = {**environment, **variables(authority, CA_FILE="/no/ca.pem")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", str(PROGRAM), env=missing, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b"/no/ca.pem: No such file" in said


@contextmanager
def connected(authority: Authority, name: str) -> Iterator[socket.socket]:
    """A connection to somebody with that certificate, who ends it after the handshake."""
    context = authority.server_context(*files(authority, name))
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            context.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join()


def settings(authority: Authority) -> TlsSettings:
    certificate, key = files(authority)
    return TlsSettings(str(certificate), str(key), ca_file=str(authority.certificate), verify_server=True)


@pytest.mark.parametrize("scheme", ["legacy", "openssl"])
def test_another_servers_certificate_is_refused_in_words(authority: Authority, scheme: str, golden: Golden) -> None:
    secure = Secure(replace(settings(authority), scheme=scheme, verify_ip=True))
    with connected(authority, "node") as connection:
        secure.wrap(connection, "127.0.0.1").close()
    words = "its certificate is for elsewhere.example.org" if scheme == "legacy" else "is for another address"
    with connected(authority, "far") as connection, pytest.raises(Unavailable, match=words):
        secure.wrap(connection, "127.0.0.1")
    with connected(authority, "far") as connection, pytest.raises(Unavailable) as refused:
        secure.wrap(connection, "192.0.2.1")  # an address without a name
    assert str(refused.value) == golden


def test_an_agents_name_is_not_known_so_openssl_needs_its_address(authority: Authority) -> None:
    with pytest.raises(BadInput, match="VERIFY_IPADD"):
        Secure(replace(settings(authority), scheme="openssl"))


def test_a_key_that_a_user_may_not_read_is_not_shown(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_module.os, "access", lambda path, mode: False)
    unreadable = replace(settings(authority), cert_file="/no/cert.pem", key_file="/no/key.pem", verify_ip=True)
    with connected(authority, "node") as connection:
        Secure(unreadable).wrap(connection, "127.0.0.1").close()


def test_nothing_is_wrapped_unless_it_is_switched_on(authority: Authority) -> None:
    assert wrap_of({}) is None
    assert wrap_of(variables(authority, ENABLED="0")) is None
    assert open_secure({}) is None
    assert wrap_of(variables(authority)) is not None
