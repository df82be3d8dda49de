"""LIBPROCESS_SSL_* as libprocess reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.flags import flags_of
from mesos_gpu.mesos.security.tls_names import not_of
from mesos_gpu.mesos.security.tls_settings import (
    CIPHERS,
    MESOS_CIPHERS,
    TlsFlags,
    TlsSettings,
    read_tls_settings,
    tls_variables,
)
from tests.support.golden import Golden

LEAST = {"LIBPROCESS_SSL_ENABLED": "1", "LIBPROCESS_SSL_KEY_FILE": "/k.pem", "LIBPROCESS_SSL_CERT_FILE": "/c.pem"}


def read(**more: str) -> TlsSettings:
    settings, _ = read_tls_settings({**LEAST, **{f"LIBPROCESS_SSL_{name}": text for name, text in more.items()}})
    assert settings is not None
    return settings


def said(**more: str) -> str:
    return "\n".join(read_tls_settings({**LEAST, **{f"LIBPROCESS_SSL_{n}": text for n, text in more.items()}})[1])


@pytest.mark.parametrize("environ", [{}, {**LEAST, "LIBPROCESS_SSL_ENABLED": "false"}, {"LIBPROCESS_SSL_CA_FILE": "x"}])
def test_tls_is_off_unless_it_is_enabled(environ: dict[str, str]) -> None:
    assert read_tls_settings(environ) == (None, [])


def test_defaults_are_those_of_mesos_with_todays_ciphers_before_its_own() -> None:
    assert read() == TlsSettings("/c.pem", "/k.pem")
    assert read().ciphers == CIPHERS
    assert CIPHERS.endswith(MESOS_CIPHERS)
    assert (read().tls_1_2, read().tls_1_3, read().scheme) == (True, False, "legacy")


def test_every_setting_is_read() -> None:
    found = read(
        CA_FILE="/ca.pem",
        CA_DIR="/ca",
        VERIFY_SERVER_CERT="true",
        REQUIRE_CLIENT_CERT="TRUE",
        VERIFY_IPADD="1",
        SUPPORT_DOWNGRADE="1",
        HOSTNAME_VALIDATION_SCHEME="openssl",
        CIPHERS="AES128-SHA",
        ECDH_CURVES="prime256v1",
        ENABLE_TLS_V1_2="0",
        ENABLE_TLS_V1_3="1",
    )
    wanted = TlsSettings("/c.pem", "/k.pem", "/ca.pem", "/ca", True, True, True, True, "openssl", "AES128-SHA")
    assert (found.curve, found.tls_1_2, found.tls_1_3) == ("prime256v1", False, True)
    assert found == TlsSettings(
        *(getattr(wanted, name) for name in TlsSettings.__slots__[:10]), "prime256v1", False, True
    )


@pytest.mark.parametrize(
    ("old", "new"), [("VERIFY_CERT", "VERIFY_SERVER_CERT"), ("REQUIRE_CERT", "REQUIRE_CLIENT_CERT")]
)
def test_older_names_of_a_switch_do_the_same(old: str, new: str) -> None:
    assert read(**{old: "1"}) == read(**{new: "1"}) != read()
    assert read(**{old: "1", new: "0"}) == read(**{new: "1"})


def test_clients_certificates_are_not_asked_for_without_verifying_servers(golden: Golden) -> None:
    assert read(REQUIRE_CLIENT_CERT="1").verify_server
    assert said(REQUIRE_CLIENT_CERT="1") == golden
    assert said(REQUIRE_CLIENT_CERT="1", VERIFY_SERVER_CERT="1") == ""


def test_the_log_says_what_is_weak(golden: Golden) -> None:
    assert said() == golden
    assert said(VERIFY_SERVER_CERT="1") == ""
    assert said(VERIFY_SERVER_CERT="1", SUPPORT_DOWNGRADE="1") == golden
    assert said(SUPPORT_DOWNGRADE="1") == golden
    assert said(ENABLE_TLS_V1_0="1") == golden
    assert said(VERIFY_DEPTH="2") == golden
    assert "VERIFICATION_DEPTH" not in said(VERIFICATION_DEPTH="4")


def test_names_from_before_1_0_count_where_the_new_one_is_not_set(golden: Golden) -> None:
    old = {name.removeprefix("LIBPROCESS_"): text for name, text in LEAST.items()}
    assert read_tls_settings(old)[0] == read()
    settings, words = read_tls_settings({**LEAST, "SSL_KEY_FILE": "/other.pem", "SSL_ENABLED": "1"})
    assert settings == read()
    assert words[0] == golden
    assert "ENABLED" not in "\n".join(words)


def test_openssls_own_name_for_whom_to_trust_does_not_get_in_the_way() -> None:
    settings, words = read_tls_settings({**LEAST, "SSL_CERT_FILE": "/etc/ssl/bundle.pem"})
    assert settings == read()
    assert "SSL_CERT_FILE" not in "\n".join(words)


def test_variables_are_handed_on_under_their_new_names_and_nothing_else_is() -> None:
    environ = {"SSL_ENABLED": "1", "SSL_KEY_FILE": "/old", "LIBPROCESS_SSL_KEY_FILE": "/k", "LIBPROCESS_IP": "::1"}
    assert tls_variables({**environ, "HOME": "/", "SSL_SOMETHING": "1"}) == {
        "LIBPROCESS_SSL_ENABLED": "1",
        "LIBPROCESS_SSL_KEY_FILE": "/k",
    }


@pytest.mark.parametrize(
    "more",
    [
        {"LIBPROCESS_SSL_KEY_FILE": ""},
        {"LIBPROCESS_SSL_CERT_FILE": ""},
        {"LIBPROCESS_SSL_HOSTNAME_VALIDATION_SCHEME": "mine"},
        {"LIBPROCESS_SSL_ENABLED": "maybe"},
        {"LIBPROCESS_SSL_ENABLE_TLS_V1_2": "0", "LIBPROCESS_SSL_ENABLE_TLS_V1_0": "1"},
        {"LIBPROCESS_SSL_ECDH_CURVE": "P-521:P-384"},
        {"LIBPROCESS_SSL_VERIFICATION_DEPTH": "deep"},
    ],
    ids=["no key", "no certificate", "scheme", "enabled", "no protocol", "two curves", "depth"],
)
def test_what_cannot_be_done_as_asked_is_refused(more: dict[str, str], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_tls_settings({**LEAST, **more})
    assert str(refused.value) == golden


@given(
    st.dictionaries(
        st.sampled_from([p + f.name.upper() for f in flags_of(TlsFlags) for p in ("SSL_", "LIBPROCESS_SSL_")]),
        st.sampled_from(["", "0", "1", "true", "openssl", "legacy", "/file", "auto"]),
    )
)
def test_any_environment_is_read_or_refused_in_words_and_verifying_clients_verifies_servers(
    environ: dict[str, str],
) -> None:
    try:
        settings, _ = read_tls_settings(environ)
    except BadInput as error:
        assert "SSL" in str(error)  # noqa: PT017
        return
    if settings is not None:
        assert settings.verify_server or not settings.require_client
        assert settings.cert_file
        assert settings.key_file
    assert read_tls_settings(tls_variables(environ))[0] == settings


IP = "10.0.0.7"
BOTH = {
    "subject": ((("organizationName", "Example"),), (("commonName", "m1.example.org"),)),
    "subjectAltName": (("DNS", "node.example.org"), ("IP Address", IP), ("IP Address", "FD00:0:0:0:0:0:0:7")),
}
NAME_ONLY = {"subject": ((("commonName", "m1.example.org"),),)}


@pytest.mark.parametrize("name", ["node.example.org", "m1.example.org"])
def test_an_alternative_name_or_the_common_name_is_enough(name: str) -> None:
    assert not_of(BOTH, "10.9.9.9", name, by_ip=False) is None


@pytest.mark.parametrize("ip", [IP, "fd00::7"])
def test_the_address_is_enough_where_that_is_switched_on(ip: str) -> None:
    assert not_of(BOTH, ip, None, by_ip=True) is None
    assert not_of(BOTH, ip, "other.example.org", by_ip=True) is None
    assert not_of(BOTH, ip, "other.example.org", by_ip=False) is not None


@pytest.mark.parametrize("name", ["NODE.example.org", "a.node.example.org", "node", "example.org", IP])
def test_names_are_compared_to_the_letter(name: str) -> None:
    assert not_of(BOTH, "10.9.9.9", name, by_ip=True) is not None


def test_a_wildcard_is_a_name_like_any_other(golden: Golden) -> None:
    wild = {"subjectAltName": (("DNS", "*.example.org"),)}
    assert not_of(wild, IP, "node.example.org", by_ip=True) == golden


def test_a_peer_without_a_name_is_nobody_unless_the_address_counts(golden: Golden) -> None:
    assert str(not_of(NAME_ONLY, IP, None, by_ip=False)) == golden
    assert not_of(NAME_ONLY, IP, None, by_ip=True) == golden


def test_no_certificate_is_nobodys(golden: Golden) -> None:
    assert not_of({}, IP, "m1", by_ip=True) == golden
