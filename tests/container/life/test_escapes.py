"""Published ways out of containers, as images, environments and races against ours, under crun and runc.

How often each race is tried is bounded by time, twenty times as long with HYPOTHESIS_PROFILE=deep; what of them is our
own code is tried by the hundred thousand in tests/container/host/test_races.py. docs/why/security.md has the counts.
Sources: the advisories of opencontainers/runc and of NVIDIA/nvidia-container-toolkit on GitHub, by their CVE numbers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mesos_gpu.container.host.runtime import find_image_init, find_program
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import Volume
from mesos_gpu.errors import BadInput, ContainerError, MesosGpuError
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from tests.support.container.box import Box
from tests.support.container.images import Images, ask
from tests.support.container.races import compiled
from tests.support.histories import PROFILES
from tests.support.images.build import BuiltImage, Layer, busybox_image, file, folder, link, tar_of

pytestmark = pytest.mark.root

RUNTIMES = pytest.mark.parametrize("runtime", ["crun", "runc"])
TIMES = PROFILES.get(os.environ.get("HYPOTHESIS_PROFILE", "ci"), 1.0)
RACE_S = 1.5 * TIMES
TRIES = round(10_000 * TIMES)
PROGRAMS = ("crun", "runc", "conmon")
WATCHED = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/etc/hostname")


def state_of_the_host() -> dict[str, str]:
    """Return what an escape would have changed: the programs that run as root, and settings of the kernel."""
    programs = [path for name in PROGRAMS if (path := find_program(name)) is not None]
    paths = [*programs, *map(Path, find_image_init()[:1]), *map(Path, WATCHED)]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.exists()}


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    """The host, which is as it was when a test is over."""
    before = state_of_the_host()
    yield
    assert state_of_the_host() == before


async def run_all(box: Box, tmp_path: Path, runtime: str, images: Mapping[str, BuiltImage], shell: str) -> list[str]:
    """Return what containers in these images say, one after another; "" for each that does not start."""
    store = Images(tmp_path, **images)
    containerizer = await box.open(images=store.store, runtimes=(runtime,))
    said = []
    for name in images:
        try:
            await containerizer.launch(box.config(name, image=ask(name, shell=shell), environment={}))
            await containerizer.wait(name)
            said.append(box.said(name) + box.said(name, "stderr"))
        except (BadInput, ContainerError):
            said.append("")
        await containerizer.destroy(name)
    await store.store.close()
    return said


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The attacker's program, tests/support/container/swapper.c, which runs in any image."""
    return compiled(tmp_path_factory.mktemp("attacker")).read_bytes()


@RUNTIMES
async def test_no_task_writes_over_the_runtime_that_enters_it(
    box: Box, tmp_path: Path, runtime: str, attacker: bytes
) -> None:
    """CVE-2019-5736: `#!/proc/self/exe` as what is run inside makes the runtime run itself, writable to the task.

    Whatever begins beside it, the task tries to open its program for writing: a try each time.
    """
    itself = tar_of(
        file("again", b"#!/proc/self/exe\n", mode=0o755),
        link("self", "/proc/self/exe"),
        file("steal", attacker, mode=0o755),
    )
    images = Images(tmp_path, one=busybox_image(Layer(itself)))
    containerizer = await box.open(images=images.store, runtimes=(runtime,))
    shell = "exec /steal steal /mnt/mesos/sandbox/counts"
    await containerizer.launch(box.config("c", image=ask(shell=shell), environment={}))
    sandbox = box.folder / "sandboxes" / "c"
    end, entered = time.monotonic() + RACE_S, 0
    while time.monotonic() < end or entered < 10 or counted(sandbox)[0] < TRIES:
        for command in (("/again",), ("/self", "--version"), ("/bin/true",)):
            await containerizer.execute("c", Execution(command, sandbox / "said", {}))
            entered += 1
    await containerizer.destroy("c")
    await images.store.close()
    tries, _, of_the_host = counted(sandbox)
    assert (entered >= 10, tries >= TRIES, of_the_host) == (True, True, 0)
    # The host's programs are looked at by the fixture, too.


def counted(sandbox: Path) -> tuple[int, int, int]:
    """Return how often the attacker tried, how often something opened, and how often that was not of its image."""
    try:
        return struct.unpack_from("@LLL", (sandbox / "counts").read_bytes())
    except (FileNotFoundError, struct.error):
        return 0, 0, 0


@RUNTIMES
async def test_no_working_directory_leads_to_the_host(box: Box, tmp_path: Path, runtime: str) -> None:
    """CVE-2024-21626: a descriptor of the host that the runtime has left open, as WORKDIR of the image."""
    images = {f"i{number}": busybox_image(run={"WorkingDir": f"/proc/self/fd/{number}"}) for number in range(3, 17)}
    marker = box.folder / "host-marker"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    ways = " ".join(f"{'../' * depth}{str(marker)[1:]}" for depth in range(12))
    said = await run_all(box, tmp_path, runtime, images, f"for way in {ways}; do [ -e $way ] && echo out; done; true")
    assert "out" not in "".join(said)


@RUNTIMES
async def test_no_descriptor_of_the_host_is_left_open(box: Box, tmp_path: Path, runtime: str) -> None:
    look = "for at in /proc/1/fd/* /proc/self/fd/*; do readlink $at; done | sort -u"
    (text,) = await run_all(box, tmp_path, runtime, {"c": busybox_image()}, look)
    said = set(text.split("\n")) - {""}
    assert said
    sandbox = str(box.folder / "sandboxes" / "c")
    assert {line.split(":")[0] for line in said} <= {"/dev/null", "pipe", f"{sandbox}/stdout", f"{sandbox}/stderr", "/"}


TARGETS = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/kcore", "../../../../etc/hostname")


DEVICES = ("null", "console", "pts", "ptmx", "shm", "mqueue", "fd", "zero")
WRITE = """
for at in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/modprobe; do
    { cat $at > /was; cat /was > $at; } 2>/dev/null && echo wrote $at
done
head -c 4 /proc/kcore 2>/dev/null | grep -q ELF && echo read /proc/kcore
echo ran
"""


@RUNTIMES
async def test_links_for_device_nodes_lead_no_mount_astray(box: Box, tmp_path: Path, runtime: str) -> None:
    """CVE-2025-31133 and -52565: /dev/null, with which paths are hidden, or /dev/console is a link in the image."""
    hostile = {
        f"{name}{number}": busybox_image(Layer(tar_of(folder("dev"), link(f"dev/{name}", target))))
        for name in DEVICES
        for number, target in enumerate(TARGETS[:: 1 if name in ("null", "console") else 3])
    }
    hostile["dev"] = busybox_image(Layer(tar_of(link("dev", "/proc/sys/kernel"))))
    said = await run_all(box, tmp_path, runtime, hostile, WRITE)
    assert set(said) <= {"ran\n", ""}
    assert "ran\n" in said


@RUNTIMES
async def test_links_of_an_image_send_no_write_of_the_runtime_elsewhere(box: Box, tmp_path: Path, runtime: str) -> None:
    """CVE-2025-52881: what the runtime writes to /proc/self/attr and sysctls goes to another file of /proc."""
    places = ("proc", "proc/self", "proc/self/attr", "sys", "sys/fs", "etc", "mnt/mesos/sandbox")
    hostile = {f"i{n}": busybox_image(Layer(tar_of(link(at, "/proc/sys/kernel")))) for n, at in enumerate(places)}
    said = await run_all(box, tmp_path, runtime, hostile, "echo hacked > /proc/sys/kernel/core_pattern; echo ran")
    assert any("ran" in text for text in said)


SWAP = "cd /mnt/mesos/sandbox; mkdir -p data; ln -sfn /proc other; exec /swap data other > turns"


@RUNTIMES
async def test_no_race_for_a_volumes_place_leads_to_the_hosts_files(
    box: Box, tmp_path: Path, runtime: str, attacker: bytes
) -> None:
    """CVE-2025-52881 and CVE-2021-30465: one container swaps folder and link where another's volume is mounted."""
    images = Images(tmp_path, one=busybox_image(Layer(tar_of(file("swap", attacker, mode=0o755)))))
    containerizer = await box.open(images=images.store, runtimes=(runtime,))
    await containerizer.launch(box.config("c", image=ask(shell=SWAP), environment={}))
    around = box.folder / "sandboxes" / "c"
    end, tried, refused = time.monotonic() + RACE_S, 0, 0
    while time.monotonic() < end or tried < 5:
        name = f"c.n{tried}"
        volumes = (Volume(str(around / "data"), "/seen"),)
        config = box.config(name, image=ask(shell="ls /seen | grep -x self; true"), volumes=volumes, environment={})
        try:
            await containerizer.launch(config)
            await containerizer.wait(name)
            assert "self" not in box.said(name)
        except MesosGpuError:
            refused += 1
        await containerizer.destroy(name)
        tried += 1
    await containerizer.destroy("c")
    await images.store.close()
    assert tried >= 5


EVIL = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
    char ns[64] = "";
    FILE *out = fopen("%s", "a");
    if (!out) return;
    ns[readlink("/proc/self/ns/mnt", ns, sizeof ns - 1)] = 0;
    fprintf(out, "%%s %%d\\n", ns, getpid());
    fclose(out);
}
"""


@pytest.fixture
def evil(tmp_path: Path) -> tuple[Path, bytes]:
    """A library that tells a file of the host when it is loaded outside of a container; that file, and the library."""
    mark, source, library = tmp_path / "outside", tmp_path / "evil.c", tmp_path / "evil.so"
    source.write_text(EVIL % mark)
    subprocess.run([shutil.which("cc") or "cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return mark, library.read_bytes()


@RUNTIMES
async def test_no_variable_of_an_image_reaches_a_program_of_ours(
    box: Box, tmp_path: Path, runtime: str, evil: tuple[Path, bytes]
) -> None:
    """CVE-2025-23266: hooks that run as root outside had the image's LD_PRELOAD, relative to its own files."""
    mark, library = evil
    names = ("poc.so", "libc.so.6", "libseccomp.so.2", "libsystemd.so.0", "libcap.so.2")
    layer = Layer(tar_of(folder("evil"), *(file(f"evil/{name}", library, mode=0o755) for name in names)))
    values = {
        "LD_PRELOAD": "/proc/self/cwd/poc.so:/evil/poc.so",
        "LD_AUDIT": "/proc/self/cwd/poc.so",
        "LD_LIBRARY_PATH": "/evil:/proc/self/cwd",
        "GCONV_PATH": "/proc/self/cwd",
        "_LIBCONTAINER_INITPIPE": "3",
        "_OCI_SYNCPIPE": "3",
        "NOTIFY_SOCKET": "/evil/socket",
    }
    images = {
        f"i{n}": busybox_image(layer, run={"Env": [f"{name}={value}", "PATH=/bin"], "WorkingDir": "/evil"})
        for n, (name, value) in enumerate(values.items())
    }
    said = await run_all(box, tmp_path, runtime, images, "echo ran")
    assert ["ran" in text for text in said] == [True] * len(values)
    assert not mark.exists()


OVER = (
    "usr/local/nvidia",
    "usr/local/nvidia/lib64",
    "usr/local/cuda/compat",
    "usr/local/cuda",
    "etc/ld.so.cache",
    "usr",
)


@RUNTIMES
async def test_links_of_an_image_lead_the_drivers_files_nowhere(box: Box, tmp_path: Path, runtime: str) -> None:
    """CVE-2024-0132, CVE-2025-23359 and -23267: the driver's files and the linker's cache go where a link leads."""
    outside, driver = tmp_path / "outside", tmp_path / "driver"
    outside.mkdir()
    (outside / "precious").write_text("as it was")
    (driver / "lib64").mkdir(parents=True)
    (driver / "lib64" / "libcuda.so.1").write_text("driver")
    box.isolator.plan = LaunchPlan(mounts=(BindMount(str(driver), "/usr/local/nvidia"),))
    targets = ("../" * 8 + str(outside)[1:], str(outside), f"/proc/1/root{outside}")
    images = {
        f"i{n}x{m}": busybox_image(Layer(tar_of(link(place, target))))
        for n, place in enumerate(OVER)
        for m, target in enumerate(targets)
    }
    over = " ".join(f"/{place}" for place in OVER)
    shell = f"for at in {over}; do cat $at/precious; echo bad > $at/precious; echo bad > $at; done; echo ran"
    said = await run_all(box, tmp_path, runtime, images, f"({shell}) 2>/dev/null")
    assert not [text for text in said if "as it was" in text]
    assert any("ran" in text for text in said)
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "as it was"
    assert (driver / "lib64" / "libcuda.so.1").read_text() == "driver"
