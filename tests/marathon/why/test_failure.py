"""Which failures keep an app from running, and how they are told."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.why.answer import answer
from mesos_gpu.marathon.why.facts import Situation
from mesos_gpu.marathon.why.failure import (
    Failure,
    container_of,
    failing,
    image_of,
    in_short,
    last_failure,
    pod_document,
)
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.marathon.why.suspended import GAVE_WAY
from mesos_gpu.marathon.why.verdict import verdict_of
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
TASK = "train.instance-1._app.9"


def failed(ago_s: float = 2, **more: Any) -> dict[str, Any]:
    moment = (NOW - timedelta(seconds=ago_s)).isoformat().replace("+00:00", "Z")
    what = {"message": "Command exited with status 3", "taskId": TASK, "slaveId": "S1", "timestamp": moment, **more}
    return {"lastTaskFailure": what}


def in_image(message: str) -> dict[str, Any]:
    return {**failed(message=message), "container": {"docker": {"image": "busybox"}}}


def test_the_last_failure_is_that_of_the_present_version() -> None:
    assert last_failure({}) is None
    assert last_failure(failed()) == Failure("Command exited with status 3", 9, TASK, "S1", False)
    changed = {"versionInfo": {"lastConfigChangeAt": "2"}, "version": "5"}
    assert last_failure({**failed(version="1"), **changed}) is None
    assert last_failure({**failed(version="3"), **changed}) is not None  # it was scaled since
    assert last_failure({"lastTaskFailure": {"state": "TASK_LOST"}}) == Failure("TASK_LOST", 0, "", "", False)


@pytest.mark.parametrize(
    ("running", "wanted", "ago_s", "fails"),
    [(0, 1, 2, True), (0, 1, 3600, False), (1, 1, 2, True), (1, 1, 120, False), (0, 0, 2, False), (1, 2, 30, True)],
)
def test_what_failed_long_ago_says_nothing_of_now(running: int, wanted: int, ago_s: float, fails: bool) -> None:
    assert (failing(failed(ago_s), running=running, wanted=wanted, now=NOW) is not None) == fails


@pytest.mark.parametrize(
    "more",
    [
        {"state": "TASK_UNKNOWN", "message": "Reconciliation: Task is unknown"},
        {"state": "TASK_GONE_BY_OPERATOR"},
        {"state": "TASK_KILLED", "message": f"{GAVE_WAY}/dear"},
    ],
)
def test_what_ended_with_its_machine_or_for_another_has_not_failed(more: dict[str, Any]) -> None:
    assert failing(failed(2, **more), running=0, wanted=1, now=NOW) is None
    assert failing(failed(2, state="TASK_FAILED"), running=0, wanted=1, now=NOW) is not None


def test_without_a_clock_only_what_does_not_run_fails() -> None:
    assert failing(failed(), running=0, wanted=1) is not None
    assert failing(failed(), running=1, wanted=1) is None
    assert failing(failed(timestamp="soon"), running=1, wanted=1, now=NOW) is None
    # One failure of an app that runs again is no loop.
    assert failing(failed(taskId="x._app.1"), running=1, wanted=1, now=NOW) is None


@pytest.mark.parametrize(
    ("message", "of_image"),
    [
        ("Failed to launch container: cannot get nope:1: the registry cannot be reached", True),
        ("Failed to launch container: Failed to pull image 'nope'", True),
        ("manifest unknown", True),
        ("Command exited with status 1", False),
    ],
)
def test_an_image_that_cannot_be_had_is_told_from_a_command_that_fails(message: str, of_image: bool) -> None:
    found = last_failure(in_image(message))
    assert found is not None
    assert found.of_image == of_image
    assert not found.message.startswith("Failed to launch container: ")
    assert last_failure(failed(message=message)).of_image is False  # type: ignore[union-attr] # it has no image


def why(document: dict[str, Any], **more: Any) -> tuple[str, str, tuple[str, ...]]:
    request = request_of(document)
    found = answer(Situation(document, request, now=NOW, **more))
    assert found.failure is not None
    assert found.document()["failure"]["tries"] == 9
    return found.state, found.headline, found.remedies


def test_a_crash_loop_comes_first_whatever_the_app_does_at_the_moment(golden: Golden) -> None:
    document = app(**failed())
    state, said, helps = why(document)
    assert (state, said) == ("starting", golden)
    assert "--stderr" in helps[0]
    state, said, _ = why(document, running=1)
    assert (state, said) == ("running", golden)
    state, said, _ = why(document, queued={"count": 1, "delay": {"timeLeftSeconds": 12}})
    assert (state, said) == ("delayed", golden)
    one = agent()
    verdicts = [verdict_of(request_of(document), one, Rules())]
    state, said, _ = why(document, queued={"count": 1}, agents=[one], verdicts=verdicts)
    assert (state, said) == ("waiting", golden)


def test_what_helps_against_an_image_that_cannot_be_had(golden: Golden) -> None:
    _, said, helps = why(app(**in_image("cannot get busybox: no such host")))
    assert said == golden
    assert helps[0] == golden


# --- pods ------------------------------------------------------------------------------------------------------------

POD = {
    "id": "/pair",
    "version": "2026-01-01T11:00:00.000Z",
    "containers": [{"name": "one"}, {"name": "two", "image": {"kind": "DOCKER", "id": "nope:1"}}],
}


def ended(message: str = "Command exited with status 3", *, at: str = "12:00:00", name: str = "two") -> dict[str, Any]:
    other = {"containerId": "pair.instance-1.one.4", "lastKnownState": "TASK_KILLED"}
    failed = {
        "containerId": f"pair.instance-1.{name}.4",
        "lastKnownState": "TASK_FAILED",
        "termination": {"message": message},
    }
    return {"terminatedAt": f"2026-01-01T{at}.000Z", "containers": [other, failed], "message": message}


def test_a_pod_fails_as_its_container_that_failed_last_did(golden: Golden) -> None:
    document = pod_document(POD, {"instances": [{"id": "i"}], "terminationHistory": [ended(), ended(at="11:59:00")]})
    assert document["podInstances"] == [{"id": "i"}]
    failure = failing(document, running=0, wanted=1, now=NOW)
    assert failure == Failure("two: Command exited with status 3", 4, "pair.instance-1.two.4", "", False)
    assert failure is not None
    assert in_short(failure) == golden
    alone = {**POD, "containers": POD["containers"][1:]}
    (found,) = [pod_document(alone, {"terminationHistory": [ended()]})["lastTaskFailure"]["message"]]
    assert found == "Command exited with status 3"


def test_a_pod_that_was_changed_since_or_only_ended_has_not_failed() -> None:
    killed = {"terminatedAt": "2026-01-01T12:00:00.000Z", "containers": [{"lastKnownState": "TASK_FINISHED"}]}
    for history in ([ended(at="10:59:00")], [killed], []):
        assert "lastTaskFailure" not in pod_document(POD, {"terminationHistory": history})
    assert pod_document(POD, {})["podInstances"] == []


def test_a_pods_image_that_cannot_be_had_is_named_with_the_place_to_change_it(golden: Golden) -> None:
    message = "Failed to launch container: cannot get nope:1: the registry cannot be reached"
    document = pod_document(POD, {"terminationHistory": [ended(message)]})
    task_id = document["lastTaskFailure"]["taskId"]
    assert (container_of(document, task_id), image_of(document, task_id)) == (1, "nope:1")
    found = answer(Situation(document, request_of(document), now=NOW))
    assert found.headline == golden
    assert found.remedies == golden
    # The other container has no image: what it failed of is something else.
    of_one = pod_document(POD, {"terminationHistory": [ended(message, name="one")]})
    assert not last_failure(of_one).of_image  # type: ignore[union-attr]
