"""What a volume may not open: the kernel's own files, the agent's, and what is mounted below a read-only one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.base.linux.libc import call
from mesos_gpu.container.host.mounts import unmount
from mesos_gpu.container.host.sources import refusal
from mesos_gpu.container.spec.config import ContainerConfig, Volume, check_config
from mesos_gpu.errors import BadInput
from tests.support.container.box import Box
from tests.support.container.images import Images, ask
from tests.support.golden import Golden
from tests.support.images.build import Layer, busybox_image, link, tar_of

CONTAINER_ITS_OWN = ["//proc", "//sys/fs", "///proc", "/./proc", "/proc/self", "//", "/.", "//dev"]


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host with another file system mounted in it, at `sub`."""
    folder = tmp_path / "around"
    (folder / "sub").mkdir(parents=True)
    call("mount", b"tmpfs", str(folder / "sub").encode(), b"tmpfs", 0, None)
    (folder / "sub" / "file").write_text("as it was\n")
    yield folder
    unmount(folder / "sub")


@pytest.mark.parametrize("destination", CONTAINER_ITS_OWN)
def test_no_way_to_write_a_path_puts_a_volume_over_the_containers_own(
    tmp_path: Path, destination: str, golden: Golden
) -> None:
    config = ContainerConfig("c", tmp_path, ("true",), {}, None, 100, 0, 0, volumes=(Volume("/srv", destination),))
    with pytest.raises(BadInput) as refused:
        check_config(config)
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        ("/mnt/elsewhere", "cgroup2", "the kernel's"),
        ("/mnt/elsewhere", "proc", "the kernel's"),
        ("/sys/fs/cgroup", "tmpfs", "its own"),
        ("/var/lib/mesos/meta", "ext4", "the agent's"),
        ("/var/lib/mesos", "ext4", "the agent's"),
        ("/var/lib/mesosphere", "ext4", None),
        ("/", "ext4", None),
        ("/dev/shm", "tmpfs", None),
    ],
)
def test_what_of_the_host_is_no_volume(place: str, kind: str, words: str | None) -> None:
    problem = refusal(Path(place), kind, ["/var/lib/mesos"])
    assert problem is None if words is None else words in (problem or "")


@pytest.mark.root
async def test_read_only_holds_for_what_is_mounted_below(box: Box, tmp_path: Path, around: Path) -> None:
    images = Images(tmp_path, one=busybox_image())
    volumes = (Volume(str(around), "/ro", read_only=True), Volume(str(around), "/rw"))
    script = (
        "cat /ro/sub/file; echo broken > /ro/sub/file; touch /ro/sub/new; echo fine > /rw/sub/mine; cat /ro/sub/mine"
    )
    containerizer = await box.open(images=images.store)
    await containerizer.launch(box.config("c", image=ask(shell=script), volumes=volumes, environment={}))
    await containerizer.wait("c")
    await images.store.close()
    assert box.said("c") == "as it was\nfine\n"
    assert box.said("c", "stderr").lower().count("read-only file system") == 2
    assert sorted(path.name for path in (around / "sub").iterdir()) == ["file", "mine"]


@pytest.mark.root
@pytest.mark.parametrize("source", ["/sys/fs/cgroup", "//sys/fs/cgroup", "/proc/self", "by a link", "the agent's"])
async def test_a_task_does_not_see_the_hosts_cgroups_or_the_agents_files(
    box: Box, tmp_path: Path, source: str, golden: Golden
) -> None:
    images = Images(tmp_path, one=busybox_image())
    containerizer = await box.open(images=images.store)
    (tmp_path / "link").symlink_to("/sys/fs/cgroup")
    path = {"by a link": str(tmp_path / "link"), "the agent's": str(box.folder / "run")}.get(source, source)
    config = box.config("c", image=ask(shell="true"), volumes=(Volume(path, "/seen"),), environment={})
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(config)
    assert str(refused.value) == golden
    await images.store.close()


@pytest.mark.root
async def test_the_whole_host_as_a_volume_has_no_cgroup_that_can_be_written(box: Box, tmp_path: Path) -> None:
    """Root in a container that sees the host's cgroups could leave its device cgroup, and open every GPU."""
    images = Images(tmp_path, one=busybox_image())
    script = (
        "for d in $(find /host/sys/fs/cgroup -maxdepth 2 -name cgroup.procs | head -20); do"
        " { echo 0 > $d; } 2>/dev/null && echo broke $d; done; { echo x > /host/proc/sys/kernel/domainname; }"
        " 2>/dev/null && echo broke; ls -d /host/sys/fs/cgroup"
    )
    containerizer = await box.open(images=images.store)
    volumes = (Volume("/", "/host"),)
    await containerizer.launch(box.config("c", image=ask(shell=script), volumes=volumes, environment={}))
    await containerizer.wait("c")
    await images.store.close()
    assert box.said("c") == "/host/sys/fs/cgroup\n"


@pytest.mark.root
async def test_a_link_of_the_image_leads_no_volume_to_its_proc(box: Box, tmp_path: Path, golden: Golden) -> None:
    images = Images(tmp_path, one=busybox_image(Layer(tar_of(link("data", "../proc")))))
    containerizer = await box.open(images=images.store)
    config = box.config("c", image=ask(shell="true"), volumes=(Volume("/srv", "/data/sys"),), environment={})
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(config)
    assert str(refused.value) == golden
    await images.store.close()
