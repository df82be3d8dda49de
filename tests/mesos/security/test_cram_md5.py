"""CRAM-MD5: the example of RFC 2195, both sides together, and every message out of turn."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
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
