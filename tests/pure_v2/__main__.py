"""Runs tests on a machine with cgroups of version 2 alone: a virtual one, with Debian's kernel and this one's files.

`python -m tests.pure_v2 [PYTEST'S WORDS]`, as `./run test pure-v2` calls it. The machine sees `/` as it is, by virtiofs
and read-only, and writes to a disk that is thrown away. There is no network in it. Ends with pytest's exit status, and
with 77 where it cannot be tried, which it says.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.pure_v2.initramfs import EXECUTABLE, FOLDER, NODE, PLAIN, archive, in_order, name_of

ROOT = Path(__file__).absolute().parents[2]
GUEST = Path(__file__).with_name("guest")
TESTS = (
    "tests/container/cgroups",
    "tests/container/life/test_hardening.py",
    "tests/container/life/test_limits.py",
    "tests/container/life/test_changing.py",
    "tests/container/life/test_nested.py",
    "tests/isolator/test_device_program.py",
    "tests/cluster/test_programs.py",
    "tests/agent/test_sharing_live.py",
    "tests/agent/test_suspension_live.py",
    "tests/agent/test_user_namespaces_live.py",
    "tests/box/test_main_job.py::test_simple_gpu_test_json_runs_on_a_gpu_of_its_own",
    "tests/box/test_demo.py",
)
"""One for each thing that stands on cgroups: devices, limits, freezers and kills under either runtime; what a task sees
of cgroups, and may do; containers and sessions in others; the programs; cards that are shared and suspended; users'
numbers; a box, and the demo."""
ALL = (
    *("tests/container", "tests/isolator", "tests/sharing", "tests/cluster/test_programs.py"),
    *(
        f"tests/agent/test_{name}_live.py"
        for name in ("checks", "disk", "executors", "gpu", "groups", "leases", "networks")
    ),
    *(f"tests/agent/test_{name}_live.py" for name in ("share_kills", "share_memory", "sharing", "suspension")),
    *("tests/agent/test_live.py", "tests/agent/test_user_namespaces_live.py"),
    *("tests/box/test_demo.py", "tests/box/test_main_job.py", "tests/box/test_nothing_left.py"),
)
"""Whatever starts containers; for a machine with KVM."""
MODULES = (
    *("virtio_pci", "virtio_blk", "virtiofs", "ext4", "overlay", "loop", "cuse", "tun"),
    *("veth", "bridge", "nf_tables", "nft_compat", "nft_chain_nat", "nf_conntrack", "nf_nat"),
    *("xt_MASQUERADE", "xt_comment", "xt_mark", "xt_tcpudp", "xt_multiport", "xt_addrtype", "xt_nat", "xt_conntrack"),
)
"""Debian's kernels have the rest built in. No program in the machine loads any later."""
PACKAGE = "linux-image-cloud-amd64"
KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog random.trust_cpu=on "
    "cgroup_no_v1=all systemd.unified_cgroup_hierarchy=1"
)
VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
DISK_BYTES = 8 << 30
PLAYED_PATIENCE = 10
"""Times as long as usual tests wait on a processor that is played."""
CANNOT = 77
"""As harnesses say that a test was skipped."""


class CannotTry(Exception):
    """This machine lacks what the virtual one needs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run test pure-v2", description=__doc__)
    parser.add_argument("--kernel", type=Path, help="folder with boot/vmlinuz-* and lib/modules/*, as Debian packs it")
    parser.add_argument("--accel", choices=["kvm", "tcg"], help="default: kvm where the processor has it, else tcg")
    parser.add_argument("--mem", default="6G", help="memory of the machine")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds after which it is ended")
    parser.add_argument("--all", action="store_true", help="all tests that start containers: hours without KVM")
    parser.add_argument("--shell", help="run this in it instead of pytest")
    options, words = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that whoever ends this ends the machine, too
    asked = words if any(not word.startswith("-") for word in words) else [*(ALL if options.all else TESTS), *words]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1800", *asked]
    line = options.shell or shlex.join(pytest)
    try:
        virtiofsd = needed()
        kernel = options.kernel or find_kernel()
        accel = options.accel or ("kvm" if has_kvm() else "tcg")
        if not options.shell:
            compile_here(pytest)
        print(f"pure cgroup v2: {newest(kernel).name.removeprefix('vmlinuz-')} by {accel}", flush=True)
        patience = "" if accel == "kvm" else f"export TESTS_PATIENCE={PLAYED_PATIENCE}; "
        return run(kernel, accel, virtiofsd, options.mem, patience + line, options.timeout)
    except CannotTry as error:
        print(f"pure cgroup v2: not tried, since {error}", flush=True)
        return CANNOT


def needed() -> str:
    """Return where virtiofsd is. Raises CannotTry when it, or another program, is missing."""
    if os.uname().machine != "x86_64" or os.geteuid() != 0:
        raise CannotTry("it takes root on x86_64")
    missing = [name for name in ("qemu-system-x86_64", "busybox", "mkfs.ext4", "unshare") if shutil.which(name) is None]
    found = [path for path in VIRTIOFSD if os.access(path, os.X_OK)]
    if missing or not found:
        raise CannotTry(f"there is no {', '.join(missing or ['virtiofsd'])}")
    return found[0]


def compile_here(pytest: Sequence[str]) -> None:
    """Have this machine compile what the other one reads: a processor that is played takes minutes for that."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": f"{sys.prefix}/pycache"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    programs = ["compileall", "-q", "mesos_gpu", "marathon_cli", "examples"]
    subprocess.run([sys.executable, "-m", *programs], cwd=ROOT, env=env, check=True)
    # What pytest refuses it refuses in there, too, and says so.
    subprocess.run([*pytest, "--collect-only", "-qq"], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=False)


def has_kvm() -> bool:
    """Return whether KVM can run Debian's kernel: some clouds' runs only kernels that were made for it."""
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return flags is not None and not {"vmx", "svm"}.isdisjoint(flags[1].split())


def find_kernel() -> Path:
    """Return Debian's kernel for virtual machines, fetched once by apt and not installed. Raises CannotTry."""
    place = ROOT / ".cache" / "pure-v2"
    if list(place.glob("boot/vmlinuz-*")):
        return place
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise CannotTry(f"there is no apt-get to fetch {PACKAGE} with; --kernel names a folder with a kernel")
    said = subprocess.run(["apt-cache", "depends", PACKAGE], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Depends: (linux-image-\S+)", said)
    with tempfile.TemporaryDirectory() as folder:
        command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", found[1] if found else PACKAGE]
        fetched = subprocess.run(command, cwd=folder, check=False)
        packages = list(Path(folder).glob("*.deb"))
        if fetched.returncode != 0 or not packages:
            raise CannotTry(f"apt-get cannot fetch {PACKAGE}")
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(place)], check=True)
    return place


def newest(kernel: Path) -> Path:
    return max(kernel.glob("boot/vmlinuz-*"))


def make_initramfs(kernel: Path, script: str, line: str) -> bytes:
    """Return the archive that the machine starts from: busybox, modules, and what is run at last, with its line."""
    modules = kernel / "lib" / "modules" / newest(kernel).name.removeprefix("vmlinuz-")
    paths = {name_of(path.name): str(path) for path in modules.rglob("*.ko")}
    order = in_order(MODULES, paths, lambda path: Path(path).read_bytes())
    files: dict[str, tuple[int, bytes]] = {name: (FOLDER, b"") for name in ("bin", "dev", "modules")}
    files["dev/console"] = (NODE, b"")
    files["bin/busybox"] = (EXECUTABLE, Path(shutil.which("busybox") or "busybox").read_bytes())
    files["init"] = (EXECUTABLE, (GUEST / "init").read_bytes())
    files["script"], files["line"] = (PLAIN, script.encode()), (PLAIN, f"{line}\n".encode())
    for number, path in enumerate(order):
        files[f"modules/{number:03}.ko"] = (PLAIN, Path(path).read_bytes())
    return archive(files)


def run(kernel: Path, accel: str, virtiofsd: str, mem: str, line: str, timeout_s: float) -> int:
    """Start the machine, run a line of shell in it, and return its exit status. Raises CannotTry."""
    token, began = secrets.token_hex(8), time.monotonic()
    script = (GUEST / "script").read_text()
    for name, value in (("TREE", str(ROOT)), ("TOKEN", token), ("PYCACHE", f"{sys.prefix}/pycache")):
        script = script.replace(f"@{name}@", value)
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="pure-v2-")))
        (folder / "initramfs").write_bytes(make_initramfs(kernel, script, line))
        with (folder / "disk").open("wb") as disk:
            disk.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(folder / "disk")], check=True)
        files = closing.enter_context(this_machines_files(virtiofsd, folder))
        command = machine(newest(kernel), accel, mem, folder, files)
        status = follow(command, token, timeout_s)
    took = f"{time.monotonic() - began:.0f} s"
    if status is None:
        print(f"pure cgroup v2: the machine ended, or was ended, before the tests had ({took})", flush=True)
        return 1
    print(f"pure cgroup v2: ended with {status} after {took}", flush=True)
    return status


@contextmanager
def this_machines_files(virtiofsd: str, folder: Path) -> Iterator[Path]:
    """Offer `/`, read-only and without what is mounted in it, at a socket. Raises CannotTry."""
    socket, seen = folder / "files", folder / "seen"
    seen.mkdir()
    share = (
        f"mount --make-rprivate / && mount --bind / {seen} && mount -o remount,bind,ro {seen} && exec {virtiofsd} "
        f"--socket-path={socket} -o source={seen} -o sandbox=chroot -o cache=always --thread-pool-size=0"
    )
    # No pool of threads: when that grows, glib asks for the processors, which virtiofsd's own filter ends it for.
    with (folder / "files.log").open("wb") as log:
        program = subprocess.Popen(["unshare", "--mount", "sh", "-c", share], stdout=log, stderr=log)
        try:
            end = time.monotonic() + 60
            while not socket.exists():
                if program.poll() is not None or time.monotonic() > end:
                    raise CannotTry(f"virtiofsd does not start: {(folder / 'files.log').read_text().strip()}")
                time.sleep(0.01)
            yield socket
        finally:
            program.kill()
            program.wait()


def machine(kernel: Path, accel: str, mem: str, folder: Path, files: Path) -> list[str]:
    """Return the command that starts it; what it says on its console is its output."""
    return [
        *("qemu-system-x86_64", "-accel", accel, "-cpu", "host" if accel == "kvm" else "max"),
        *("-smp", str(min(os.cpu_count() or 1, 4)), "-m", mem, "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-serial", "stdio", "-monitor", "none", "-nic", "none"),
        *("-object", f"memory-backend-memfd,id=mem,size={mem},share=on", "-numa", "node,memdev=mem"),
        *("-chardev", f"socket,id=files,path={files}", "-device", "vhost-user-fs-pci,chardev=files,tag=root"),
        *("-drive", f"file={folder / 'disk'},if=none,id=disk,format=raw,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"),
        *("-kernel", str(kernel), "-initrd", str(folder / "initramfs"), "-append", KERNEL_WORDS),
    ]


def follow(command: Sequence[str], token: str, timeout_s: float) -> int | None:
    """Run a machine and show what it says; return the status that it tells at last, None when it tells none."""
    status = None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            for raw in process.stdout or ():
                words = raw.decode(errors="replace").rstrip("\r\n")
                found = re.search(rf"{token} (\d+)", words)
                if found is None:
                    print(words, flush=True)
                else:
                    status = int(found[1])
        finally:
            timer.cancel()
            process.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
