"""Operations of any shape that the JSON of a call may have: each is carried out or refused, and the books add up."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.master.decisions import launching
from mesos_gpu.master.state.actions import Action
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import NOW, check_books, events, task_info
from tests.support.master.operations import World, dynamic, operation, volume

CALL = "mesos.v1.scheduler.Call"
STRANGE: list[Any] = [
    *(
        None,
        0,
        -1,
        1.5,
        1e308,
        True,
        "",
        "x",
        "..",
        "*",
        "a/b",
        "A" * 300,
        "RANGES",
        "SET",
        "DYNAMIC",
        "DOCKER",
        [],
        {},
    ),
    *({"value": "x"}, {"value": ""}, {"value": -1}, {"value": 0.0004}, {"value": 1e300}, {"nanoseconds": -5}),
    *({"range": [{"begin": 5, "end": 2}]}, [{"role": "x"}], [{"type": "DYNAMIC", "role": "slave_public"}, {}]),
]
VOLUME = volume(32.0, "there")
LIMITED: Document = {
    "command": {"value": "true", "environment": {"variables": [{"name": "A", "value": "b", "type": "VALUE"}]}},
    "container": {"type": "MESOS", "linux_info": {"share_cgroups": False}, "network_infos": [{"name": "x"}]},
    "kill_policy": {"grace_period": {"nanoseconds": 1}},
    "max_completion_time": {"nanoseconds": 10**10},
    "health_check": {"type": "COMMAND", "command": {"value": "true"}, "delay_seconds": 0},
    "check": {"type": "HTTP", "http": {"port": 80, "path": "/"}},
    "labels": {"labels": [{"key": "a", "value": "b"}]},
    "limits": {"mem": {"value": 64}},
}


def world() -> World:
    """Return a master whose agent has a reservation and a volume."""
    made = World()
    made.accept(operation("RESERVE", dynamic("disk", 200.0), name=None), operation("CREATE", VOLUME, name=None))
    return made


def ordinary(made: World) -> list[Document]:
    task = {**task_info(made.agent, "t", "cpus:0.1;mem:32"), **LIMITED}
    executor: Document = {
        "type": "DEFAULT",
        "executor_id": {"value": "e"},
        "framework_id": {"value": made.framework.id},
        "resources": task_info(made.agent, "t", "cpus:0.1;mem:32;disk:8")["resources"],
    }
    custom = {**task, "executor": {**executor, "type": "CUSTOM", "command": {"value": "x"}}}
    del custom["command"], custom["limits"]
    free = {name: value for name, value in VOLUME.items() if name != "disk"}
    return [
        {"type": "LAUNCH", "launch": {"task_infos": [task]}},
        {"type": "LAUNCH", "launch": {"task_infos": [custom]}},
        {"type": "LAUNCH_GROUP", "launch_group": {"executor": executor, "task_group": {"tasks": [task]}}},
        operation("RESERVE", dynamic("cpus", 0.1)),
        operation("UNRESERVE", dynamic("disk", 1.0)),
        operation("CREATE", volume(5.0, "new")),
        operation("DESTROY", VOLUME),
        {"type": "GROW_VOLUME", "grow_volume": {"volume": VOLUME, "addition": free}},
        {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": VOLUME, "subtract": {"value": 1}}},
    ]


def places(value: Any, so_far: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*so_far, key)
        yield from places(inner, (*so_far, key))


def damaged(document: Document, random: Random) -> Document:
    """Leave out or replace one to three things, anywhere."""
    made: Any = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        found = list(places(made))
        if not found:
            break
        *path, last = random.choice(found)
        around = made
        for key in path:
            around = around[key]
        if isinstance(around, dict) and random.random() < 0.35:
            del around[last]
        else:
            around[last] = copy.deepcopy(random.choice(STRANGE))
    return dict(made)


def accept(made: World, asked: Document) -> list[Action] | None:
    """Return what follows of a call with this operation, None when the call itself is refused."""
    body = {"offer_ids": [{"value": made.offer().id}], "operations": [asked]}
    call: Document = {"type": "ACCEPT", "framework_id": {"value": made.framework.id}, "accept": body}
    if messages.check(CALL, call) is not None:
        return None
    found = messages.normalize(CALL, call)["accept"]
    return launching.accept(made.state, made.framework, found, NOW)


@given(st.randoms(use_true_random=False))
def test_whatever_an_operation_looks_like_the_books_add_up(random: Random) -> None:
    made = world()
    accept(made, damaged(random.choice(ordinary(made)), random))
    check_books(made.state)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"type": "GROW_VOLUME"}, "A GROW_VOLUME operation must have the Offer.Operation.grow_volume field set"),
        ({"type": "UNRESERVE"}, "An UNRESERVE offer operation must have the Offer.Operation.unreserve field set."),
        ({"type": "RESERVE", "reserve": {}}, "Invalid resources: The resources have multiple resource providers: ;"),
        (
            {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": VOLUME, "subtract": {"value": 1e308}}},
            "'ShrinkVolume.subtract' is not an amount",
        ),
        (operation("RESERVE", dynamic("cpus", 1e308), name=None), "SCALAR"),
        (operation("RESERVE", {**dynamic("cpus", 1), "reservations": [{}]}, name=None), "Invalid reservation"),
    ],
)
def test_what_is_left_out_or_beyond_measure_is_refused_in_words(asked: Document, words: str) -> None:
    made = world()
    actions = accept(made, {**asked, "id": {"value": "op"}})
    assert actions is not None
    (event,) = events(actions, "UPDATE_OPERATION_STATUS")
    assert words in event["status"]["message"]
    check_books(made.state)
