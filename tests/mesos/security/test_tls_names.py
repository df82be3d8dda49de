"""Whose certificate it is, by libprocess' scheme `legacy`."""

from __future__ import annotations

import pytest

from mesos_gpu.mesos.security.tls_names import not_of
from tests.support.golden import Golden

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
