"""Containers in images: real layers, real overlayfs, a real runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from mesos_gpu.container import ContainerConfig
from mesos_gpu.container.spec.config import Volume
from mesos_gpu.container.spec.requirements import DriverFacts
from mesos_gpu.errors import BadInput, ContainerError, ImageError
from mesos_gpu.images.progress import Tell
from mesos_gpu.images.store import Image
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from tests.support.container.box import Box
from tests.support.container.images import Images, ask
from tests.support.golden import Golden
from tests.support.images.build import Layer, busybox_image, file, folder, link, tar_of

pytestmark = pytest.mark.root

OTHERS = {"PATH": "/usr/bin:/bin:/sbin"}


async def run(box: Box, images: Images, config: ContainerConfig, *, plan: LaunchPlan | None = None) -> str:
    """Run a container to its good end and return what it said."""
    if plan is not None:
        box.isolator.plan = plan
    containerizer = await box.open(images=images.store)
    try:
        await containerizer.launch(config)
        end = await containerizer.wait(config.container_id)
        assert end.exit_code == 0, (end, box.said(config.container_id), box.said(config.container_id, "stderr"))
    finally:
        await containerizer.destroy(config.container_id)
        await images.store.close()
    return box.said(config.container_id)


async def test_a_container_has_the_images_files_and_its_own_sandbox(box: Box, tmp_path: Path) -> None:
    images = Images(tmp_path, one=busybox_image(Layer(tar_of(file("hello", b"from the image\n")))))
    script = (
        "cat /hello; pwd; echo kept > file; cat /mnt/mesos/sandbox/file; ls /dev | tr '\\n' ' '; id -u; echo x > /new"
    )
    said = await run(box, images, box.config("c", image=ask(shell=script), environment={}))
    assert said.splitlines()[:3] == ["from the image", "/mnt/mesos/sandbox", "kept"]
    assert "null" in said
    assert "nvidia" not in said
    assert (box.folder / "sandboxes" / "c" / "file").read_text() == "kept\n"
    assert not Path("/mnt/mesos").exists()


async def test_what_the_image_says_of_its_command_environment_folder_and_user(box: Box, tmp_path: Path) -> None:
    says = {
        "Entrypoint": [
            "/bin/sh",
            "-c",
            'echo "$A $B $0 $1"; pwd; id -u; id -g; touch /mnt/mesos/sandbox/mine; ls -d /data',
        ],
        "Cmd": ["c0", "c1"],
        "Env": ["PATH=/bin", "A=image", "B=image"],
        "WorkingDir": "/srv/deep",
        "User": "nobody",
        "Volumes": {"/data": {}},
    }
    images = Images(tmp_path, one=busybox_image(run=says))
    said = await run(box, images, box.config("c", image=ask(), environment={"B": "task"}))
    assert said.splitlines() == ["image task c0 c1", "/srv/deep", "65534", "65534", "/data"]
    assert (box.folder / "sandboxes" / "c" / "mine").stat().st_uid == 65534


async def test_the_user_of_a_command_goes_before_the_images(box: Box, tmp_path: Path) -> None:
    images = Images(tmp_path, one=busybox_image(run={"User": "nobody"}))
    config = box.config("c", image=ask(shell="id -u", user_wins=True), user="root", environment={})
    assert await run(box, images, config) == "0\n"


@pytest.mark.parametrize("whom", ["root", "0", "root:root", "daemon"])
async def test_an_images_user_makes_nobody_but_root_another(box: Box, tmp_path: Path, whom: str) -> None:
    """The ACL run_tasks lets a framework run as nobody: whoever wrote the image has no say in that."""
    images = Images(tmp_path, one=busybox_image(run={"User": whom}))
    config = box.config("c", image=ask(shell="id -u; id -g"), user="nobody", environment={})
    assert await run(box, images, config) == "65534\n65534\n"


async def test_layers_hide_what_is_below_and_many_of_them_fit(box: Box, tmp_path: Path) -> None:
    more = [
        Layer(tar_of(file(f"l{number}", str(number).encode()), file(f".wh.l{number - 1}"))) for number in range(1, 120)
    ]
    images = Images(tmp_path, one=busybox_image(Layer(tar_of(file("l0"))), *more))
    assert await run(box, images, box.config("c", image=ask(shell="ls -d /l*"), environment={})) == "/l119\n"


async def test_the_hosts_names_and_system_are_there_read_only(box: Box, tmp_path: Path) -> None:
    script = "cat /etc/hosts; { echo x > /etc/hosts; } 2>&1; { echo x > /sys/kernel/mm/ksm/run; } 2>&1; ls /proc/1/exe"
    images = Images(tmp_path, one=busybox_image())
    said = await run(box, images, box.config("c", image=ask(shell=script), environment={}))
    assert Path("/etc/hosts").read_text() in said
    assert said.lower().count("read-only file system") == 2


async def test_hostile_links_lead_nowhere_outside(box: Box, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = Layer(
        tar_of(
            link("mnt", f"../../../../../../../../../..{outside}"),
            link("etc/hosts", f"../../../../../../../../../..{outside}/hosts"),
            link("usr/local", f"../../../../../../../../../..{outside}"),
            link("w", f"../../../../../../../../../..{outside}"),
        )
    )
    image = busybox_image(hostile, run={"WorkingDir": "/w/deep", "Volumes": {"/w/volume": {}}})
    images = Images(tmp_path, one=image)
    assert await run(box, images, box.config("c", image=ask(shell="pwd"), environment={}))
    assert list(outside.iterdir()) == []


async def test_volumes_of_host_and_sandbox(box: Box, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "file").write_text("host\n")
    volumes = (
        Volume(str(tmp_path / "shared"), "/data", read_only=True),
        Volume(str(tmp_path / "shared"), "inside"),
        Volume("kept", "/var/kept"),
    )
    script = "cat /data/file; { echo x > /data/no; } 2>&1; echo yes > inside/yes; echo k > /var/kept/k"
    images = Images(tmp_path, one=busybox_image())
    said = await run(box, images, box.config("c", image=ask(shell=script), volumes=volumes, environment={}))
    assert said.startswith("host\n")
    assert "Read-only" in said
    assert (tmp_path / "shared" / "yes").read_text() == "yes\n"
    assert (box.folder / "sandboxes" / "c" / "kept" / "k").read_text() == "k\n"


async def test_volumes_without_an_image_need_their_mount_point(box: Box, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("a\n")
    (tmp_path / "b").mkdir()
    containerizer = await box.open()
    volumes = (Volume(str(tmp_path / "a"), str(tmp_path / "b")), Volume(str(tmp_path / "a"), "in/here"))
    await containerizer.launch(box.config("c", shell=f"cat {tmp_path}/b/file in/here/file", volumes=volumes))
    assert (await containerizer.wait("c")).exit_code == 0
    assert box.said("c") == "a\na\n"
    with pytest.raises(ContainerError) as refused:
        await containerizer.launch(box.config("d", "true", volumes=(Volume(str(tmp_path / "a"), "/no/such"),)))
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(box.config("d", "true", volumes=(Volume("/no/such", "here"),)))
    assert str(refused.value) == golden
    assert not Path("/no").exists()


async def test_a_plan_for_an_image_is_carried_out(box: Box, tmp_path: Path) -> None:
    (tmp_path / "driver" / "bin").mkdir(parents=True)
    plan = LaunchPlan(
        mounts=(BindMount(str(tmp_path / "driver"), "/usr/local/nvidia"),),
        environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
        search_paths={"PATH": ("/usr/local/nvidia/bin",)},
    )
    images = Images(tmp_path, one=busybox_image(run={"Env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"]}))
    script = 'echo "$PATH $NVIDIA_VISIBLE_DEVICES $NVIDIA_DRIVER_CAPABILITIES"; ls /usr/local/nvidia'
    config = box.config("c", image=ask(shell=script), environment={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert await run(box, images, config, plan=plan) == "/bin:/usr/local/nvidia/bin GPU-1 compute,utility\nbin\n"
    assert box.isolator.images["c"] == ImageManifest({"PATH": "/bin", "NVIDIA_VISIBLE_DEVICES": "all"}, {})


async def test_an_image_that_needs_a_newer_driver_fails_with_both_versions(
    box: Box, tmp_path: Path, golden: Golden
) -> None:
    images = Images(tmp_path, one=busybox_image(run={"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=99.1"]}))
    containerizer = await box.open(images=images.store, driver=DriverFacts("550.54", "12.4"))
    with pytest.raises(ContainerError) as refused:
        await containerizer.launch(box.config("c", image=ask(), gpus=1))
    assert str(refused.value) == golden
    assert box.isolator.free == 4
    assert images.store.uses() == {}.keys()
    await images.store.close()


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ({"User": "ghost"}, BadInput),
        ({"Cmd": None}, BadInput),
        ({"WorkingDir": "/etc/passwd/x"}, ContainerError),
    ],
)
async def test_an_image_that_cannot_run_leaves_nothing(
    box: Box, tmp_path: Path, says: dict[str, object], error: type[Exception], golden: Golden
) -> None:
    images = Images(tmp_path, one=busybox_image(run=says))
    containerizer = await box.open(images=images.store)
    with pytest.raises(error) as refused:
        await containerizer.launch(box.config("c", image=ask(), gpus=1, environment={}))
    assert str(refused.value) == golden
    assert box.isolator.free == 4
    assert not images.store.uses()
    assert box.leftovers(root_cgroup=True) == []
    await images.store.close()


async def test_an_unknown_image_and_an_agent_without_images(box: Box, tmp_path: Path, golden: Golden) -> None:
    images = Images(tmp_path, one=busybox_image())
    containerizer = await box.open(images=images.store)
    with pytest.raises(ImageError) as refused:
        await containerizer.launch(box.config("c", image=ask("other"), gpus=1))
    assert str(refused.value) == golden
    assert box.isolator.free == 4
    await images.store.close()
    without = await box.open()
    with pytest.raises(BadInput, match="--image_providers"):
        await without.launch(box.config("c", image=ask()))


class EndlessPull:
    """A source that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = False

    async def recover(self, live: Collection[str] = ()) -> None:
        pass

    async def pull(
        self, reference: str, progress: Tell | None = None, *, by: str | None = None, cached: bool = True
    ) -> Image:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError

    def release(self, container_id: str) -> None:
        pass


@pytest.mark.parametrize("how", ["kill", "destroy"])
async def test_an_end_during_a_pull_ends_the_pull(box: Box, how: str, golden: Golden) -> None:
    endless = EndlessPull()
    containerizer = await box.open(images=endless)
    launching = asyncio.ensure_future(containerizer.launch(box.config("c", image=ask(), gpus=1)))
    await endless.asked.wait()
    await (containerizer.kill("c", 5.0) if how == "kill" else containerizer.destroy("c"))
    with pytest.raises(ContainerError) as refused:
        await launching
    assert str(refused.value) == golden
    assert endless.cancelled
    assert not containerizer.containers()
    assert box.isolator.free == 4


async def test_a_cancelled_launch_ends_the_pull_too(box: Box) -> None:
    endless = EndlessPull()
    containerizer = await box.open(images=endless)
    launching = asyncio.ensure_future(containerizer.launch(box.config("c", image=ask())))
    await endless.asked.wait()
    launching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launching
    assert endless.cancelled
    assert not containerizer.containers()


async def test_a_container_lives_on_and_its_image_is_kept_when_the_agent_dies(box: Box, tmp_path: Path) -> None:
    images = Images(tmp_path, one=busybox_image())
    first = await box.open(images=images.store)
    await first.launch(box.config("c", image=ask(shell="echo up; sleep 60"), environment={}))
    await first.launch(box.config("gone", image=ask(shell="sleep 60"), environment={}))
    await asyncio.to_thread(box.until_said, "c", "up")
    await first.close()
    await images.store.close()
    again = Images(tmp_path)
    second = await box.open(["c"], images=again.store)
    assert set(again.store.uses()) == {"c"}
    assert (await again.store.prune(0)).images == ()
    assert not (box.folder / "run" / "bundles" / "gone").exists()
    await second.destroy("c")
    assert not again.store.uses()
    assert len((await again.store.prune(0)).images) == 1
    await again.store.close()


@pytest.mark.timeout(180)
async def test_fifty_containers_of_one_image_at_once_change_nothing_in_the_store(box: Box, tmp_path: Path) -> None:
    layers = [Layer(tar_of(folder(f"d{number}"), file(f"d{number}/f", b"x" * 4096))) for number in range(5)]
    images = Images(tmp_path, one=busybox_image(*layers))
    containerizer = await box.open(images=images.store)
    await images.store.pull("all:one")
    before = images.digest()
    script = "rm -r /d0 && echo changed > /d1/f && mv /d2/f /d3/g && touch /new && cat /d4/f > /dev/null && echo done"
    names = [f"c{number}" for number in range(50)]
    mem = 32 << 20
    configs = [box.config(n, image=ask(shell=script), environment={}, mem_bytes=mem) for n in names]
    await asyncio.gather(*(containerizer.launch(config) for config in configs))
    ends = await asyncio.gather(*(containerizer.wait(name) for name in names))
    assert [end.exit_code for end in ends] == [0] * 50
    assert {box.said(name) for name in names} == {"done\n"}
    assert images.digest() == before
    assert not images.store.uses()
    mounts = await containerizer._mounts.run(lambda: Path("/proc/thread-self/mountinfo").read_text())
    assert [line for line in mounts.splitlines() if " - overlay overlay" in line and str(box.folder) in line] == []
    assert list((box.folder / "run" / "bundles").iterdir()) == []
    await images.store.close()
