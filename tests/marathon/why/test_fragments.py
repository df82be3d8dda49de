"""GPUs that are free and that nothing could use."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.why.fragments import fragments, sizes_of
from mesos_gpu.marathon.why.request import spec_of
from tests.support.marathon.why import agent, app


def test_gpus_without_cpus_or_memory_and_too_few_are_told_with_the_cause() -> None:
    sizes = sizes_of([spec_of(app(gpus=2, cpus=2, mem=1024, instances=3))], [])
    agents = [
        agent("cpus", used={"cpus": 7}),
        agent("mem", used={"mem": 16000}),
        agent("one", used={"gpus": 3}),
        agent("good"),
        agent("full", used={"gpus": 4}),
        agent("away", active=False),
    ]
    assert [(one.agent_id, one.free, one.stranded, one.causes) for one in fragments(agents, sizes)] == [
        ("A-cpus", 4, 4, ("cpus",)),
        ("A-mem", 4, 4, ("mem",)),
        ("A-one", 1, 1, ("gpus",)),
        ("A-good", 4, 0, ()),
    ]


def test_sizes_are_those_of_apps_and_jobs_with_gpus() -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "j", "run": {"gpus": 2, "cpus": 1, "mem": 128}},
        {"id": "k", "run": {"cpus": 1}},
    ]
    specs = [app(instances=2), app(gpus=4, instances=1), app(gpus=0), app(instances=0)]
    found = sizes_of(map(spec_of, specs), jobs)
    assert [(size.amounts["gpus"], size.count) for size in found] == [(4000, 1), (2000, 3)]


def test_without_a_mix_nothing_is_stranded() -> None:
    assert [(one.free, one.stranded, one.causes) for one in fragments([agent()], [])] == [(4, 0, ())]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 16)), max_size=3),
    st.integers(0, 4),
    st.integers(0, 8),
    st.integers(0, 16),
)
def test_what_is_stranded_fits_no_size_and_the_rest_is_filled(
    mix: list[tuple[int, int, int]], gpus: int, cpus: int, mem: int
) -> None:
    sizes = sizes_of([spec_of(app(gpus=g, cpus=c, mem=m * 1024)) for g, c, m in mix], [])
    one = agent(used={"gpus": 4 - gpus, "cpus": 8 - cpus, "mem": 16384 - mem * 1024})
    found = fragments([one], sizes)
    if not gpus:
        assert found == []
        return
    if not mix:
        assert found[0].stranded == 0
        return
    fills = {
        sum(n * g for n, (g, _, _) in zip(counts, mix, strict=True))
        for counts in product(range(5), repeat=len(mix))
        if all(
            sum(n * size[at] for n, size in zip(counts, mix, strict=True)) <= have
            for at, have in enumerate((gpus, cpus, mem))
        )
    }
    assert gpus - found[0].stranded in fills
    assert (found[0].stranded == gpus) == (max(fills) == 0)
