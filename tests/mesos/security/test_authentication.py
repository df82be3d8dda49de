from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.mesos.security.authentication import Basic, Bearer, Realm, basic_header, make_token, read_token
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.mesos.security.secrets import without_secrets

SECRETS = {"foo": "bar", "ünï": "pass:word"}
KEY = b"a key that is long enough"
CLAIMS = {"fid": "f", "eid": "e", "cid": "c"}
NOW_S = 1_800_000_000.0


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        (basic_header("foo", "bar"), "foo"),
        (basic_header("ünï", "pass:word"), "ünï"),
        (f"basic {encoded('foo:bar')}", "foo"),
        (None, None),
        ("", None),
        ("Basic", None),
        ("Basic !!!", None),
        ("Basic é", None),
        (f"Basic {encoded('foo')}", None),
        (f"Basic {encoded('foo:')}", None),
        (f"Basic {encoded(':bar')}", None),
        (f"Basic {encoded('foo:baz')}", None),
        (f"Basic {encoded('nobody:bar')}", None),
        (f"Basic {base64.b64encode(b'foo:' + bytes([255])).decode()}", None),
        (f"Bearer {encoded('foo:bar')}", None),
    ],
)
def test_a_secret_shows_who_one_is_and_nothing_else_does(header: str | None, principal: str | None) -> None:
    expected = None if principal is None else Principal(principal)
    assert Basic(SECRETS).authenticate(header, NOW_S) == expected


@given(st.text())
def test_no_header_makes_the_gate_fall_over(header: str) -> None:
    realm = Realm("r", [Basic(SECRETS), Bearer([KEY])])
    assert realm.authenticate(header, NOW_S) is None
    assert realm.authenticate(f"Basic {header}", NOW_S) is None
    assert realm.authenticate(f"Bearer {header}", NOW_S) is None


def test_a_token_carries_its_claims_for_whoever_has_the_key() -> None:
    token = make_token(CLAIMS, KEY)
    assert read_token(token, KEY, NOW_S) == CLAIMS
    assert read_token(token, b"another key", NOW_S) is None
    assert Bearer([KEY]).authenticate(f"Bearer {token}", NOW_S) == Principal(claims=CLAIMS)
    assert not token.endswith("=")


def test_tokens_that_were_signed_with_an_earlier_key_are_valid_while_it_is_listed() -> None:
    token = f"Bearer {make_token(CLAIMS, KEY)}"
    assert Bearer([b"another key", KEY]).authenticate(token, NOW_S) == Principal(claims=CLAIMS)
    assert Bearer([b"another key"]).authenticate(token, NOW_S) is None


def test_a_token_is_worth_nothing_once_anything_in_it_is_changed() -> None:
    token = make_token(CLAIMS, KEY)
    for place in range(len(token)):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        # The last character of a part has bits that no byte is made of.
        if place + 1 < len(token):
            assert read_token(changed, KEY, NOW_S) is None, place


def part(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


HEAD = '{"alg":"HS256"}'


@pytest.mark.parametrize(
    ("head", "payload"),
    [
        ("{}", "{}"),
        ("[]", "{}"),
        ('{"alg":"none"}', "{}"),
        ('{"alg":"HS256","crit":[]}', "{}"),
        (HEAD, "[]"),
        (HEAD, '{"exp":1}'),
        (HEAD, '{"exp":"never"}'),
        (HEAD, "{"),
    ],
)
def test_a_token_that_we_signed_must_still_be_one_that_holds(head: str, payload: str) -> None:
    signed = f"{part(head)}.{part(payload)}"
    signature = hmac.new(KEY, signed.encode(), hashlib.sha256).digest()
    assert read_token(f"{signed}.{base64.urlsafe_b64encode(signature).decode()}", KEY, NOW_S) is None


def test_claims_that_are_no_text_are_read_as_json() -> None:
    token = make_token({"exp": NOW_S + 1, "n": 3, "name": "x"}, KEY)  # type: ignore[dict-item]
    assert read_token(token, KEY, NOW_S) == {"exp": str(NOW_S + 1), "n": "3", "name": "x"}
    assert read_token(token, KEY, NOW_S + 2) is None


def test_a_refusal_names_the_realm_and_all_the_ways_in() -> None:
    one = Realm("mesos-master-readonly", [Basic(SECRETS)])
    assert one.challenge == 'Basic realm="mesos-master-readonly"'
    assert one.refusal == "401 Unauthorized."
    both = Realm("mesos-agent-readwrite", [Basic(SECRETS), Bearer([KEY])])
    assert both.challenge == 'Basic realm="mesos-agent-readwrite",Bearer realm="mesos-agent-readwrite"'
    assert '"Bearer" authenticator returned:\n401 Unauthorized.' in both.refusal


def test_no_secret_is_printed_with_what_holds_it() -> None:
    assert "bar" not in repr(Basic({"foo": "bar"}))
    assert "key" not in repr(Bearer([b"some key"])).replace("Bearer", "")


def test_values_are_left_out_wherever_they_are_and_all_else_stays() -> None:
    secret = {"type": "VALUE", "value": {"data": "aHVzaA=="}}
    volume = {"container_path": "x", "source": {"type": "SECRET", "secret": secret}}
    shown = without_secrets({"container": {"volumes": [volume, {"host_path": "/"}]}, "name": "t"})
    assert shown == {
        "container": {
            "volumes": [
                {"container_path": "x", "source": {"type": "SECRET", "secret": {"type": "VALUE"}}},
                {"host_path": "/"},
            ]
        },
        "name": "t",
    }
    assert secret["value"] == {"data": "aHVzaA=="}


def test_a_document_without_any_is_the_same_object() -> None:
    plain = {"a": [{"secret": {"type": "REFERENCE"}}], "value": 1}
    assert without_secrets(plain) is plain
