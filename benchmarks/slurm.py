"""A Slurm of its own for a benchmark: munged, slurmctld and slurmd from Debian's packages, on free ports of loopback.

One node with GPUs of the type `gpu` by count: nothing is bound, constrained or accounted, and jobs are followed by
linuxproc, the cheapest that there is, which is to Slurm's advantage: our tasks get namespaces, cgroups, a filter of
system calls and a root of their own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
PATIENCE_S = 60.0
AT_ONCE = "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0\n"

CONFIGURATION = """\
ClusterName=benchmark
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldDebug=info
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
{at_once}MpiDefault=none
GresTypes=gpu
MinJobAge=3600
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={gpus} RealMemory=1000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Return which of Slurm's programs are not on this machine."""
    return [name for name in PROGRAMS if _find(name) is None]


@dataclass(frozen=True, slots=True)
class Slurm:
    """One that runs, with its files in `folder`."""

    folder: Path

    def run(self, jobs: int) -> float:
        """Run so many one-GPU jobs of `true`, one job array; return the seconds from its submission to their end."""
        before, began = self._ended(), time.perf_counter()
        words = [f"--array=1-{jobs}", "--gres=gpu:1", "--output=/dev/null", "--wrap=true"]
        subprocess.run([_need("sbatch"), *words], env=self.environment(), check=True, capture_output=True)
        deadline = began + PATIENCE_S + jobs
        while self._ended() - before < jobs:
            if time.perf_counter() > deadline:
                raise SystemExit(f"Slurm ended {self._ended() - before} of {jobs} jobs: see {self.folder}")
            time.sleep(0.02)
        return time.perf_counter() - began

    def wait(self) -> None:
        """Return when its node takes jobs."""
        deadline = time.perf_counter() + PATIENCE_S
        while True:
            command = [_need("sinfo"), "--noheader", "--format=%T"]
            told = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
            if told.stdout.split() == ["idle"]:
                return
            if time.perf_counter() > deadline:
                raise SystemExit(f"Slurm's node is not idle but {told.stdout or told.stderr!r}: see {self.folder}")
            time.sleep(0.1)

    def _ended(self) -> int:
        return (self.folder / "slurmctld.log").read_text().count("_job_complete: ") // 2

    def environment(self) -> dict[str, str]:
        """Return the variables with which Slurm's programs find it."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}


@contextmanager
def slurm(folder: Path, gpus: int, *, at_once: bool = False) -> Iterator[Slurm]:
    """Run one with a node of so many GPUs; all of it is gone at the end.

    `at_once`: it is told to wait for no more jobs before it starts those it has, as it does by default for 3 s.
    """
    munge = folder / "munge"
    for path in (munge, folder / "state", folder / "spool"):
        path.mkdir(mode=0o755, parents=True)
    key = munge / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    text = CONFIGURATION.format(
        host=socket.gethostname(), folder=folder, gpus=gpus, at_once=AT_ONCE if at_once else "", **ports
    )
    (folder / "slurm.conf").write_text(text)
    devices = folder / "devices"
    devices.mkdir()
    for number in range(gpus):
        (devices / f"gpu{number}").touch()
    (folder / "gres.conf").write_text(f"NodeName=node Name=gpu File={devices}/gpu[0-{gpus - 1}]\n")
    conf = str(folder / "slurm.conf")
    commands = [
        [
            *(_need("munged"), "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket"),
            *(f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"),
        ],
        [_need("slurmctld"), "-D", "-f", conf],
        [_need("slurmd"), "-D", "-f", conf, "-N", "node"],
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / "said").open("ab") as said:
                running.append(subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL))
            time.sleep(0.5)  # munged's socket, slurmctld's port
        started = Slurm(folder)
        started.wait()
        yield started
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/bin")


def _need(name: str) -> str:
    found = _find(name)
    if found is None:
        raise SystemExit(f"{name} is missing: apt-get install slurmctld slurmd slurm-client munge")
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
