"""A part of a GPU, asked for in either form: which units of an offer it takes, and what the task is told."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app import AppRules, read_app
from mesos_gpu.marathon.definitions.gpu_share import kept_share_of
from mesos_gpu.marathon.definitions.pod import read_pod
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.gpu_shares import take_shares
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Refusal, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.marathon.model.job import read_job
from mesos_gpu.mesos.messages import check
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from tests.support.golden import Golden
from tests.support.marathon.builders import RULES, T0, app, container, job, offer, pod, ranges, spec

CARDS = "0=GPU-a/15,1=GPU-b/15,2=GPU-c/40"
FREE = [
    ranges("gpu_mem", (9, 14), (1000, 1014), (2000, 2039)),
    ranges("gpu_slices", (2, 24), (1000, 1024), (2000, 2024)),
]


def shared_offer(**changes: Any) -> Offer:
    return Offer.from_json(offer(attributes={"gpu_shared_cards": CARDS}, extra=FREE, **changes))


def decide(wanted: RunSpec, found: Offer | None = None) -> Match | Refusal:
    found = found or shared_offer()
    return match(wanted, found, found.resources, [], behaviour=GpuBehaviour.RESTRICTED, now_s=T0)


def taken(wanted: RunSpec) -> str:
    found = decide(wanted)
    assert isinstance(found, Match), found
    return str(found.resources.filter(lambda resource: resource.name.startswith("gpu_")).unallocated())


@pytest.mark.parametrize(
    ("share", "units"),
    [
        ({"memGiB": 6}, "gpu_mem:[9-14]; gpu_slices:[2-2]"),
        ({"memGiB": 7, "weight": 2}, "gpu_mem:[1000-1006]; gpu_slices:[1000-1001]"),
        ({"memGiB": 16}, "gpu_mem:[2000-2015]; gpu_slices:[2000-2000]"),
        ({"memGiB": 1, "weight": 24}, "gpu_mem:[1000-1000]; gpu_slices:[1000-1023]"),
        ({"memGiB": 2, "devices": ["GPU-c"]}, "gpu_mem:[2000-2001]; gpu_slices:[2000-2000]"),
        ({"memGiB": 2, "devices": ["1"]}, "gpu_mem:[1000-1001]; gpu_slices:[1000-1000]"),
        ({"memGiB": 2, "cardGiB": 40}, "gpu_mem:[2000-2001]; gpu_slices:[2000-2000]"),
        ({"memGiB": 6, "cards": 2}, "gpu_mem:[9-14, 1000-1005]; gpu_slices:[2-2, 1000-1000]"),
        ({"memGiB": [3, 20]}, "gpu_mem:[9-11, 2000-2019]; gpu_slices:[2-2, 2000-2000]"),
    ],
)
def test_the_fullest_card_with_room_is_taken(share: dict[str, Any], units: str) -> None:
    assert taken(spec(gpuShare=share)) == units


@pytest.mark.parametrize(
    "share",
    [
        {"memGiB": 41},
        {"memGiB": 2, "devices": ["GPU-elsewhere"]},
        {"memGiB": 2, "cardGiB": 16},
        {"memGiB": 15, "cards": 3},
    ],
)
def test_what_no_card_has_is_no_match(share: dict[str, Any]) -> None:
    assert decide(spec(gpuShare=share)) == Refusal((Reason.INSUFFICIENT_GPUS,))


def test_agents_that_share_nothing_do_not_match() -> None:
    assert decide(spec(gpuShare={"memGiB": 1}), Offer.from_json(offer())) == Refusal((Reason.INSUFFICIENT_GPUS,))


def test_an_app_with_a_part_wastes_no_agent_with_whole_gpus() -> None:
    assert isinstance(decide(spec(gpuShare={"memGiB": 1}), shared_offer(gpus=4)), Match)
    assert decide(spec(), shared_offer(gpus=4)) == Refusal((Reason.DECLINED_SCARCE_RESOURCES,))


def test_both_forms_start_the_same_task() -> None:
    share = {"memGiB": [6, 3], "weight": 2, "highPriority": True, "devices": ["GPU-a", "1"], "cardGiB": 15}
    variables = {
        "ALIYUN_COM_GPU_MEM_CONTAINER": "6,3",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "ALIYUN_COM_GPU_SCHD_WEIGHT": "2",
        "ALIYUN_COM_GPU_HIGH_PRIO": "1",
        "ALIYUN_COM_GPU_VISIBLE_DEVICES": "GPU-a,1",
    }
    documents = []
    for wanted in (spec(gpuShare=share), spec(env=variables), spec(gpuShare=share, env=variables)):
        found, there = decide(wanted), shared_offer()
        assert isinstance(found, Match)
        documents.append(task_info(wanted, "a.1", there, found))
        assert check("mesos.v1.TaskInfo", documents[-1]) is None
    assert documents[0] == documents[1] == documents[2]
    told = {v["name"]: v["value"] for v in documents[0]["command"]["environment"]["variables"]}
    assert variables.items() <= told.items()


def test_containers_of_a_pod_have_a_part_each() -> None:
    one = container("one", gpuShare={"memGiB": 6})
    two = container("two", environment={"ALIYUN_COM_GPU_MEM_CONTAINER": "20"})
    definition: dict[str, Any] = read_pod(pod("/p", one, two, container("three")), RULES)
    wanted = RunSpec(definition)
    found = decide(wanted)
    assert isinstance(found, Match)
    assert [str(part.unallocated()) for part in found.shares] == [
        "gpu_mem:[9-14]; gpu_slices:[2-2]",
        "gpu_mem:[2000-2019]; gpu_slices:[2000-2000]",
        "{}",
    ]


def test_a_run_of_a_job_has_a_part_as_an_app_has() -> None:
    asked = read_job(job(gpuShare={"memGiB": 6}), RULES)
    assert asked.definition["run"]["gpuShare"]["weight"] == 1


def test_units_of_two_roles_make_up_one_part() -> None:
    mixed = Resources.parse("gpu_mem(ml):[0-1];gpu_mem:[2-3];gpu_slices:[0-24]")
    (part,) = take_shares([ShareAsk((3,))], mixed, ("ml", "*"), []) or ()
    assert str(part) == "gpu_mem(reservations: [(STATIC,ml)]):[0-1]; gpu_mem:[2-2]; gpu_slices:[0-0]"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"gpuShare": {"memGiB": 6}, "gpus": 1}, "/"),
        ({"env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "6"}, "gpus": 1}, "/"),
        ({"env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "six"}}, "/env"),
        ({"gpuShare": {"memGiB": 6}, "env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "4"}}, "/gpuShare"),
        ({"gpuShare": {"memGiB": 6}, "env": {"CGPU_DISABLE": "true"}}, "/gpuShare"),
        ({"gpuShare": {"memGiB": [6, 3], "cards": 1}}, "/gpuShare"),
        ({"gpuShare": {"memGiB": 6, "cards": 2, "devices": ["0"]}}, "/gpuShare"),
        ({"gpuShare": {"memGiB": 6, "devices": ["0", "0"]}}, "/gpuShare"),
        ({"gpuShare": {"memGiB": 0}}, "/gpuShare/memGiB"),
        ({"gpuShare": {"memGiB": 1, "weight": 26}}, "/gpuShare/weight"),
        ({"gpuShare": {}}, "/gpuShare/memGiB"),
        ({"gpuShare": {"memGiB": 1}, "container": {"type": "DOCKER", "docker": {"image": "i"}}}, "/"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(changes: dict[str, Any], path: str, golden: Golden) -> None:
    with pytest.raises(InvalidApp) as caught:
        read_app(app(**changes), RULES)
    assert [problem.path for problem in caught.value.problems] == [path]
    assert caught.value.problems[0].message == golden


def test_a_marathon_that_would_drop_the_wish_is_not_sent_it(golden: Golden) -> None:
    other = AppRules(mesos_role="*", shares=False)
    for changes, path in (
        ({"gpuShare": {"memGiB": 6}}, "/gpuShare"),
        ({"env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "6"}}, "/env"),
    ):
        with pytest.raises(InvalidApp) as caught:
            read_app(app(**changes), other)
        assert str(caught.value) == golden
        assert [problem.path for problem in caught.value.problems] == [path]
    assert read_app(app(gpus=1), other)["gpus"] == 1


def test_what_earlier_versions_took_and_nobody_understands_is_no_part() -> None:
    assert kept_share_of(None, {"ALIYUN_COM_GPU_MEM_CONTAINER": "six"}) is None
