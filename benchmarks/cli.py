"""What a command costs: --help, app validate, app add, beside Python alone and the DC/OS CLI; a whole one-off run.

    ./run bench cli [--rounds 20] [--dcos PATH] [--runs] [--stages]

Whole processes, in turn, medians. `app add` goes to a Marathon on loopback that answers at once, the same
for both. The DC/OS CLI is the package dcoscli 0.6.1 (2018), installed into a throw-away environment of the Python that
runs this; --dcos names one that is there. Two things are done to it, without which it does not start on Python 3.10
or newer: `collections` gets back the names that 3.10 took away (Mapping and others; dcos/config.py uses them), and
cryptography, which it pins to 2.0.2, is replaced by one that has its compiled parts.

`mesos-gpu run -- true` is whole runs, one after the other, on a box of its own with simulated GPUs (as root; left out
for others), beside `srun true` of the Slurm that answers on this machine, else of one that is started for this where
Debian's slurmctld, slurmd, slurm-client and munge are installed. None may take a second. --runs measures this alone.

--stages shows where the milliseconds of a whole run go.

Both read compiled modules, as an installed program does: Python keeps them in a folder of this run, filled before
anything is measured, also where the environment tells it not to write any.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import cli_stages, slurm
from benchmarks.kept import figure

APP = Path(__file__).parent.parent / "examples" / "simple-gpu-test.json"
MESOS_GPU = Path(sys.executable).with_name("mesos-gpu")
DCOSCLI = "dcoscli==0.6.1"
AIM = 1 / 3
WALL_AIMS_MS = {"mesos-gpu --help": 70, "mesos-gpu app list": 120, "mesos-gpu app add": 130}
"""On the quiet development machine."""
RUN_AIM, RUN_AT_MOST_S = 3.0, 1.0
# It was packed with a setuptools that had pkg_resources and use_2to3.
BUILD_WITH = "setuptools<58"
AGENTS = [
    {
        **{"id": f"S{n}", "hostname": f"host-{n}", "pid": f"slave(1)@127.0.0.1:{n}", "active": True},
        "resources": {"cpus": 32.0, "gpus": 4.0, "mem": 131072.0, "disk": 500000.0, "ports": "[31000-32000]"},
    }
    for n in range(1, 11)
]
OLD_NAMES = """\
import collections
import collections.abc

for name in ("Callable", "Hashable", "Iterable", "Mapping", "MutableMapping", "MutableSet", "Sequence", "Set"):
    setattr(collections, name, getattr(collections.abc, name))
"""


class Marathon(BaseHTTPRequestHandler):
    """Knows no app and takes any; says of itself what a Marathon says. It is its own master, with a few agents."""

    protocol_version = "HTTP/1.1"
    # An answer leaves as one. In two parts, the second waits 40 ms for an acknowledgement on connections used again.
    wbufsize = -1

    def do_GET(self) -> None:
        master = f"http://{self.headers['Host']}"
        config = {"features": ["gpu_resources"], "mesos_role": "slave_public", "mesos_leader_ui_url": master}
        info = {"name": "marathon", "version": "1.11.0", "marathon_config": config}
        known = {
            "/v2/info": info,
            "/v2/deployments": [],
            "/v2/apps": {"apps": []},
            "/v2/queue": {"queue": []},
            "/slaves": {"slaves": AGENTS},
        }
        path = self.path.partition("?")[0]
        self._answer(200 if path in known else 404, known.get(path, {"message": f"App '{path}' does not exist"}))

    def do_POST(self) -> None:
        app = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, {**app, "id": "/" + app["id"].strip("/"), "deployments": [{"id": "d-1"}]})

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def marathon() -> Iterator[str]:
    """Serve on a free port of loopback; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Marathon)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def install_dcos(folder: Path) -> Path:
    """Install the DC/OS CLI into an environment in `folder`; return its program. Raises CalledProcessError."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    constraints = folder / "constraints.txt"
    constraints.write_text(BUILD_WITH + "\n")
    env = {**os.environ, "PIP_CONSTRAINT": str(constraints)}
    env.pop("PYTHONPATH", None)
    run_quietly([*pip, DCOSCLI], env)
    run_quietly([*pip, "--upgrade", "cryptography", "cffi"], env)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "sitecustomize.py").write_text(OLD_NAMES)
    return folder / "bin" / "dcos"


def run_quietly(command: Sequence[str], env: Mapping[str, str]) -> None:
    subprocess.run(command, env=dict(env), check=True, capture_output=True, text=True)


def configure_dcos(folder: Path, url: str) -> dict[str, str]:
    """Attach the DC/OS CLI to a cluster whose Marathon is at `url`; return its environment."""
    cluster = folder / "clusters" / "bench"
    cluster.mkdir(parents=True, mode=0o700)
    (cluster / "attached").touch()
    text = f'[core]\ndcos_url = "{url}"\nreporting = false\n[cluster]\nname = "bench"\n[marathon]\nurl = "{url}"\n'
    (cluster / "dcos.toml").write_text(text)
    (cluster / "dcos.toml").chmod(0o600)
    env = {key: value for key, value in compiled(folder.parent).items() if key != "PYTHONPATH"}
    return {**env, "DCOS_DIR": str(folder)}


def compiled(folder: Path) -> dict[str, str]:
    """Return an environment in which Python writes compiled modules, to below `folder`, and reads them from there."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


class Cost(NamedTuple):
    """What a process took, in seconds: by the clock, and of processors."""

    wall: float
    cpu: float


def cost(command: Sequence[str], env: Mapping[str, str]) -> Cost:
    """Return what a command takes that must succeed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=20, help="how often each is run (default: 20)")
    arguments.add_argument("--alone", action="store_true", help="without the DC/OS CLI and whole runs: half a minute")
    arguments.add_argument("--dcos", type=Path, help="program of a DC/OS CLI that is installed")
    arguments.add_argument("--runs", action="store_true", help="measure whole runs alone, beside Slurm's")
    arguments.add_argument("--stages", action="store_true", help="show where the time of whole runs goes, and no more")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-bench-") as name, marathon() as url:
        measure(chosen, Path(name), url)


def measure(chosen: argparse.Namespace, folder: Path, url: str) -> None:
    """Measure what was asked for, with files in `folder` and a Marathon at `url`."""
    if chosen.runs or chosen.stages:
        show_runs(chosen.rounds, folder, compiled(folder), stages=chosen.stages)
        return
    ours = {**compiled(folder), "MARATHON_URL": url, "MESOS_GPU_WORK_DIR": str(folder / "no-box")}
    cases: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], ours),
        "mesos-gpu --help": ([str(MESOS_GPU), "--help"], ours),
        "mesos-gpu app validate": ([str(MESOS_GPU), "app", "validate", str(APP)], ours),
        "mesos-gpu app list": ([str(MESOS_GPU), "app", "list"], ours),
        "mesos-gpu app add": ([str(MESOS_GPU), "app", "add", str(APP)], ours),
    }
    try:
        dcos = None if chosen.alone else chosen.dcos or install_dcos(folder / "dcos")
    except subprocess.CalledProcessError as error:
        print(f"{DCOSCLI} cannot be installed, so there is nothing to compare with:\n{error.stderr}", file=sys.stderr)
    else:
        if dcos is not None:
            theirs = configure_dcos(folder / "dcos-config", url)
            cases["dcos --help"] = ([str(dcos), "--help"], theirs)
            cases["dcos marathon app add"] = ([str(dcos), "marathon", "app", "add", str(APP)], theirs)
    times: dict[str, list[Cost]] = {case: [] for case in cases}
    for case in cases:  # once for the files' sake
        cost(*cases[case])
    for _ in range(chosen.rounds):
        for case, (command, env) in cases.items():
            times[case].append(cost(command, env))
    show(times)
    if not chosen.alone:
        show_runs(chosen.rounds, folder, compiled(folder))


@contextmanager
def box(folder: Path, env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Keep a box up on free ports; yield the environment that leads to it."""
    env = {**env, "MESOS_GPU_WORK_DIR": str(folder / "box")}
    ports = [f"--{name}_port=0" for name in ("master", "agent", "marathon")]
    run_quietly([str(MESOS_GPU), "up", "--detach", "--gpu_driver=simulated", *ports], env)
    try:
        yield env
    finally:
        run_quietly([str(MESOS_GPU), "down"], env)


@contextmanager
def a_slurm(folder: Path, env: Mapping[str, str]) -> Iterator[Mapping[str, str] | None]:
    """Yield variables with which `srun true` runs, by this machine's Slurm or one of our own (slurm.py); or None."""
    if shutil.which("srun") is None:
        yield None
    elif subprocess.run(["srun", "--immediate=5", "true"], env=env, capture_output=True, check=False).returncode == 0:
        yield env
    elif slurm.missing():
        yield None
    else:
        with slurm.slurm(folder / "slurm", gpus=2) as started:
            yield started.environment()


def show_runs(rounds: int, folder: Path, env: Mapping[str, str], *, stages: bool = False) -> None:
    """Print what whole runs take, one after the other; or, for `stages`, what they take it for."""
    if os.geteuid() != 0:
        print("mesos-gpu run: left out, since only root starts containers")
        return
    with box(folder, env) as there:
        command = [str(MESOS_GPU), "run", "--", "true"]
        if stages:
            cli_stages.show(command, there, rounds)
            return
        ours = [cost(command, there).wall for _ in range(rounds)]
    with a_slurm(folder, env) as slurms:
        theirs = [] if slurms is None else [cost(["srun", "true"], slurms).wall for _ in range(rounds)]
    for name, walls in (("mesos-gpu run -- true", ours), ("srun true", theirs)):
        if walls:
            middle, worst = (one * 1000 for one in (statistics.median(walls), max(walls)))
            print(f"{name:28} {middle:6.0f} ms {min(walls) * 1000:6.0f} ms  longest of {rounds}: {worst:.0f} ms")
    print(f"mesos-gpu run -- true: {'all' if max(ours) <= RUN_AT_MOST_S else 'not all'} within {RUN_AT_MOST_S:g} s")
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        beside = ("`srun true`", statistics.median(theirs) * 1000)
        note = f"longest {max(ours) * 1000:.0f} ms"
        what = f"`mesos-gpu run -- true`, median of {rounds}"
        figure("run", what, statistics.median(ours) * 1000, "ms", beside=beside, aim=RUN_AIM, note=note)
        print(f"mesos-gpu run -- true: {ratio:.2f} of srun true by the clock (aim: {RUN_AIM:g})")
    else:
        print("srun true: no Slurm answers here, and Debian's slurmctld, slurmd, slurm-client and munge are not here")


def show(times: Mapping[str, Sequence[Cost]]) -> None:
    wall = {case: statistics.median(cost.wall for cost in costs) for case, costs in times.items()}
    cpu = {case: statistics.median(cost.cpu for cost in costs) for case, costs in times.items()}
    print(f"{'':28} {'wall':>9} {'best':>9} {'processor':>9}")
    for case, costs in times.items():
        best = min(cost.wall for cost in costs)
        print(f"{case:28} {wall[case] * 1000:6.0f} ms {best * 1000:6.0f} ms {cpu[case] * 1000:6.0f} ms")
    for case, aim in WALL_AIMS_MS.items():
        by_clock = wall[case] / wall["python -c pass"]
        beside = ("`python -c pass`", wall["python -c pass"] * 1000)
        figure(case, f"`{case}`, wall, median", wall[case] * 1000, "ms", beside=beside, aim=aim, aim_of="value")
        print(f"{case}: {wall[case] * 1000:.0f} ms (aim: {aim}), {by_clock:.1f} of python -c pass by the clock")
    for mine, their in (("mesos-gpu --help", "dcos --help"), ("mesos-gpu app add", "dcos marathon app add")):
        if their in wall:
            key = f"{mine} to dcos"
            by_clock, by_cpu = wall[mine] / wall[their], cpu[mine] / cpu[their]
            beside = (f"`{their}`", cpu[their] * 1000)
            figure(
                key,
                f"`{mine}`, processor time",
                cpu[mine] * 1000,
                "ms",
                beside=beside,
                aim=AIM,
            )
            print(
                f"{mine}: {by_clock:.2f} of {their} by the clock, {by_cpu:.2f} of its processor time (aim: {AIM:.2f})"
            )


if __name__ == "__main__":
    main()
