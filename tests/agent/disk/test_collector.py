"""The collector on a real disk, with a clock and a disk usage of the test's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.decisions.collecting import GcRules, in_use
from mesos_gpu.agent.disk.collector import Collector, disk_usage
from mesos_gpu.agent.disk.removal import ASIDE, Remover, folder_in, left_aside, put_aside
from mesos_gpu.agent.running.nested_sandboxes import NestedSandboxes
from mesos_gpu.container.spec.config import ContainerConfig, Termination
from tests.fakes.containerizer import FakeContainerizer
from tests.support.golden import Golden

WALL_S = 1_800_000_000.0
F = "slaves/a/frameworks/f"
E = f"{F}/executors/e"


@dataclass
class Bench:
    """A collector whose time stands still unless it is moved."""

    folder: Path
    rules: GcRules = field(default_factory=lambda: GcRules(delay_s=1000.0))
    now_s: float = 0.0
    usage: float = 0.0
    removed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = Clock(mono=lambda: self.now_s, wall=lambda: WALL_S + self.now_s)
        self.collector = Collector(self.folder, self.rules, clock=clock, usage=lambda _: self.usage)
        self.collector.on_removed = self.removed.append

    def make(self, path: str, *, age_s: float = 0.0, meta: bool = True) -> None:
        for root in (self.folder, self.folder / "meta")[: 1 + meta]:
            (root / path).mkdir(parents=True, exist_ok=True)
            at_s = WALL_S + self.now_s - age_s
            os.utime(root / path, (at_s, at_s))

    def there(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_dir() and ASIDE not in path.parts and path.name in ("1", "2", "e", "f", "a", "old")
        )

    async def at(self, now_s: float) -> None:
        self.now_s = now_s
        await self.collector.collect(now_s)

    def counts(self) -> tuple[int, int, int]:
        return self.collector.pending, self.collector.succeeded, self.collector.failed


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    one = Bench(tmp_path)
    yield one
    await one.collector.close()


async def test_a_run_and_its_checkpoint_go_when_their_time_is_over_and_are_counted(bench: Bench) -> None:
    bench.make(f"{E}/runs/1")
    bench.make(f"{E}/runs/2")
    bench.collector.discard([f"{E}/runs/1", f"{E}/runs/nothing"])
    assert bench.counts() == (2, 0, 0)
    await bench.at(999.0)
    assert bench.removed == []
    await bench.at(1000.0)
    assert bench.removed == [f"{E}/runs/1"]
    assert bench.counts() == (0, 2, 0)
    assert f"{E}/runs/1" not in bench.there()
    assert f"meta/{E}/runs/1" not in bench.there()
    assert f"{E}/runs/2" in bench.there()


async def test_what_is_used_again_stays(bench: Bench) -> None:
    bench.make(f"{E}/runs/1")
    bench.collector.discard([f"{E}/runs/1", E])
    bench.collector.spare([E])
    await bench.at(1000.0)
    assert bench.there() == ["meta/slaves/a", f"meta/{F}", f"meta/{E}", "slaves/a", F, E]


@pytest.mark.parametrize(("usage", "gone"), [(0.3, False), (0.41, True), (0.95, True)])
async def test_a_full_disk_collects_sooner(bench: Bench, usage: float, gone: bool) -> None:
    bench.make(E)
    bench.collector.discard([E])
    bench.now_s, bench.usage = 500.0, usage  # half its time is over: allowed while 1 - 0.1 - usage is over a half
    assert bench.collector.allowed_age_s == 900.0, "before it looked, as for an empty disk"
    await bench.collector.look()
    assert bench.collector.allowed_age_s == pytest.approx(1000.0 * max(0.0, 0.9 - usage))
    assert (bench.removed == [E]) is gone


async def test_a_disk_that_cannot_be_asked_collects_nothing_early(
    bench: Bench, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    def broken(folder: Path) -> float:
        raise OSError(5, "Input/output error")

    bench.make(E)
    bench.collector.discard([E])
    bench.collector._usage = broken
    await bench.collector.look()
    assert bench.removed == []
    assert caplog.messages == golden


async def test_after_a_restart_what_ended_is_as_old_as_it_is_and_what_lives_stays(bench: Bench) -> None:
    bench.make(f"{E}/runs/2", age_s=5000.0)
    bench.make(f"{E}/runs/1", age_s=400.0)
    bench.make(f"{F}/executors/x/runs/1", age_s=2000.0, meta=False)
    bench.make(f"{F}/executors/x", age_s=2000.0, meta=False)
    used = {F, E, f"{E}/runs/2"}
    await bench.collector.recover("a", lambda: used)
    await bench.at(0.0)
    assert sorted(bench.removed) == [f"{F}/executors/x", f"{F}/executors/x/runs/1"]
    await bench.at(599.0)
    assert f"{E}/runs/1" not in bench.removed
    await bench.at(600.0)
    assert f"{E}/runs/1" in bench.removed
    await bench.at(1e6)
    assert f"{E}/runs/2" in bench.there()


async def test_an_agent_that_this_one_is_no_longer_goes_whole_after_its_time(bench: Bench) -> None:
    bench.make("slaves/old", age_s=5e6)
    bench.make("slaves/a")
    (bench.folder / "meta" / "slaves" / "latest").symlink_to("a")
    await bench.collector.recover("a", lambda: in_use("a", []))
    bench.collector.spare(["slaves/a"])
    # Touched just now, in this test's time long after its own beginning.
    assert bench.counts()[0] == 2
    await bench.at(1e12)
    assert bench.there() == ["meta/slaves/a", "slaves/a"]
    assert (bench.folder / "meta" / "slaves" / "latest").is_symlink()


async def test_what_cannot_be_removed_is_counted_said_and_not_tried_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    bench.make(f"{E}/runs/1", meta=False)
    bench.collector.discard([f"{E}/runs/1"])
    (bench.folder / E / "runs").rename(bench.folder / "moved")
    (bench.folder / E / "runs").symlink_to(bench.folder / "moved")
    await bench.at(1000.0)
    assert bench.counts() == (0, 0, 1)
    assert bench.removed == []
    assert caplog.messages == golden
    assert (bench.folder / "moved" / "1").is_dir()


async def test_it_works_by_itself_and_finishes_what_the_last_process_began(tmp_path: Path) -> None:
    (tmp_path / "slaves" / ASIDE / "rest" / "of").mkdir(parents=True)
    (tmp_path / E).mkdir(parents=True)
    collector = Collector(tmp_path, GcRules(delay_s=0.0))
    gone = asyncio.Event()
    collector.on_removed = lambda path: gone.set()
    collector.start()
    collector.discard([E])
    await asyncio.wait_for(gone.wait(), 60.0)
    await collector.close()
    await collector.close()
    assert not (tmp_path / E).exists()


async def test_many_are_removed_in_slices(bench: Bench) -> None:
    paths = [f"{F}/executors/e{number}" for number in range(150)]
    for path in paths:
        bench.make(path, meta=False)
    bench.collector.discard(paths)
    await bench.at(1000.0)
    assert sorted(bench.removed) == sorted(paths)
    assert bench.counts() == (0, 150, 0)
    assert list((bench.folder / "slaves" / ASIDE).iterdir()) == []


def test_usage_is_what_mesos_calls_so(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert disk_usage(tmp_path) == pytest.approx((found.f_blocks - found.f_bfree) / found.f_blocks, abs=0.05)


async def test_with_the_flag_sandboxes_of_the_api_that_ended_while_it_was_away_go_and_others_stay(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, GcRules(delay_s=1000.0, nested=True))
    run = f"{E}/runs/2"
    inner = f"{run}/containers"
    for path in (run, f"{inner}/lives", f"{inner}/ended", f"{inner}/ended/containers/deeper", "containers/alone"):
        bench.make(path, age_s=2000.0, meta=False)
    elsewhere = tmp_path / "elsewhere" / "x"
    elsewhere.mkdir(parents=True)
    (tmp_path / inner / "lives" / "containers").symlink_to(elsewhere.parent)
    await bench.collector.recover("a", lambda: {F, E, run, f"{inner}/lives"})
    await bench.at(0.0)
    assert sorted(bench.removed) == ["containers/alone", f"{inner}/ended", f"{inner}/ended/containers/deeper"]
    assert (tmp_path / inner / "lives").is_dir()
    assert elsewhere.is_dir(), "a link that a task made leads nowhere"
    assert bench.counts() == (0, 3, 0)


@pytest.mark.parametrize("flag", [True, False])
async def test_what_runs_on_after_a_restart_is_followed_to_its_end(tmp_path: Path, flag: bool) -> None:
    bench = Bench(tmp_path, GcRules(delay_s=0.0, nested=flag))
    sandbox = f"{E}/runs/2/containers/inner"
    bench.make(sandbox, meta=False)
    fake = FakeContainerizer()
    for name, path in (("2", f"{E}/runs/2"), ("2.inner", sandbox)):
        fake.running[name] = ContainerConfig(name, tmp_path / path, ("true",), {}, None, 0, 0, 0)
    sandboxes = NestedSandboxes(fake, bench.collector)
    assert sandboxes.recover(str(tmp_path)) == ({sandbox} if flag else set())
    await asyncio.sleep(0)
    await bench.at(0.0)
    assert bench.removed == []
    fake.end("2.inner", Termination(exit_code=0))
    for _ in range(3):
        await asyncio.sleep(0)
    await bench.at(0.0)
    assert bench.removed == ([sandbox] if flag else [])
    await sandboxes.close()


async def test_the_link_to_a_tasks_sandbox_stays_when_what_was_written_down_of_the_task_goes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    # An executor that runs on has such a link for each task of its groups, at the path of the task's checkpoint.
    bench.make(f"{E}/runs/1/tasks")
    (bench.folder / "meta" / E / "runs/1/tasks/t").mkdir()
    (bench.folder / E / "runs/1/containers/c").mkdir(parents=True)
    link = bench.folder / E / "runs/1/tasks/t"
    link.symlink_to("../containers/c")
    bench.collector.discard([f"{E}/runs/1/tasks/t"])
    assert bench.counts() == (1, 0, 0), "a link is not a folder that waits"
    await bench.at(1001.0)
    assert not (bench.folder / "meta" / E / "runs/1/tasks/t").exists()
    assert link.is_symlink(), "somebody may still read it"
    assert link.is_dir()
    assert bench.removed == [], "so /files still shows it"
    assert bench.counts() == (0, 1, 0)
    assert not caplog.records


NOBODY = 65534
RUN = "slaves/a/frameworks/f/executors/e/runs/1"


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / RUN).mkdir(parents=True)
    return tmp_path / RUN


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that everybody reaches: those of pytest are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="mesos-gpu-removal-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def remove(root: Path, path: str = RUN) -> OSError | None:
    return Remover(threading.Event()).remove(put_aside(root, path))


def test_its_name_is_free_at_once_and_then_it_is_gone_with_all_that_is_in_it(tmp_path: Path, sandbox: Path) -> None:
    (sandbox / "a" / "b").mkdir(parents=True)
    (sandbox / "a" / "b" / "file").write_text("x")
    os.mkfifo(sandbox / "pipe")
    (sandbox.parent / "latest").symlink_to("1")
    aside = put_aside(tmp_path, RUN)
    assert list(sandbox.parent.iterdir()) == []
    assert left_aside(tmp_path) == [aside]
    assert aside.parent.stat().st_mode & 0o777 == 0o700
    assert Remover(threading.Event()).remove(aside) is None
    assert left_aside(tmp_path) == []


def test_the_link_to_another_run_stays(tmp_path: Path, sandbox: Path) -> None:
    (sandbox.parent / "latest").symlink_to("2")
    put_aside(tmp_path, RUN)
    assert (sandbox.parent / "latest").readlink() == Path("2")


def test_links_are_removed_and_not_followed(tmp_path: Path, sandbox: Path) -> None:
    treasure = tmp_path / "volumes"
    treasure.mkdir()
    (treasure / "data").write_text("precious")
    (sandbox / "volume").symlink_to(treasure)
    (sandbox / "data").symlink_to(treasure / "data")
    (sandbox / "broken").symlink_to("/nowhere")
    os.link(treasure / "data", sandbox / "same")
    assert remove(tmp_path) is None
    assert (treasure / "data").read_text() == "precious"


def test_a_link_on_the_way_or_in_its_place_is_refused(tmp_path: Path, sandbox: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "containers" / "x").mkdir(parents=True)
    (sandbox / "containers").symlink_to(elsewhere / "containers")
    with pytest.raises(OSError, match="containers"):
        put_aside(tmp_path, f"{RUN}/containers/x")
    with pytest.raises(NotADirectoryError):
        put_aside(tmp_path, f"{RUN}/containers")
    with pytest.raises(OSError, match="containers"), folder_in(tmp_path, f"{RUN}/containers"):
        pass
    assert (elsewhere / "containers" / "x").is_dir()


def test_no_depth_is_too_deep(tmp_path: Path, sandbox: Path) -> None:
    at = os.open(sandbox, os.O_RDONLY)
    for _ in range(60):  # longer than any path may be
        os.mkdir("d" * 100, dir_fd=at)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    assert remove(tmp_path) is None
    assert left_aside(tmp_path) == []


def test_one_that_was_stopped_is_found_by_the_next_process(tmp_path: Path, sandbox: Path) -> None:
    (sandbox / "file").touch()
    stop = threading.Event()
    stop.set()
    assert isinstance(Remover(stop).remove(put_aside(tmp_path, RUN)), InterruptedError)
    (rest,) = left_aside(tmp_path)
    assert Remover(threading.Event()).remove(rest) is None
    assert list((tmp_path / "slaves" / ASIDE).iterdir()) == []


@pytest.mark.root
def test_who_is_not_root_gets_rid_of_what_its_tasks_locked(outside: Path) -> None:
    os.seteuid(NOBODY)
    try:
        locked = outside / RUN / "locked"
        (locked / "inner").mkdir(parents=True)
        (locked / "inner" / "file").touch()
        for folder in (locked / "inner", locked, locked.parent):
            folder.chmod(0o500 if folder == locked.parent else 0)
        assert remove(outside) is None
        assert left_aside(outside) == []
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_mounts_are_not_entered_and_all_else_goes(tmp_path: Path, sandbox: Path) -> None:
    volume = tmp_path / "volumes" / "v"
    volume.mkdir(parents=True)
    (volume / "data").write_text("precious")
    (sandbox / "deep" / "mount").mkdir(parents=True)
    (sandbox / "deep" / "file").touch()
    (sandbox / "z").touch()
    subprocess.run(["mount", "--bind", volume, sandbox / "deep" / "mount"], check=True)
    aside = put_aside(tmp_path, RUN)
    problem = Remover(threading.Event()).remove(aside)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    (target,) = [line.split()[4] for line in mounts if str(tmp_path) in line]
    subprocess.run(["umount", target], check=True)
    assert problem is not None
    assert (volume / "data").read_text() == "precious"
    kept = [path for path in (tmp_path / "slaves" / ASIDE).rglob("*") if not path.is_dir()]
    assert kept == [], "files beside the mount are gone"
