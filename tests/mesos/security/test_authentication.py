from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authentication import Basic, Bearer, Realm, basic_header, make_token, read_token
from mesos_gpu.mesos.security.authorization import ACTIONS, OPEN, Acls, Kind, Principal, read_acls
from mesos_gpu.mesos.security.browser_logins import (
    MOST_SESSIONS,
    MOST_TICKETS,
    SESSION_S,
    TICKET_S,
    BrowserLogins,
    Session,
)
from mesos_gpu.mesos.security.cram_md5 import (
    ERROR,
    MECHANISMS,
    START,
    STEP,
    Credential,
    Progress,
    Said,
    authenticatee,
    authenticator,
    proof,
    read_credential,
    read_credentials,
)
from mesos_gpu.mesos.security.secrets import without_secrets
from tests.support.golden import Golden

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


TIM = Credential("tim", "tanstaaftanstaaf")
CHALLENGE = b"<1896.697170952@postoffice.reston.mci.net>"
OFFER: Document = {"mechanisms": ["CRAM-MD5"]}
words = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters=" "), min_size=1, max_size=20)


def over_the_wire(said: Said) -> tuple[str, Document]:
    assert said.name is not None
    full_name = f"mesos.internal.{said.name}"
    return said.name, decode(full_name, encode(full_name, said.document))


def converse(credential: Credential, known: dict[str, str], challenge: bytes) -> tuple[Said, Said]:
    """Both sides to the end, each message as bytes between them; returns their last words."""
    agent = Said(Progress.ASKED)
    master = Said(Progress.ASKED, MECHANISMS, OFFER)
    while True:
        agent = authenticatee(agent.progress, credential, *over_the_wire(master))
        if agent.name is None:
            return agent, master
        master = authenticator(master.progress, challenge, known, *over_the_wire(agent))


def test_the_proof_is_that_of_the_rfc() -> None:
    assert proof(TIM, CHALLENGE) == b"tim b913a602c7eda7a495b4e6e7334d3890"


@given(words, words, st.binary(max_size=60))
def test_who_has_the_secret_is_known(principal: str, secret: str, challenge: bytes) -> None:
    agent, master = converse(Credential(principal, secret), {"other": "x", principal: secret}, challenge)
    assert (agent.progress, master.progress, master.principal) == (Progress.DONE, Progress.DONE, principal)


@pytest.mark.parametrize("known", [{}, {"tim": "wrong"}, {"tim": ""}, {"other": "tanstaaftanstaaf"}])
def test_who_has_not_is_refused(known: dict[str, str]) -> None:
    agent, master = converse(TIM, known, CHALLENGE)
    assert (agent.progress, master.progress) == (Progress.REFUSED, Progress.REFUSED)


def test_what_comes_out_of_turn_breaks_the_conversation_off_on_both_sides() -> None:
    step = {"data": base64.b64encode(CHALLENGE).decode()}
    for progress, name, document in (
        (Progress.ASKED, STEP, step),
        (Progress.ASKED, "AuthenticationCompletedMessage", {}),
        (Progress.STARTED, MECHANISMS, OFFER),
        (Progress.ASKED, MECHANISMS, {"mechanisms": ["SCRAM"]}),
        (Progress.STARTED, ERROR, {"error": "no"}),
    ):
        assert authenticatee(progress, TIM, name, document).progress is Progress.BROKEN
    for progress, name, document in (
        (Progress.ASKED, STEP, step),
        (Progress.STARTED, START, {"mechanism": "CRAM-MD5"}),
        (Progress.ASKED, START, {"mechanism": "PLAIN"}),
        (Progress.STARTED, STEP, {"data": base64.b64encode(b"nospace").decode()}),
        (Progress.STARTED, "NoSuchMessage", {}),
    ):
        said = authenticator(progress, CHALLENGE, {"tim": "x"}, name, document)
        assert (said.progress, said.name) == (Progress.BROKEN, ERROR)


def test_credentials_are_read_in_both_of_mesos_forms() -> None:
    assert read_credential("credential", '{"principal": "tim", "secret": "s"}') == Credential("tim", "s")
    assert read_credential("credential", "tim s\n") == Credential("tim", "s")
    both = '{"credentials": [{"principal": "a", "secret": "1"}, {"principal": "b", "secret": "2"}]}'
    assert read_credentials("credentials", both) == read_credentials("credentials", "a 1\n\n b 2\n")


@pytest.mark.parametrize(
    "text", ["", "a 1\nb 2", "one", "{", "[1]", '{"principal": "a"}', '{"principal": 1, "secret": 2}']
)
def test_a_file_without_one_credential_is_refused_and_no_secret_shown(text: str) -> None:
    with pytest.raises(BadFlag):
        read_credential("credential", text)
    with pytest.raises(BadFlag) as refused:
        read_credentials("credentials", "tim hush hush")
    assert "hush" not in str(refused.value)
    assert "tanstaaf" not in repr(TIM)


ME, OTHER = 1000, 1001


def let_in(logins: BrowserLogins, now_s: float = 0.0) -> None:
    logins.issue("ticket", uid=ME, mesos="Basic x", now_s=now_s)
    assert logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=now_s)


def test_a_ticket_is_exchanged_once() -> None:
    logins = BrowserLogins()
    let_in(logins)
    assert logins.session("c", "k", 1.0) == Session("Basic x", SESSION_S)
    assert not logins.redeem("ticket", uid=ME, cookie="d", key="l", now_s=1.0)
    assert logins.session("d", "l", 1.0) is None


def test_a_ticket_that_another_user_shows_is_refused_and_as_good_as_before() -> None:
    logins = BrowserLogins()
    logins.issue("ticket", uid=ME, mesos=None, now_s=0.0)
    for uid in (OTHER, None):
        assert not logins.redeem("ticket", uid=uid, cookie="c", key="k", now_s=1.0)
    assert logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=2.0)


def test_a_ticket_does_not_wait_for_ever_and_is_gone_then() -> None:
    logins = BrowserLogins()
    logins.issue("ticket", uid=ME, mesos=None, now_s=0.0)
    assert not logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=TICKET_S)
    assert not logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=0.0)


def test_a_session_needs_both_halves_and_ends() -> None:
    logins = BrowserLogins()
    let_in(logins)
    for cookie, key in (("c", None), (None, "k"), ("c", "x"), ("x", "k"), ("k", "c"), ("", ""), ("ck", "")):
        assert logins.session(cookie, key, 1.0) is None
        logins.end(cookie, key)
    assert logins.session("c", "k", SESSION_S - 1.0) is not None
    assert logins.session("c", "k", SESSION_S) is None
    logins.end("c", "k")
    assert logins.session("c", "k", 1.0) is None


def test_what_is_secret_is_not_shown() -> None:
    logins = BrowserLogins()
    let_in(logins)
    assert "Basic" not in repr(logins.session("c", "k", 1.0))
    assert not [value for value in vars(logins).values() if "ticket" in repr(value) or "'c'" in repr(value)]


@given(st.lists(st.tuples(st.sampled_from(["issue", "redeem", "steal"]), st.integers(0, 5), st.integers(0, 80))))
def test_nobody_is_let_in_but_by_a_ticket_of_his_that_was_not_used(history: list[tuple[str, int, int]]) -> None:
    logins, good, now_s = BrowserLogins(), dict[str, float](), 0.0
    for what, number, later in history:
        now_s += later
        token = f"t{number}"
        if what == "issue":
            logins.issue(token, uid=ME, mesos=None, now_s=now_s)
            good[token] = now_s + TICKET_S
            continue
        uid = ME if what == "redeem" else OTHER
        until_s = good.pop(token, 0.0) if uid == ME else 0.0
        assert logins.redeem(token, uid=uid, cookie="c", key="k", now_s=now_s) == (now_s < until_s)


def test_so_many_are_kept_and_no_more() -> None:
    logins = BrowserLogins()
    for number in range(MOST_TICKETS + 1):
        logins.issue(f"t{number}", uid=ME, mesos=None, now_s=0.0)
    assert not logins.redeem("t0", uid=ME, cookie="c", key="k", now_s=0.0)
    assert logins.redeem("t1", uid=ME, cookie="c1", key="k", now_s=0.0)
    for number in range(2, 2 + MOST_SESSIONS):
        logins.issue("t", uid=ME, mesos=None, now_s=0.0)
        assert logins.redeem("t", uid=ME, cookie=f"c{number}", key="k", now_s=0.0)
    assert logins.session("c1", "k", 0.0) is None
    assert logins.session("c2", "k", 0.0) is not None


FOO, BAR = Principal("foo"), Principal("bar")
ANY, NONE = {"type": "ANY"}, {"type": "NONE"}


def some(*values: str) -> dict[str, Any]:
    return {"values": list(values)}


def acls(permissive: bool = True, **lists: list[dict[str, Any]]) -> Acls:
    return read_acls("acls", json.dumps({"permissive": permissive, **lists}))


# Mesos' two matrices: (what is asked for, the list's entity, whether it matches, whether it allows).
@pytest.mark.parametrize(
    ("asked", "entity", "matches", "allows"),
    [
        ("foo", some("foo", "x"), True, True),
        ("foo", some("x"), False, None),
        ("foo", NONE, True, False),
        ("foo", ANY, True, True),
        (None, some("foo"), False, None),
        (None, NONE, True, False),
        (None, ANY, True, True),
    ],
)
def test_an_entity_matches_and_allows_as_in_mesos(
    asked: str | None, entity: dict[str, Any], matches: bool, allows: bool | None
) -> None:
    who = None if asked is None else Principal(asked)
    for permissive in (True, False):
        expected = allows if matches else permissive
        of_subject = acls(permissive, run_tasks=[{"principals": entity, "users": ANY}])
        assert of_subject.approved("run_tasks", who, "root") is expected
        of_object = acls(permissive, run_tasks=[{"principals": ANY, "users": entity}])
        assert of_object.approved("run_tasks", FOO, asked) is expected


def test_the_first_entry_that_matches_decides() -> None:
    only_foo = [
        {"principals": some("foo"), "roles": some("analytics", "ads")},
        {"principals": some("foo"), "roles": NONE},
    ]
    judged = acls(register_frameworks=only_foo)
    assert judged.approved("register_frameworks", FOO, "ads")
    assert not judged.approved("register_frameworks", FOO, "web")
    assert judged.approved("register_frameworks", BAR, "web")
    assert judged.approved("register_frameworks", None, "ads")
    turned = acls(register_frameworks=list(reversed(only_foo)))
    assert not turned.approved("register_frameworks", FOO, "ads")


def test_what_no_entry_is_about_is_as_permissive_says() -> None:
    assert acls().approved("teardown_frameworks", FOO, "bar")
    assert not acls(False).approved("teardown_frameworks", FOO, "bar")
    assert OPEN.approved("teardown_frameworks", None)


@pytest.mark.parametrize(
    ("role", "approved"),
    [("eng", False), ("eng/dev", True), ("eng/dev/x", True), ("engineers", False), ("ops", True), ("*", False)],
)
def test_a_role_with_a_percent_sign_stands_for_all_below_it_and_not_for_itself(role: str, approved: bool) -> None:
    judged = acls(False, reserve_resources=[{"principals": some("foo"), "roles": some("eng/%", "ops")}])
    assert judged.approved("reserve_resources", FOO, role) is approved
    assert not judged.approved("reserve_resources", BAR, role)


def test_roles_below_may_be_closed_before_their_parents_are_opened() -> None:
    judged = acls(
        False,
        get_quotas=[{"principals": NONE, "roles": some("eng/secret/%")}, {"principals": ANY, "roles": some("eng/%")}],
    )
    assert not judged.approved("get_quotas", FOO, "eng/secret/x")
    assert judged.approved("get_quotas", FOO, "eng/secret")


def test_there_is_one_object_only_where_a_list_says_nothing_of_objects() -> None:
    judged = acls(False, mark_agents_gone=[{"principals": some("foo"), "agents": ANY}])
    assert judged.approved("mark_agents_gone", FOO, "whatever")
    assert not judged.approved("mark_agents_gone", BAR)


def test_an_executor_does_things_below_its_own_container_only_whatever_the_lists_say() -> None:
    executor = Principal(claims={"fid": "f", "eid": "e", "cid": "c"})
    for judged in (acls(), acls(False)):
        assert judged.approved("kill_nested_containers", executor, "root", container="c")
        assert not judged.approved("kill_nested_containers", executor, "root", container="other")
        assert not judged.approved("kill_nested_containers", executor, "root")
        assert not judged.approved("view_tasks", executor, "root", container="c")
    assert str(executor) == '{"claims":{"fid":"f","eid":"e","cid":"c"}}'
    assert str(FOO) == "foo"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"permissive": "yes"}',
        '{"register_framework": []}',
        '{"run_tasks": {}}',
        '{"run_tasks": [{"principals": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {"type": "any"}, "users": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {"values": "x"}, "users": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {}, "users": {"type": "ANY"}}]}',
        '{"view_flags": [{"principals": {"type": "ANY"}, "flags": {"values": ["a"]}}]}',
        '{"get_endpoints": [{"principals": {"type": "ANY"}, "paths": {"values": ["/state"]}}]}',
    ],
)
def test_lists_that_would_not_do_what_they_seem_to_are_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        read_acls("acls", text)
    assert str(refused.value) == golden


def test_every_action_of_mesos_can_be_closed_and_opened() -> None:
    assert len(ACTIONS) == 54
    for action, (objects, kind) in ACTIONS.items():
        thing = {Kind.PATHS: "/metrics/snapshot", Kind.IMPLICIT: None}.get(kind, "x")
        entity = ANY if thing is None else some(thing)
        judged = acls(False, **{action: [{"principals": some("foo"), objects: entity}]})
        assert judged.approved(action, FOO, thing)
        assert not judged.approved(action, BAR, thing)


@given(
    st.lists(st.tuples(st.sampled_from(["foo", "bar", "ANY", "NONE"]), st.sampled_from(["a", "b", "ANY", "NONE"]))),
    st.sampled_from([None, "foo", "bar"]),
    st.sampled_from([None, "a", "b"]),
)
def test_more_entries_at_the_end_change_nothing_that_was_decided(
    rows: list[tuple[str, str]], who: str | None, role: str | None
) -> None:
    def entity(word: str) -> dict[str, Any]:
        return {"type": word} if word in ("ANY", "NONE") else some(word)

    entries = [{"principals": entity(subject), "roles": entity(thing)} for subject, thing in rows]
    principal = None if who is None else Principal(who)

    def answers(count: int) -> set[bool]:
        """What the first entries decide; both answers where that is left to `permissive`."""
        return {acls(p, view_roles=entries[:count]).approved("view_roles", principal, role) for p in (True, False)}

    for count in range(len(entries)):
        assert answers(count + 1) <= answers(count)
