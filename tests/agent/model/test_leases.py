"""What is asked for when GPUs are lent, and when a holder is gone."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.model.leases import (
    EngineContainer,
    HolderProcess,
    Lease,
    Seen,
    Watch,
    WatchRequest,
    more,
    read_lease,
    still_held,
)
from mesos_gpu.agent.model.share_tree import node, written
from mesos_gpu.errors import BadInput, NotFound
from tests.support.golden import Golden

P, Q = HolderProcess(1, 10, "b"), HolderProcess(2, 20, "b")
CID = "c" * 64


def test_a_lease_names_a_count_or_gpus_and_who_is_to_be_watched() -> None:
    asked, watch = read_lease({"door": "docker", "holder": "web", "count": 2, "pid": 7, "started": 9})
    assert (asked.door, asked.holder, asked.count, asked.names, asked.everything) == ("docker", "web", 2, (), False)
    assert watch == WatchRequest(7, 9)
    assert asked.words == "2 GPUs"
    asked, watch = read_lease({"door": "cdi", "gpus": ["0", "GPU-a", "0"], "cgroup": "/sys/fs/cgroup/x"})
    assert (asked.count, asked.names) == (None, ("0", "GPU-a"))
    assert asked.words == "GPUs 0, GPU-a"
    assert watch.cgroup == "/sys/fs/cgroup/x"
    asked, watch = read_lease({"door": "docker", "gpus": "all", "containers": "/c", "cidfile": "/f"})
    assert asked.everything
    assert asked.words == "all GPUs"
    assert (watch.folder, watch.cidfile) == ("/c", "/f")
    assert read_lease({"door": "d", "count": 1, "pid": 1})[0].words == "1 GPU"
    assert read_lease({"door": "d", "gpus": ["3"], "pid": 1})[0].words == "GPU 3"


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"door": "docker", "gpu": 1},
        {"count": 1, "pid": 1},
        {"door": "Docker!", "count": 1, "pid": 1},
        {"door": "d", "pid": 1},
        {"door": "d", "count": 1, "gpus": "all", "pid": 1},
        {"door": "d", "count": 0, "pid": 1},
        {"door": "d", "count": True, "pid": 1},
        {"door": "d", "count": 1.5, "pid": 1},
        {"door": "d", "gpus": [], "pid": 1},
        {"door": "d", "gpus": [1], "pid": 1},
        {"door": "d", "gpus": "some", "pid": 1},
        {"door": "d", "count": 1},
        {"door": "d", "count": 1, "pid": 0},
        {"door": "d", "count": 1, "pid": "1"},
        {"door": "d", "count": 1, "pid": 1, "started": -1},
        {"door": "d", "count": 1, "pid": 1, "holder": "a\nb"},
        {"door": "d", "count": 1, "pid": 1, "holder": 1},
        {"door": "d", "count": 1, "cgroup": "/etc"},
        {"door": "d", "count": 1, "cgroup": "/sys/fs/cgroup/../.."},
        {"door": "d", "count": 1, "containers": "here"},
        {"door": "d", "count": 1, "pid": 1, "cidfile": "/f"},
    ],
)
def test_what_is_no_lease_is_refused_with_the_key_that_is_wrong(document: Any, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_lease(document)
    assert str(refused.value) == golden


def test_a_holder_is_there_while_any_process_or_cgroup_of_it_is() -> None:
    watch = Watch((P, Q), ("/g",))
    assert still_held(watch, Seen(frozenset({P, Q}), frozenset({"/g"}))) == watch
    assert still_held(watch, Seen(frozenset({Q}))) == Watch((Q,))
    assert still_held(watch, Seen(cgroups=frozenset({"/g"}))) == Watch((), ("/g",))
    assert still_held(watch, Seen()) is None


def test_an_engines_container_decides_alone_from_its_creation_to_its_removal() -> None:
    engine = EngineContainer("/f", "/c")
    watch = Watch((P,), (), engine)
    assert still_held(watch, Seen(frozenset({P}))) == watch, "none is made yet"
    assert still_held(watch, Seen()) is None, "and nobody will make one"
    made = still_held(watch, Seen(frozenset({P}), container=CID, exists=True))
    assert made == Watch((P,), (), EngineContainer("/f", "/c", CID))
    assert still_held(made, Seen(container=CID, exists=True)) == made, "whoever made it may go"
    assert still_held(made, Seen(frozenset({P}), container=CID)) is None, "it is removed, whoever else is there"


def test_more_can_be_watched_later() -> None:
    engine = EngineContainer("/f", "/c")
    both = more(Watch((P,), ("/a",)), Watch((P, Q), ("/b",), engine))
    assert both == Watch((P, Q), ("/a", "/b"), engine)
    assert more(both, Watch()) == both


def test_a_holder_is_told_by_door_name_and_container() -> None:
    lease = Lease("id", "docker", "web", CID, (), 0.0, Watch())
    assert lease.words == f"docker: web ({CID[:12]})"
    assert Lease("id", "cdi", "", "", (), 0.0, Watch()).words == "cdi: id"
    assert Lease("id", "cdi", "", "box", (), 0.0, Watch()).words == "cdi: box"


ONE = {"container_id": "73b3-a", "weight": 2, "high_priority": False, "memory_mib": 6610, "memory_used_mib": 191}
CARDS: list[dict[str, Any]] = [
    {"index": 2, "policy": 1, "max_inst": 25, "prio_ratio": 90, "free_weight": 23, "containers": [ONE]}
]


def read(path: str) -> str | None:
    return node(CARDS, path, "1.2").text


def test_folders_have_the_names_of_cgpu() -> None:
    assert node(CARDS, "/", "1.2").names == ("default_memsize", "inst_ctl", "upgrade", "version", "2")
    assert node(CARDS, "/2", "1.2").names == ("free_weight", "major", "max_inst", "policy", "prio_ratio", "73b3-a")
    assert node(CARDS, "/2/73b3-a", "1.2").names == ("highprio", "id", "memsize", "meminfo", "weight")


def test_files_say_what_is_so() -> None:
    found = {path: read(path) for path in ("/version", "/2/free_weight", "/2/policy", "/2/73b3-a/weight", "/2/major")}
    assert list(found.values()) == ["1.2\n", "23\n", "1\n", "2\n", "195\n"]
    assert read("/2/73b3-a/memsize") == f"{6610 << 20}\n"
    # The sample on cGPU's page: 6610 MiB of which 191 are used.
    assert read("/2/73b3-a/meminfo") == "Free: 6730809344\nUsed: 200278016\n"
    assert read("/default_memsize") == "0\n"


@pytest.mark.parametrize("path", ["/9", "/2/nope/id", "/2/73b3-a/nope", "/a/b/c/d", "/2/73b3-a/id/x", "/policy"])
def test_what_is_not_there_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        node(CARDS, path, "1.2")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("/2/policy", "2\n", {"card": 2, "policy": 2}),
        ("/2/max_inst", "20", {"card": 2, "max_inst": 20}),
        ("/2/prio_ratio", "80", {"card": 2, "prio_ratio": 80}),
        ("/2/73b3-a/weight", "4\n", {"container_id": "73b3-a", "weight": 4}),
        ("/2/73b3-a/highprio", "1\n", {"container_id": "73b3-a", "high_priority": True}),
        ("/upgrade", "0", None),
        ("/2/73b3-a/memsize", str(6610 << 20), None),
    ],
)
def test_what_is_written_is_set(path: str, text: str, said: dict[str, Any] | None) -> None:
    assert written(CARDS, path, text) == said


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/2/policy", "two"),
        ("/2/free_weight", "3"),
        ("/2", "3"),
        ("/2/73b3-a/highprio", "2"),
        ("/2/73b3-a/memsize", "1"),
        ("/inst_ctl", "1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(path: str, text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        written(CARDS, path, text)
    assert str(refused.value) == golden
