"""CRAM-MD5 between agent and master: both sides of the conversation as tables, and the files that hold secrets. Pure.

    agent's authenticatee -> master     AuthenticateMessage{pid of the agent}
    session -> authenticatee            AuthenticationMechanismsMessage{CRAM-MD5}
    authenticatee -> session            AuthenticationStartMessage{CRAM-MD5}
    session -> authenticatee            AuthenticationStepMessage{challenge}
    authenticatee -> session            AuthenticationStepMessage{principal, space, hex HMAC-MD5 of the challenge}
    session -> authenticatee            AuthenticationCompletedMessage, or ...FailedMessage

Anything else, or out of turn, is AuthenticationErrorMessage. The mechanism proves that the agent knows the secret, and
protects nothing after that. Source: Mesos src/authentication/cram_md5, RFC 2195.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique

import msgspec
from msgspec import Struct

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.resource import Document

MECHANISM = "CRAM-MD5"
START, STEP = "AuthenticationStartMessage", "AuthenticationStepMessage"
MECHANISMS, COMPLETED = "AuthenticationMechanismsMessage", "AuthenticationCompletedMessage"
FAILED, ERROR = "AuthenticationFailedMessage", "AuthenticationErrorMessage"


@dataclass(frozen=True, slots=True)
class Credential:
    """Who somebody is, and what only they know."""

    principal: str
    secret: str = field(repr=False)


@unique
class Progress(Enum):
    """How far a conversation is."""

    ASKED = "asked for authentication"
    STARTED = "the mechanism is agreed on"
    DONE = "authenticated"
    REFUSED = "refused"
    BROKEN = "broken off"


class Said(Struct, frozen=True):
    """What a side has to say about a message, if anything, and where it stands then. `why` tells of a broken one."""

    progress: Progress
    name: str | None = None
    document: Document = msgspec.field(default_factory=dict)
    why: str = ""
    principal: str | None = None


def proof(credential: Credential, challenge: bytes) -> bytes:
    """Return the answer to a challenge (RFC 2195): principal, space, lower-case hex of HMAC-MD5 keyed by the secret."""
    digest = hmac.new(credential.secret.encode(), challenge, "md5").hexdigest()
    return f"{credential.principal} {digest}".encode()


def authenticatee(progress: Progress, credential: Credential, name: str, document: Document) -> Said:
    """Return what the side that wants to be known says to a message; it has asked before (ASKED)."""
    match progress, name:
        case (Progress.ASKED, "AuthenticationMechanismsMessage"):
            offered = [str(mechanism) for mechanism in document.get("mechanisms", ())]
            if MECHANISM not in offered:
                return _broken(
                    f"the master takes {', '.join(offered) or 'nothing'}, and this agent supports {MECHANISM}"
                )
            return Said(Progress.STARTED, START, {"mechanism": MECHANISM})
        case (Progress.STARTED, "AuthenticationStepMessage"):
            return Said(Progress.STARTED, STEP, {"data": _text(proof(credential, _bytes(document["data"])))})
        case (Progress.STARTED, "AuthenticationCompletedMessage"):
            return Said(Progress.DONE)
        case (_, "AuthenticationFailedMessage"):
            return Said(Progress.REFUSED)
        case (_, "AuthenticationErrorMessage"):
            return _broken(str(document.get("error", "the master gave no reason")))
    return _broken(f"unexpected {name} ({progress.value})")


def authenticator(
    progress: Progress, challenge: bytes, credentials: Mapping[str, str], name: str, document: Document
) -> Said:
    """Return what the side that knows the secrets (by principal) says; it has offered its mechanism before (ASKED)."""
    if progress is Progress.ASKED and name == START:
        if document["mechanism"] != MECHANISM:
            return _error(f"mechanism {document['mechanism']} is not supported; {MECHANISM} is")
        return Said(Progress.STARTED, STEP, {"data": _text(challenge)})
    if progress is Progress.STARTED and name == STEP:
        principal, space, _ = _bytes(document["data"]).decode("utf-8", "replace").rpartition(" ")
        if not space:
            return _error("the answer is not a principal and a digest")
        secret = credentials.get(principal)
        # Compared for unknown principals too: how long it takes must not tell who is known.
        expected = proof(Credential(principal, secret or ""), challenge)
        if not hmac.compare_digest(expected, _bytes(document["data"])) or secret is None:
            return Said(Progress.REFUSED, FAILED, principal=principal)
        return Said(Progress.DONE, COMPLETED, principal=principal)
    return _error(f"Unexpected {name} received")


def read_credential(flag: str, text: str) -> Credential:
    """Read one credential: JSON `{"principal", "secret"}`, or both with a space between. Raises BadFlag."""
    found = _credentials(flag, text, [_json(flag, text)] if _is_json(text) else None)
    if len(found) != 1:
        raise BadFlag(flag, f"holds {len(found)} credentials, and one is needed")
    return found[0]


def read_credentials(flag: str, text: str) -> dict[str, str]:
    """Read secrets by principal: JSON `{"credentials": [...]}`, or lines of principal and secret. Raises BadFlag."""
    documents: object = None
    if _is_json(text):
        whole = _json(flag, text)
        documents = whole.get("credentials") if isinstance(whole, dict) else None
        if not isinstance(documents, list):
            raise BadFlag(flag, 'is JSON without a list of "credentials"')
    return {found.principal: found.secret for found in _credentials(flag, text, documents)}


def _credentials(flag: str, text: str, documents: object) -> list[Credential]:
    found: list[Credential] = []
    if isinstance(documents, list):
        for document in documents:
            both = document if isinstance(document, dict) else {}
            principal, secret = both.get("principal"), both.get("secret")
            if not (isinstance(principal, str) and principal and isinstance(secret, str) and secret):
                raise BadFlag(flag, 'has a credential without a "principal" and a "secret" that are text')
            found.append(Credential(principal, secret))
        return found
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        if len(words) != 2:
            raise BadFlag(flag, "has a line that is not a principal, a space and a secret")
        found.append(Credential(*words))
    return found


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _json(flag: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadFlag(flag, f"is not JSON: {error}") from None


def _broken(why: str) -> Said:
    return Said(Progress.BROKEN, why=why)


def _error(why: str) -> Said:
    return Said(Progress.BROKEN, ERROR, {"error": why}, why=why)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
