"""A task group from a framework's ACCEPT to its FAILURE event on a whole box, as a real Mesos told its scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from mesos_gpu.mesos.recordio import RecordDecoder
from tests.support import places
from tests.support.box.live import LiveBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

RECORDED = json.loads((places.RECORDED / "scheduler-session-2.json").read_text())
NAMES = ("pod-1-a", "pod-1-b")


class Scheduler:
    """A framework over plain HTTP, as the recording's."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1/scheduler"
        info = {**RECORDED["framework_info"], "roles": ["slave_public"]}
        info.pop("id", None)
        call = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
        self._stream = requests.post(self._url, json=call, stream=True, timeout=60)
        self._headers = {"Mesos-Stream-Id": self._stream.headers["Mesos-Stream-Id"]}
        self._events = self._read()
        self.framework_id = next(self._events)["subscribed"]["framework_id"]

    def _read(self) -> Iterator[dict[str, Any]]:
        decoder = RecordDecoder()
        for chunk in self._stream.iter_content(None):
            for record in decoder.feed(chunk):
                yield json.loads(record)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what comes, without heartbeats; updates are acknowledged."""
        for event in self._events:
            if event["type"] == "UPDATE":
                status = event["update"]["status"]
                found = {name: status[name] for name in ("agent_id", "task_id", "uuid")}
                self.call("ACKNOWLEDGE", acknowledge=found)
            if event["type"] != "HEARTBEAT":
                yield event

    def call(self, kind: str, **body: Any) -> None:
        call = {"type": kind, "framework_id": self.framework_id, **body}
        assert requests.post(self._url, json=call, headers=self._headers, timeout=20).status_code == 202

    def launch_group(self, offer: dict[str, Any]) -> None:
        """Launch the group of the recording, one task of it with a GPU."""
        recorded = [call["request"]["body"] for call in RECORDED["calls"]]
        accepts = [body["accept"] for body in recorded if body["type"] == "ACCEPT"]
        (group,) = [
            one["launch_group"] for accept in accepts for one in accept["operations"] if one["type"] == "LAUNCH_GROUP"
        ]
        group["executor"]["framework_id"] = self.framework_id
        for task in group["task_group"]["tasks"]:
            task["agent_id"] = offer["agent_id"]
        operation = {"type": "LAUNCH_GROUP", "launch_group": group}
        self.call("ACCEPT", accept={"offer_ids": [offer["id"]], "operations": [operation]})

    def close(self) -> None:
        self._stream.close()


def of_the_group(event: dict[str, Any]) -> bool:
    if event["type"] == "FAILURE":
        return "executor_id" in event["failure"] and event["failure"]["executor_id"]["value"] == "pod-1"
    return event["type"] == "UPDATE" and event["update"]["status"]["task_id"]["value"] in NAMES


def shape(value: Any) -> Any:
    """Return keys and kinds of values; the protocol of an address is not told by ours."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if name != "protocol"}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


def story(events: list[dict[str, Any]]) -> dict[str, list[tuple[str, str | None, Any]]]:
    """Return what was told of each task, in order: states, messages, and the shape of it."""
    told: dict[str, list[tuple[str, str | None, Any]]] = {name: [] for name in NAMES}
    for event in events:
        if event["type"] == "UPDATE":
            status = event["update"]["status"]
            told[status["task_id"]["value"]].append((status["state"], status.get("message"), shape(status)))
    return told


def test_a_groups_life_is_told_as_a_real_mesos_tells_it_and_its_gpu_is_free_again(box: LiveBox) -> None:
    real = [line["event"] for line in RECORDED["events"] if of_the_group(line["event"])]
    scheduler = Scheduler(box.status()["master"]["url"])
    try:
        ours: list[dict[str, Any]] = []
        running: set[str] = set()
        for event in scheduler.events():
            if event["type"] == "OFFERS" and not ours and not running:
                running.add("")
                scheduler.launch_group(event["offers"]["offers"][0])
            if not of_the_group(event):
                continue
            ours.append(event)
            if event["type"] == "FAILURE":
                break
            status = event["update"]["status"]
            if status["state"] == "TASK_RUNNING":
                # Beside what Mesos says, the GPU of the group's container (docs/reference/differences.md).
                (label,) = status.pop("labels")["labels"]
                assert (label["key"], label["value"].isdecimal()) == ("gpu.cards", True)
                running.add(status["task_id"]["value"])
                if running >= set(NAMES):
                    assert box.gpus_free() == 3
                    scheduler.call("KILL", kill={"task_id": {"value": NAMES[0]}})
        assert story(ours) == story(real)
        assert shape(ours[-1]) == shape(real[-1])
        assert ours[-1]["failure"]["status"] == 0
        box.until("all GPUs are free again", lambda: box.gpus_free() == 4)
        scheduler.call("TEARDOWN")
    finally:
        scheduler.close()
