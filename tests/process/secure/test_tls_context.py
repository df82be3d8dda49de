"""TLS contexts from settings: files that are not what they should be are told from each other."""

from __future__ import annotations

import re
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.security.tls_settings import MESOS_CIPHERS, TlsSettings
from mesos_gpu.process.secure.tls_context import (
    client_context,
    expires_soon,
    own_certificate,
    server_context,
    tls_problem,
)
from tests.support.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    for name in ("one", "two"):
        made.issue(name)
    return made


@pytest.fixture
def settings(authority: Authority) -> TlsSettings:
    folder = authority.certificate.parent
    return TlsSettings(str(folder / "one.pem"), str(folder / "one.key"), ca_file=str(authority.certificate))


def test_nobody_is_verified_unless_it_is_asked_for(settings: TlsSettings) -> None:
    assert server_context(settings).verify_mode == client_context(settings).verify_mode == ssl.CERT_NONE
    strict = replace(settings, verify_server=True, require_client=True)
    assert server_context(strict).verify_mode == client_context(strict).verify_mode == ssl.CERT_REQUIRED
    assert not client_context(strict).check_hostname
    assert client_context(replace(strict, scheme="openssl")).check_hostname


def test_without_a_named_authority_those_of_the_machine_are_trusted(settings: TlsSettings) -> None:
    mine = client_context(replace(settings, verify_server=True, ca_file=None))
    system = ssl.create_default_context()
    assert mine.cert_store_stats() == system.cert_store_stats()


def test_protocols_are_those_switched_on(settings: TlsSettings) -> None:
    both = server_context(replace(settings, tls_1_3=True))
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert server_context(settings).maximum_version == ssl.TLSVersion.TLSv1_2


def test_what_mesos_offers_by_default_is_among_our_ciphers_as_far_as_openssl_has_it(settings: TlsSettings) -> None:
    ours = [cipher["name"] for cipher in server_context(settings).get_ciphers()]
    for name in ("AES128-SHA", "DHE-RSA-AES256-SHA"):
        assert name in MESOS_CIPHERS
        assert name in ours
    assert ours.index("ECDHE-RSA-AES256-GCM-SHA384") < ours.index("AES128-SHA")


def test_files_that_cannot_be_used_are_named(settings: TlsSettings, tmp_path: Path) -> None:
    folder, empty, locked = Path(settings.key_file).parent, tmp_path / "empty.pem", tmp_path / "locked.key"
    empty.write_text("nothing\n")
    subprocess.run(
        ["openssl", "pkey", "-in", settings.key_file, "-aes256", "-passout", "pass:secret", "-out", str(locked)],
        check=True,
        capture_output=True,
    )
    for name, value in (
        ("cert_file", "/no/such.pem"),
        ("key_file", str(tmp_path)),
        ("key_file", str(folder / "two.key")),
        ("cert_file", str(empty)),
        ("key_file", str(locked)),
        ("ca_file", str(empty)),
        ("ca_file", "/no/ca.pem"),
        ("ciphers", "NONSENSE"),
        ("curve", "round"),
    ):
        changed: dict[str, Any] = {name: value}
        with pytest.raises(BadInput, match=re.escape(value)):
            client_context(replace(settings, verify_server=True, **changed))


def test_who_shows_no_certificate_needs_no_key(settings: TlsSettings) -> None:
    without = replace(settings, cert_file="/not/for/us", key_file="/not/for/us", verify_server=True)
    assert client_context(without, show_certificate=False).verify_mode == ssl.CERT_REQUIRED


def test_problems_nobody_has_words_for_keep_their_own() -> None:
    assert tls_problem(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert tls_problem(ValueError("something else")) == "something else"
    assert tls_problem(OSError()) == "OSError"


def test_ones_own_certificate_is_refused_when_it_has_expired(settings: TlsSettings, authority: Authority) -> None:
    assert {"notBefore", "notAfter"} <= own_certificate(settings).keys()
    certificate, key = authority.issue("expired", expired=True)
    with pytest.raises(BadInput, match=str(certificate)):
        own_certificate(replace(settings, cert_file=str(certificate), key_file=str(key)))
    certificate, key = authority.issue("for-clients", kind="client")
    assert "notAfter" in own_certificate(replace(settings, cert_file=str(certificate), key_file=str(key)))
    certificate, key = authority.issue("expired-for-clients", kind="client", expired=True)
    with pytest.raises(BadInput, match=str(certificate)):
        own_certificate(replace(settings, cert_file=str(certificate), key_file=str(key)))


@pytest.mark.parametrize(
    ("end", "days_left", "soon"),
    [
        ("Jan  1 00:00:00 2027 GMT", 31, False),
        ("Jan  1 00:00:00 2027 GMT", 29, True),
        ("Jan  1 00:00:00 2027 GMT", -1, True),
        ("Jan  6 00:00:00 2026 GMT", 2, False),
        ("Jan  6 00:00:00 2026 GMT", 0.9, True),
    ],
)
def test_a_certificate_expires_soon_by_its_days_and_by_its_life(end: str, days_left: float, soon: bool) -> None:
    certificate = {"notBefore": "Jan  1 00:00:00 2026 GMT", "notAfter": end}
    assert expires_soon(certificate, ssl.cert_time_to_seconds(end) - days_left * 86400) is soon
    assert not expires_soon({}, 0.0)
