"""The runtime `nvidia`: takes a lease for a container that wants GPUs, writes it into the bundle, and becomes runc.

    docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 IMAGE

This process holds the lease until runc, which it becomes, has made the container; a hook of the bundle then has the
container's own first process hold it. So there is no moment without a holder, whoever is killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from mesos_gpu.base.files import write_whole
from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.doors.common.names import RUNTIME
from mesos_gpu.doors.oci.edits import edited
from mesos_gpu.doors.oci.hook import asked_of, check, read_config
from mesos_gpu.doors.oci.requirements import check_requirements
from mesos_gpu.doors.oci.wanted import environment_of, wanted
from mesos_gpu.errors import MesosGpuError, Unavailable

RUNTIMES = ("runc", "crun")
_WITH_VALUE = frozenset(
    {"--log", "--log-format", "--root", "--criu", "--rootless", "--bundle", "-b", "--console-socket", "--pid-file"}
    | {"--preserve-fds", "--config", "--cgroup-manager"}
)


def main(argv: Sequence[str] | None = None, *, agent: str | None = None, settings: str | None = None) -> int:
    """Become the OCI runtime below, after a lease where the container wants GPUs; status 1 when it gets none."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        runtime = _runtime()
        made = bundle_of(words)
        if made is not None:
            container, bundle = made
            _prepare(container, Path(bundle), agent, Path(settings or SETTINGS))
    except MesosGpuError as error:
        print(f"{RUNTIME}: {error}", file=sys.stderr)
        _log(words, str(error))
        return 1
    return os.execv(runtime, [Path(runtime).name, *words])


def bundle_of(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the id and the bundle of the container that a runtime's command line makes; None for other commands."""
    plain: list[str] = []
    bundle, at = ".", 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        at += 1
        if not name.startswith("-"):
            plain.append(words[at - 1])
            continue
        if name in _WITH_VALUE and not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if name in ("--bundle", "-b"):
            bundle = value
    return (plain[1], bundle) if len(plain) > 1 and plain[0] in ("create", "run") else None


def _log(words: Sequence[str], message: str) -> None:
    """Write an error where engines look for what a runtime says: the file of `--log`."""
    given = dict(pairwise(words)) | dict(
        word.split("=", 1) for word in words if word.startswith("--log") and "=" in word
    )
    if path := given.get("--log"):
        line = json.dumps({"level": "error", "msg": message, "time": datetime.now(timezone.utc).isoformat()})
        with suppress(OSError), Path(path).open("a", encoding="utf-8") as log:
            log.write((line if given.get("--log-format") == "json" else f"{RUNTIME}: {message}") + "\n")


def _prepare(container: str, bundle: Path, agent: str | None, settings: Path) -> None:
    config = read_config(bundle)
    want = wanted(environment_of(config))
    if want is None:
        return
    book = Book(find_agent(agent, settings=settings))
    driver = book.driver()
    check_requirements(want.requirements, driver, ())
    if not want.any:
        use = {"devices": driver["control_devices"], "environment": {}}
        use |= {"mounts": driver["mounts"], "search_paths": driver["search_paths"]}
        hook = None
    else:
        who = {"door": "nvidia-runtime", "container": container, "pid": os.getpid()}
        use = book.lend({**who, **asked_of(want, driver)})
        words = [sys.executable, "-I", "-m", "mesos_gpu.doors.oci.hook"]
        words += ["--agent", book.address.url, "--settings", str(settings), "bind", str(use["id"])]
        hook = {"path": sys.executable, "args": words}
    try:
        check(want, driver, use)
        write_whole(bundle / "config.json", json.dumps(edited(config, use, hook)).encode(), mode=None, durable=False)
    except (MesosGpuError, OSError) as error:
        if hook is not None:
            book.give_back(str(use["id"]))
        if isinstance(error, MesosGpuError):
            raise
        raise Unavailable(f"cannot write the container's configuration: {error}") from error


def _runtime() -> str:
    for folder in os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").split(":"):
        for name in RUNTIMES:
            path = Path(folder or ".") / name
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    raise Unavailable(f"neither {' nor '.join(RUNTIMES)} is on the PATH")


if __name__ == "__main__":
    raise SystemExit(main())
