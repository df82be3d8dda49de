"""What authors make of an offer, as a master sees it: whatever is built is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from addict import Dict
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.framework import GpuTask, Offered, check_whole_gpus, framework_info, volume, whole_gpus
from mesos_gpu.master.state.actions import RunTask, RunTaskGroup
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.resource import Document
from tests.framework.cluster import AGENT, RESERVED, Cluster
from tests.support.golden import Golden
from tests.support.master.build import statuses

ROLES = [{}, {"roles": "ml"}, {"roles": ["ml/train"]}, {"roles": ["ml"], "capabilities": ["RESERVATION_REFINEMENT"]}]


@st.composite
def gpu_tasks(draw: st.DrawFn, id_prefix: str = "t") -> GpuTask:
    container: dict[str, Any] = {}
    if draw(st.booleans()):
        container["image"] = draw(st.sampled_from(["nvidia/cuda", "nvcr.io/nvidia/pytorch:24.01-py3"]))
    if draw(st.booleans()):
        container["volumes"] = [volume("/data", "/mnt/data", read_only=draw(st.booleans())), volume("/scratch")]
    commands: list[Any] = ["nvidia-smi", ["python", "train.py"], *([None] if "image" in container else [])]
    number = draw(st.integers(0, 99))
    return GpuTask(
        f"{id_prefix}{number}",
        draw(st.sampled_from(commands)),
        gpus=draw(st.sampled_from([0, 1, 2, 3.0])),
        cpus=draw(st.integers(1, 3000)) / 1000,
        mem_mib=draw(st.floats(32, 1500)),
        disk_mib=draw(st.sampled_from([0, 10.5, 100])),
        ports=draw(st.integers(0, 3)),
        env=draw(st.dictionaries(st.sampled_from("ABC"), st.text("aB1=\n é", max_size=5))),
        uris=draw(st.lists(st.sampled_from(["http://example.org/data.tgz"]), max_size=1)),
        user=draw(st.none() | st.just("root")),
        labels=draw(st.dictionaries(st.sampled_from("xy"), st.text("aB1=\n é", max_size=5))),
        kill_grace_s=draw(st.none() | st.floats(0, 100)),
        max_completion_s=draw(st.none() | st.floats(0, 1e6)),
        **container,
    )


@pytest.mark.slow  # each example is a whole master
@given(
    st.lists(gpu_tasks(), max_size=6, unique_by=lambda t: t.id),
    st.sampled_from(ROLES),
    st.sampled_from([AGENT, RESERVED]),
)
def test_a_master_takes_every_task_that_fits(tasks: list[GpuTask], roles: Document, resources: str) -> None:
    cluster = Cluster(resources, framework_info("f", **roles))
    offer, sent = cluster.offer()
    offered = Offered(sent)
    infos = [offered.launch(task) for task in tasks if offered.fits(task)]
    actions = cluster.accept(offer, {"type": "LAUNCH", "launch": {"task_infos": infos}})
    assert statuses(actions) == []
    launched = [action for action in actions if isinstance(action, RunTask)]
    assert [action.task["task_id"] for action in launched] == [info["task_id"] for info in infos]
    used = cluster.agent.used_total
    assert used.gpus == sum(t.gpus for t in tasks if {"value": t.id} in [i["task_id"] for i in infos])
    assert used.milli("cpus") + round(offered.cpus * 1000) == sum(
        round(r["scalar"]["value"] * 1000) for r in sent["resources"] if r["name"] == "cpus"
    ), "what the offer says is left is what the master has left"


@pytest.mark.slow  # each example is a whole master
@given(
    st.lists(gpu_tasks("a"), min_size=1, max_size=3, unique_by=lambda t: t.id),
    st.lists(gpu_tasks("b"), min_size=1, max_size=2, unique_by=lambda t: t.id),
    st.sampled_from(ROLES),
    st.sampled_from([AGENT, RESERVED]),
)
def test_a_master_takes_every_group_that_fits(
    tasks: list[GpuTask], later: list[GpuTask], roles: Document, resources: str
) -> None:
    cluster = Cluster(resources, framework_info("f", **roles))
    offer, sent = cluster.offer()
    offered = Offered(sent)
    before = str(offered.gpus), offered.cpus, offered.mem_mib
    try:
        operation = offered.launch_group("pod", cluster.framework.id, tasks)
    except Conflict:
        assert (str(offered.gpus), offered.cpus, offered.mem_mib) == before, "refused whole"
        return
    operations, expected = [operation], [[t.id for t in tasks]]
    if offered.fits(*later):
        operations.append(offered.join_group(operation["launch_group"]["executor"], later))
        expected.append([t.id for t in later])
    actions = cluster.accept(offer, *operations)
    assert statuses(actions) == []
    groups = [action for action in actions if isinstance(action, RunTaskGroup)]
    assert [[t["task_id"]["value"] for t in group.tasks] for group in groups] == expected


def test_what_is_reserved_is_taken_first_and_a_task_may_span_both() -> None:
    cluster = Cluster(RESERVED, framework_info("f", roles="ml"))
    offer, sent = cluster.offer()
    info = Offered(sent).launch(GpuTask("t", "true", gpus=4, cpus=1, ports=6))
    took = [(r["name"], r["role"], r["scalar"]["value"]) for r in info["resources"] if r["type"] == "SCALAR"]
    assert took == [("cpus", "ml", 1.0), ("mem", "ml", 32.0), ("gpus", "ml", 3.0), ("gpus", "*", 1.0)]
    variables = {v["name"]: v["value"] for v in info["command"]["environment"]["variables"]}
    assert [variables[f"PORT{n}"] for n in range(6)] == ["31005", "31006", "31007", "31008", "31009", "31000"]
    assert statuses(cluster.accept(offer, {"type": "LAUNCH", "launch": {"task_infos": [info]}})) == []


def test_too_little_is_said_with_numbers_and_nothing_is_taken(golden: Golden) -> None:
    _, sent = Cluster(AGENT, framework_info("f")).offer()
    offered = Offered(sent)
    with pytest.raises(NotEnoughGpus) as too_many:
        offered.launch(GpuTask("t", "true", gpus=5))
    assert (too_many.value.asked, too_many.value.free) == (5, 4)
    with pytest.raises(Conflict) as refused:
        offered.launch(GpuTask("t", "true", mem_mib=5000))
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        offered.launch(GpuTask("t", "true", ports=11))
    assert str(refused.value) == golden
    assert (offered.gpus, offered.cpus, offered.mem_mib, offered.disk_mib) == (4, 8.0, 4096.0, 4096.0)
    with pytest.raises(BadInput) as refused:
        offered.launch_group("pod", "F", [GpuTask("t", "true"), GpuTask("t", "true")])
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        offered.launch_group("pod", "F", [])
    assert str(refused.value) == golden
    with pytest.raises(BadInput, match="executor_id"):
        offered.launch_group("..", "F", [GpuTask("t", "true")])


def attribute(name: str, kind: str, **value: Any) -> Document:
    return {"name": name, "type": kind, **value}


def test_an_offer_tells_of_its_gpus_as_a_dict_or_an_addict() -> None:
    _, sent = Cluster(AGENT, framework_info("f")).offer()
    sent["attributes"] = [
        attribute("gpu_model", "TEXT", text={"value": "NVIDIA-H200"}),
        attribute("gpu_memory_mib", "SCALAR", scalar={"value": 143771.0}),
        attribute("gpu_driver", "TEXT", text={"value": "550.54.15"}),
        attribute("racks", "SET", set={"item": ["r1", "r2"]}),
        attribute("span", "RANGES", ranges={"range": [{"begin": 1, "end": 5}]}),
    ]
    for offer in (sent, Dict(sent)):
        offered = Offered(offer)
        assert (offered.gpus, offered.gpu_model, offered.gpu_memory_mib) == (4, "NVIDIA-H200", 143771)
        assert (offered.gpu_driver, offered.role, offered.hostname) == ("550.54.15", "*", "127.0.0.1")
        assert offered.attributes["racks"] == {"r1", "r2"}
        assert offered.attributes["span"] == ((1, 5),)
        assert json.loads(json.dumps(offered.launch(GpuTask("t", "true"))))["agent_id"] == sent["agent_id"]
    quiet = Offered({**sent, "attributes": []})
    assert (quiet.gpu_model, quiet.gpu_memory_mib, quiet.gpu_driver) == (None, None, None)


def test_volumes_and_revocable_resources_of_an_offer_are_left_alone() -> None:
    _, sent = Cluster(AGENT, framework_info("f")).offer()
    disk = {"name": "disk", "type": "SCALAR", "scalar": {"value": 9.0}, "role": "ml"}
    sent["resources"] = [
        {**disk, "disk": {"persistence": {"id": "v"}, "volume": {"container_path": "v", "mode": "RW"}}},
        {"name": "gpus", "type": "SCALAR", "scalar": {"value": 2.0}, "role": "*", "revocable": {}},
    ]
    assert (Offered(sent).gpus, Offered(sent).disk_mib) == (0, 0.0)


def test_a_task_is_launched_with_all_that_it_wishes() -> None:
    cluster = Cluster(AGENT, framework_info("f"))
    offer, sent = cluster.offer()
    task = GpuTask(
        "t",
        ["python", "train.py"],
        gpus=2,
        disk_mib=10.5,
        ports=1,
        name="training",
        image="nvidia/cuda",
        force_pull=True,
        volumes=[volume("/data", "/mnt/data", read_only=True)],
        env={"EPOCHS": "3"},
        uris=["http://example.org/data.tgz", {"value": "http://example.org/x", "extract": False}],
        user="nobody",
        labels={"team": "vision"},
        kill_grace_s=10,
        max_completion_s=3600,
    )
    info = Offered(sent).launch(task)
    assert (info["name"], info["labels"]) == ("training", {"labels": [{"key": "team", "value": "vision"}]})
    assert info["kill_policy"] == {"grace_period": {"nanoseconds": 10 * 10**9}}
    assert info["max_completion_time"] == {"nanoseconds": 3600 * 10**9}
    command = info["command"]
    assert (command["shell"], command["value"], command["arguments"]) == (False, "python", ["python", "train.py"])
    assert (command["user"], [uri["value"] for uri in command["uris"]]) == (
        "nobody",
        ["http://example.org/data.tgz", "http://example.org/x"],
    )
    names = [variable["name"] for variable in command["environment"]["variables"]]
    assert names == ["PORT0", "EPOCHS"]
    container = info["container"]
    assert container["mesos"]["image"] == {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}, "cached": False}
    assert container["volumes"] == [{"container_path": "/data", "host_path": "/mnt/data", "mode": "RO"}]
    assert statuses(cluster.accept(offer, {"type": "LAUNCH", "launch": {"task_infos": [info]}})) == []


def test_a_group_is_launched_and_joined_in_one_executor() -> None:
    cluster = Cluster(AGENT, framework_info("f"))
    offer, sent = cluster.offer()
    offered = Offered(sent)
    first = offered.launch_group("pod", cluster.framework.id, [GpuTask("a", "true"), GpuTask("b", "true")])
    executor = first["launch_group"]["executor"]
    later = offered.join_group(executor, [GpuTask("c", "true")])
    assert later["launch_group"]["executor"] == executor
    assert offered.gpus == 1
    with pytest.raises(NotEnoughGpus):
        offered.join_group(executor, [GpuTask("d", "true", gpus=2)])
    actions = cluster.accept(offer, first, later)
    assert statuses(actions) == []
    groups = [action for action in actions if isinstance(action, RunTaskGroup)]
    assert [[task["task_id"]["value"] for task in group.tasks] for group in groups] == [["a", "b"], ["c"]]
    other = Offered(sent).launch_group("pod", {"value": "F"}, [GpuTask("e", "true")])
    assert other["launch_group"]["executor"]["framework_id"] == {"value": "F"}


@given(st.floats())
def test_a_number_of_gpus_is_whole_or_refused_before_it_travels(asked: float) -> None:
    if 0 <= asked <= 2**53 and asked == int(asked):
        assert whole_gpus(asked) == asked
    else:
        with pytest.raises(BadInput):
            GpuTask("t", "true", gpus=asked)


@pytest.mark.parametrize(
    "asked", [0.5, 1.001, 2.9999999, True, "1", None, -1, float("nan"), 2**2000], ids=lambda asked: str(asked)[:9]
)
def test_what_is_no_number_of_whole_gpus_is_refused_with_a_reason(asked: Any, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        GpuTask("t", "true", gpus=asked)
    assert str(refused.value) == golden


def test_a_task_info_made_elsewhere_can_be_checked(golden: Golden) -> None:
    half = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 0.5}}
    check_whole_gpus({"resources": [{**half, "scalar": {"value": 2.0}}]})
    for info in ({"resources": [half]}, {"resources": [], "executor": {"resources": [half]}}):
        with pytest.raises(BadInput) as refused:
            check_whole_gpus(info)
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a/b"},
        {"cpus": -1},
        {"mem_mib": float("inf")},
        {"ports": -1},
        {"gpus": 0, "cpus": 0, "mem_mib": 0.0001},
        {"command": None},
        {"command": []},
        {"env": {"A": 1}},
        {"kill_grace_s": -1},
        {"max_completion_s": float("nan")},
    ],
)
def test_a_task_that_no_master_would_take_is_refused_when_it_is_made(wrong: Document, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        GpuTask(**{"id": "t", "command": "true", **wrong})
    assert str(refused.value) == golden


def test_a_volume_has_a_place(golden: Golden) -> None:
    assert volume("/data", "/mnt", read_only=True) == {"container_path": "/data", "host_path": "/mnt", "mode": "RO"}
    assert volume("/a/b")["source"]["sandbox_path"] == {"type": "SELF", "path": "a_b"}
    with pytest.raises(BadInput) as refused:
        volume("")
    assert str(refused.value) == golden
    for host_path in (None, "data"):
        with pytest.raises(BadInput) as refused:
            volume("scratch", host_path)
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": "/a"},
        {"roles": ["a", "a"]},
        {"capabilities": ["GPUS"]},
        {"capabilities": ["MULTI_ROLE"]},
        {"failover_timeout_s": -1},
        {"failover_timeout_s": float("nan")},
    ],
)
def test_a_framework_that_no_master_would_take_is_refused(wrong: Document, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        framework_info("f", **wrong)
    assert str(refused.value) == golden


def test_a_framework_info_has_what_it_was_given() -> None:
    info = framework_info("f", roles="ml", capabilities=["PARTITION_AWARE"], framework_id="F", labels={"team": "a"})
    assert framework_problem(info) is None
    assert info["capabilities"] == [{"type": t} for t in ("GPU_RESOURCES", "MULTI_ROLE", "PARTITION_AWARE")]
    assert (info["roles"], info["id"], info["failover_timeout"]) == (["ml"], {"value": "F"}, 100.0)
    assert info["labels"] == {"labels": [{"key": "team", "value": "a"}]}
    assert "roles" not in framework_info("f"), "no role: that is `*`"
