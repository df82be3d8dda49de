"""English and Chinese say the same things, and every word that the page asks for is there."""

from __future__ import annotations

import re

from tests.ui.catalogue import EN, STATIC, ZH

CHOSEN = {
    "state": "running starting deploying waiting delayed suspended unhealthy idle",
    "login": "marathon mesos name password kept enter",
    "away": "marathon master agents",
    "diff": "add remove",
    "kind": "app pod job",
    "kinds": "app pod job",
    "runtime": "none MESOS DOCKER",
    "use": "free held ill",
    "gpus": "all held free ill unused",
    "time": "s min h d",
    "field": "id image cmd instances cpus mem gpus env labels",
    "tab": "instances why configuration logs events endpoints volumes timeline gpus files stdout stderr console "
    "terminal runs",
    "condition": "healthy suspect draining unhealthy",
    "policy": "0 1 2 3 4 5",
    "run": "active starting finished failed",
    "edit": "podText jobText",
    "suspension": "asked away byHand notSuspended notResumed silent",
    "quota": "gpus cpus mem disk",
}
"""What keys made of a word may end with."""
REASONS = (
    "UnfulfilledRole UnfulfilledConstraint NoCorrespondingReservationFound AgentMaintenance InsufficientCpus "
    "InsufficientMemory InsufficientDisk InsufficientGpus InsufficientPorts DeclinedScarceResources"
)


def test_both_languages_have_the_same_keys() -> None:
    assert EN.keys() == ZH.keys()


def test_each_message_has_the_same_placeholders_in_both_languages() -> None:
    def names(text: str) -> set[str]:
        return set(re.findall(r"\{(\w+)", text))

    differing = {key: (EN[key], ZH[key]) for key in EN if names(EN[key]) != names(ZH[key]) or not ZH[key].strip()}
    assert differing == {}


def test_chinese_is_chinese() -> None:
    same = {key for key in EN if EN[key] == ZH[key]}
    assert same == {"framework.v1", "gpu.index"}


def test_every_word_that_is_asked_for_is_there() -> None:
    sources = [path for path in STATIC.rglob("*.js") if path.parent.name not in ("vendor", "words")]
    text = "\n".join(path.read_text() for path in sources)
    asked = set(re.findall(r"""\bt\((?:[^()"`]*\? )?"([^"]+)\"""", text))
    asked |= set(re.findall(r"""\bt\([^()"`]*\? "[^"]+" : "([^"]+)\"""", text))
    asked |= set(re.findall(r'\["((?:why|plan|machine)\.\w+)"', text))
    asked |= {f"{name}.{end}" for name, ends in CHOSEN.items() for end in ends.split()}
    asked |= {f"{name}.{reason}" for name in ("lack", "asked") for reason in REASONS.split()}
    assert asked - EN.keys() == set()
