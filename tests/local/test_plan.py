"""Which programs a box runs, with which flags."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu import local
from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.local.plan import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    STEADY_S,
    GpuChoice,
    UpOptions,
    agent_specs,
    box_id,
    marathon_spec,
    next_delay_s,
)
from mesos_gpu.local.preflight import what_is_missing
from tests.support.golden import Golden


def options(**given: object) -> UpOptions:
    return UpOptions(work_dir=Path("/state"), **given).checked()  # type: ignore[arg-type]


def test_agents_take_one_port_after_another() -> None:
    assert options(agents=3).agent_ports() == [5051, 5052, 5053]
    assert options(agents=3, agent_port=0).agent_ports() == [0, 0, 0]


@pytest.mark.parametrize(
    "given",
    [
        {"agents": 0},
        {"simulated_gpus": -1},
        {"master_port": 5051},
        {"agents": 4, "marathon_port": 5054},
        {"master_port": 70000},
    ],
)
def test_a_box_that_cannot_be_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(BadInput):
        options(**given)


def test_any_number_of_ports_may_be_left_open() -> None:
    assert options(master_port=0, agent_port=0, marathon_port=0).master_port == 0


def test_every_agent_has_simulated_gpus_of_its_own() -> None:
    specs = agent_specs(options(agents=2, simulated_gpus=3), GpuChoice("simulated"))
    assert all({"--gpu_driver=simulated", "--simulated_gpus=3"} <= set(spec.flags) for spec in specs)
    assert [f"--simulated_gpu_machine={n}" in spec.flags for n, spec in enumerate(specs)] == [True, True]


@given(agents=st.integers(1, 5), gpus=st.integers(0, 8))
def test_real_gpus_are_dealt_out_once_each(agents: int, gpus: int) -> None:
    specs = agent_specs(options(agents=agents, marathon_port=0), GpuChoice("nvml", tuple(range(gpus))))
    if agents == 1:
        assert "--gpu_driver=nvml" in specs[0].flags
        return
    dealt = [
        index
        for spec in specs
        for flag in spec.flags
        if flag.startswith("--nvidia_gpu_devices=")
        for index in flag.partition("=")[2].split(",")
    ]
    assert sorted(map(int, dealt)) == list(range(gpus))
    assert all(
        ("--gpu_driver=none" in spec.flags) != any(flag.startswith("--nvidia_gpu_devices") for flag in spec.flags)
        for spec in specs
    )


def test_two_boxes_share_no_cgroup_and_no_runtime_dir() -> None:
    flags = [set(agent_specs(UpOptions(work_dir=Path(p)), GpuChoice("none"))[0].flags) for p in ("/a", "/b")]
    assert not {flag for flag in flags[0] & flags[1] if "cgroups_root" in flag or "runtime_dir" in flag}
    assert box_id(Path("/a")) != box_id(Path("/b"))


def test_marathon_runs_in_the_role_of_dcos() -> None:
    assert "--mesos_role=slave_public" in marathon_spec(options()).flags


def test_a_restarted_service_waits_longer_each_time_and_forgets_it_when_it_ran_steadily() -> None:
    delays, delay = [], None
    for _ in range(10):
        delay = next_delay_s(delay, ran_s=0.1)
        delays.append(delay)
    assert delays[0] == FIRST_DELAY_S
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY_S
    assert next_delay_s(LONGEST_DELAY_S, ran_s=STEADY_S) == FIRST_DELAY_S


def test_a_box_has_one_name_under_every_name_of_its_folder(tmp_path: Path) -> None:
    folder, link, runtime = tmp_path / "folder", tmp_path / "link", tmp_path / "runtime"
    folder.mkdir()
    link.symlink_to(folder)
    spelled = (folder, link, tmp_path / "." / "link", folder / ".." / "folder", folder / ".." / "link")
    assert len({box_id(path, runtime) for path in spelled}) == 1
    earlier = hashlib.sha256(str(link).encode()).hexdigest()[:8]
    (runtime / earlier).mkdir(parents=True)
    assert box_id(link, runtime) == earlier != box_id(folder, runtime)


def there(_: str = "") -> str:
    return "/usr/bin/it"


def no_conmon() -> None:
    raise Unavailable("conmon is missing: apt install conmon")


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert list(what_is_missing(0, (there, there), there)) == []


def test_everything_that_is_missing_is_named(golden: Golden) -> None:
    root, runtime, conmon = what_is_missing(1000, (there, no_conmon), lambda _: None)
    assert [root, runtime] == golden
    assert conmon == "conmon is missing: apt install conmon"


def test_nothing_is_started_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable) as refused:
        local.up(local.UpOptions(work_dir=tmp_path / "box", detach=True))
    assert str(refused.value) == golden
    assert not (tmp_path / "box").exists()
