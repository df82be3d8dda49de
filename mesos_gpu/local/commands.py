"""`up`, `down` and `status`: what the CLI calls."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.local import asking
from mesos_gpu.local.credentials import credential
from mesos_gpu.local.ending import AGENT_STOP_S, KEEP_TASKS, STOP_S, check_ended
from mesos_gpu.local.forking.signals import held_back, leaving
from mesos_gpu.local.group import with_members
from mesos_gpu.local.plan import ROOM, GpuChoice, UpOptions, program
from mesos_gpu.local.record import Box, Records, Service, is_alive
from mesos_gpu.local.returning import named, what_runs
from mesos_gpu.mesos.dcos.switches import ISOLATION, SCARCE
from mesos_gpu.mesos.security.tls_settings import without_tls

log = logging.getLogger(__name__)

UNAUTHORIZED = 401
Login: TypeAlias = tuple[str, str] | None
# The supervisor's own limits for three services one after another, and a little for itself.
_DOWN_TIMEOUT_S = 2 * STOP_S + AGENT_STOP_S + 15.0


def up(options: UpOptions) -> int:
    """Bring a box up and print where it is; stay until Ctrl-C, or with `detach` return once it can be used.

    Returns the exit status. Raises BadInput, Conflict (already running) or Unavailable, for what is missing before
    anything is started.
    """
    from mesos_gpu.local.preflight import check_machine

    options = with_switches(options.checked())
    check_machine()
    options = with_members(options)
    if options.detach:
        return _up_detached(options)
    # They take longer to import than the rest, and a box in the background does so in a process of its own.
    import asyncio

    from mesos_gpu.local.screen import screen
    from mesos_gpu.local.supervisor import Supervisor

    # What the supervisor has to say while the box runs is about services that died and came back.
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")

    def ready(box: Box, gpus: GpuChoice) -> None:
        print(screen(box, gpus, options), flush=True)
        print("Ctrl-C stops it all.", flush=True)

    asyncio.run(Supervisor(options).run(ready))
    print("The box is down: services, tasks and what they held are gone.", flush=True)
    return 0


def with_switches(options: UpOptions) -> UpOptions:
    """Return the options with what a config.yaml says of DC/OS' switches where they do not say it themselves."""
    if options.dcos_config is None:
        return options
    from mesos_gpu.process.program import read_switches

    said = read_switches(options.dcos_config)
    isolation, scarce = options.enable_gpu_isolation, options.gpus_are_scarce
    return replace(
        options,
        enable_gpu_isolation=said.get(ISOLATION) if isolation is None else isolation,
        gpus_are_scarce=said.get(SCARCE) if scarce is None else scarce,
    )


def down(work_dir: Path, keep_tasks: bool, *, for_ever: bool = False) -> int:
    """Stop the box of this work_dir; its tasks end too unless `keep_tasks`. Returns the exit status.

    Prints the apps that start again with the next box. With `for_ever` it does not, and leaves
    tasks that have not ended to `purge`.

    Raises NotFound when no box runs there, Unavailable when it does not stop or tasks may run on that were to end.
    """
    records = Records(work_dir.expanduser().absolute())
    box = records.read()
    if box is None:
        if not keep_tasks and not for_ever:
            check_ended(records.work_dir)
        raise NotFound(f"no box runs in {records.work_dir}; `mesos-gpu up` starts one")
    back = what_runs(box.marathon.url, None if box.open else credential(records.work_dir))
    if is_alive(box.pid, box.started):
        _end(box.pid, KEEP_TASKS if keep_tasks else signal.SIGTERM)
    else:
        # Its services were told to stop when their supervisor died; end what is left of them.
        for service in box.services().values():
            if is_alive(service.pid, service.started):
                _end(service.pid, signal.SIGTERM)
        records.remove()
        if for_ever:
            return 0
        raise Unavailable(
            "the box's supervisor had died, and its services with it; tasks may still run. "
            "`mesos-gpu up` takes them over again, and `mesos-gpu down` then ends them"
        )
    if not keep_tasks and not for_ever:
        check_ended(records.work_dir)
    print("The box is down; its tasks run on." if keep_tasks else "The box is down, and its tasks have ended.")
    if back and not keep_tasks and not for_ever:
        print(f"At the next `mesos-gpu up` these come back: {named(back)}. `mesos-gpu down --purge` forgets them.")
    return 0


def status(work_dir: Path) -> dict[str, Any]:
    """Return the services with url and pid (None when down), and each agent's GPUs. Raises NotFound without a box."""
    records = Records(work_dir.expanduser().absolute())
    box = records.read()
    if box is None:
        raise NotFound(f"no box runs in {records.work_dir}; `mesos-gpu up` starts one")
    login = None if box.open else credential(records.work_dir)
    return {
        "master": _state(box.master, "/health", login),
        "agents": [_agent_state(agent, login) for agent in box.agents],
        "marathon": _state(box.marathon, "/ping", login),
    }


def _up_detached(options: UpOptions) -> int:
    ours, theirs = os.pipe()
    log_file = options.work_dir / "log" / "supervisor.log"
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        output = log_file.open("ab")
    except OSError as error:
        raise Unavailable(f"cannot use {options.work_dir} as work_dir: {error.strerror}") from None
    supervisor: subprocess.Popen[bytes] | None = None
    with output, leaving():
        try:
            with held_back():  # else it could begin, and nobody know of it
                supervisor = subprocess.Popen(
                    [*program("mesos_gpu.local"), json.dumps(asdict(options), default=str), str(theirs), ROOM],
                    env=without_tls(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=[theirs],
                )
            os.close(theirs)
            with os.fdopen(ours) as report:
                outcome, _, text = report.read().partition("\n")
        except BaseException:
            # Who types Ctrl-C while a box comes up, or closes the terminal, wants none.
            if supervisor is not None:
                with held_back():
                    supervisor.terminate()
                    supervisor.wait()
            raise
    if outcome == "ready":
        print(text)
        print(f"It runs in the background; `mesos-gpu down --work_dir {options.work_dir}` stops it.")
        return 0
    raise Unavailable(text or f"the box's supervisor ended without an error message; its log: {log_file}")


def _end(pid: int, number: signal.Signals) -> None:
    """Signal a process and wait until it is gone. Raises Unavailable when it is not in time, or not ours."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(watch, number)
        if not select.select([watch], [], [], _DOWN_TIMEOUT_S)[0]:
            raise Unavailable(f"the box (pid {pid}) has not stopped after {_DOWN_TIMEOUT_S:g} s")
    except PermissionError:
        raise Unavailable(f"the box (pid {pid}) belongs to another user; stop it as that user or as root") from None
    finally:
        os.close(watch)


def _state(service: Service, path: str, login: Login) -> dict[str, Any]:
    answers = is_alive(service.pid, service.started) and _ask(service.url + path, login) is not None
    return {"url": service.url, "pid": service.pid if answers else None}


def _agent_state(agent: Service, login: Login) -> dict[str, Any]:
    state = _ask(agent.url + "/state", login) if is_alive(agent.pid, agent.started) else None
    named = {"url": agent.url, "name": agent.name, "pool": agent.pool}
    if state is None or not state.ok:  # not ok: it is up, and not ours to look into
        return {**named, "pid": None if state is None else agent.pid, "gpus": agent.gpus, "gpus_free": None}
    total, free = gpus_of(state.document)
    return {**named, "pid": agent.pid, "gpus": total, "gpus_free": free}


def gpus_of(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many GPUs an agent has by its /state, and how many of them are free."""
    taken = [document["unreserved_resources_allocated"], *document["reserved_resources_allocated"].values()]
    total = document["resources"]["gpus"]
    # A GPU that vanished is still held by its task, but no longer one of the agent's.
    free = total - sum(resources["gpus"] for resources in taken)
    return int(total), max(0, int(free))


def _ask(url: str, login: Login) -> asking.Answer | None:
    answer = asking.get(url, login)
    return answer if answer is not None and (answer.ok or answer.status == UNAUTHORIZED) else None
