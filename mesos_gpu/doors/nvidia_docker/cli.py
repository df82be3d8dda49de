"""The program nvidia-docker: docker, with GPUs for images that say that they need them."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.doors.common.engines import containers_folder
from mesos_gpu.doors.nvidia_docker.arguments import Call, cuda_problem, gpu_names, read_call
from mesos_gpu.doors.nvidia_docker.hosts import Remote, remote_host
from mesos_gpu.doors.nvidia_docker.plugin import VERSION
from mesos_gpu.doors.nvidia_docker.volumes import MOUNTPOINT, VOLUME
from mesos_gpu.errors import BadInput, MesosGpuError, Refused, Unavailable

NEEDED, CUDA = "com.nvidia.volumes.needed", "com.nvidia.cuda.version"
_TIMEOUT_S = 10.0


def main(argv: Sequence[str] | None = None, *, agent: str | None = None, settings: str | None = None) -> int:
    """Become docker, with the arguments for GPUs where an image needs them; status 1 when that cannot be."""
    words = list(sys.argv[1:] if argv is None else argv)
    docker = os.environ.get("NV_DOCKER", "").split() or ["docker"]
    try:
        call = read_call(words, _said([*docker, "version", "--format", "{{.Client.Version}}"]))
        if call.command == "version":
            print(f"NVIDIA Docker: {VERSION}\n", flush=True)
        arguments = _arguments(docker, call, agent, Path(settings or SETTINGS)) if call.image is not None else []
        command = [*docker, *call.with_arguments(arguments)]
        return os.execvp(command[0], command)
    except (MesosGpuError, OSError) as error:
        print(f"{Path(sys.argv[0]).name} | {time.strftime('%Y/%m/%d %H:%M:%S')} Error: {error}", file=sys.stderr)
        return 1


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(done.stderr.strip() or f"{command[0]} ended with status {done.returncode}")
    return done.stdout.strip()


def _arguments(docker: Sequence[str], call: Call, agent: str | None, settings: Path) -> list[str]:
    image = call.words[call.image or 0]
    if subprocess.run([*docker, "inspect", "--type=image", image], capture_output=True).returncode:
        subprocess.run([*docker, "pull", image], check=False, stdout=sys.stderr)
    labels = _labels(docker, image)
    volumes = (labels.get(NEEDED) or "").split()
    if not volumes:
        return []
    user = pwd.getpwuid(os.getuid()).pw_name
    environ = os.environ
    remote = remote_host(environ.get("NV_HOST", ""), environ.get("DOCKER_HOST", ""), environ.get("USER", user))
    names = gpu_names(environ.get("NV_GPU", ""))
    if remote is not None:
        return _remote(remote, volumes, names, labels.get(CUDA) or "")
    book = Book(find_agent(agent, settings=settings))
    driver = book.driver()
    if problem := cuda_problem(labels.get(CUDA) or "", driver):
        raise BadInput(problem)
    strange = [name for name in volumes if name != VOLUME]
    if strange:
        raise BadInput(f"unsupported volume: {strange[0]}")
    return _local(docker, call, book, driver, names)


def _labels(docker: Sequence[str], image: str) -> dict[str, str]:
    # By type: without it a container of that name would answer for the image.
    said = _said([*docker, "inspect", "--type=image", "--format={{json .Config.Labels}}", image])
    return dict(json.loads(said) or {})


def _local(docker: Sequence[str], call: Call, book: Book, driver: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the arguments of a lease: this process, then the container holds it, until that is removed."""
    asked: dict[str, Any] = {"door": "nvidia-docker", "pid": os.getpid(), "holder": _name(call)}
    asked["gpus"] = list(names) or "all"
    folder = containers_folder("docker", docker)
    if folder is not None:
        asked["containers"] = folder
    given = _option(call, "--cidfile")
    if given and folder is not None:
        asked["cidfile"] = str(Path(given).absolute())
    lease = book.lend(asked)
    arguments = [] if given or folder is None else [f"--cidfile={lease['cidfile']}"]
    for node in lease["devices"]:
        host, inside = node["host_path"], node["path"]
        arguments.append(f"--device={host}" if host == inside else f"--device={host}:{inside}")
    volume = f"{VOLUME}_{driver['version']}"
    known = subprocess.run([*docker, "volume", "inspect", volume], capture_output=True).returncode == 0
    arguments += [] if known else ["--volume-driver=nvidia-docker"]
    return [*arguments, f"--volume={volume}:{MOUNTPOINT}:ro"]


def _name(call: Call) -> str:
    return _option(call, "--name")


def _option(call: Call, name: str) -> str:
    words = call.words[: call.image]
    for at, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and at + 1 < len(words):
            return words[at + 1]
    return ""


# --- another machine ---------------------------------------------------------------------------------------------


def _remote(remote: Remote, volumes: Sequence[str], names: Sequence[str], cuda: str) -> list[str]:
    if not remote.ssh_user:
        return _ask(remote.host, remote.port, volumes, names, cuda)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = ["ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-p", str(remote.ssh_port)]
    words += ["-L", f"127.0.0.1:{port}:localhost:{remote.port}", f"{remote.ssh_user}@{remote.host.strip('[]')}"]
    with subprocess.Popen(words) as tunnel:
        try:
            _until_open(port, tunnel)
            return _ask("127.0.0.1", port, volumes, names, cuda)
        finally:
            tunnel.terminate()


def _until_open(port: int, tunnel: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while tunnel.poll() is None and time.monotonic() - began < 60:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Unavailable("ssh made no tunnel to the plugin")


def _ask(host: str, port: int, volumes: Sequence[str], names: Sequence[str], cuda: str) -> list[str]:
    info = json.loads(_get(host, port, "/gpu/info/json"))
    if problem := cuda_problem(cuda, {"cuda_version": info["Version"]["CUDA"]}):
        raise BadInput(problem)
    query = f"vol={'+'.join(map(quote, volumes))}&dev={'+'.join(map(quote, names))}"
    return _get(host, port, f"/docker/cli?{query}").split()


def _get(host: str, port: int, path: str) -> str:
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the plugin at {host}:{port} does not answer: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(f"the plugin at {host}:{port} answers {answer.status}: {text.strip()}", status=answer.status)
    return text


if __name__ == "__main__":
    raise SystemExit(main())
