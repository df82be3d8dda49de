"""Services as forks of a process that has read their code.

What takes time when a service starts is Python reading its modules, and what takes memory is what it has read. Done
once, a service is a fork: a process of its own from then on, with its own session, sockets and log, that meets the
others over HTTP and libprocess, and shares the memory of the code with them until it writes there. Who forks has no
threads, opens nothing that services should not have, and never runs any of what it has read.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.processes import read_stat
from mesos_gpu.local.forking import later
from mesos_gpu.local.plan import program

SERVICES = ("mesos_gpu.master.service", "mesos_gpu.agent.service", "mesos_gpu.marathon.service")
"""In the order in which a box starts them."""


def preload(modules: Sequence[str]) -> Iterator[str]:
    """Read modules, one for each step of the iterator. What cannot be read here fails where it is run."""
    # A collection during imports finds nothing, and looks at more each time; who forks makes no garbage later.
    gc.disable()
    # Here, as this module is imported by programs that need no messages.
    from mesos_gpu.mesos import messages

    with suppress(ImportError):
        later.read_without()
    messages.prepare()
    gc.collect()  # what that was made of leaves room for what is read next
    for module in modules:
        with suppress(Exception):
            import_module(module)
        yield module
    from mesos_gpu.process.program import set_levels

    set_levels()


def fork_service(module: str, flags: Sequence[str], *, name: str, log: int, end: signal.Signals) -> int:
    """Fork a process that runs the `main` of a module with these flags, and return its pid.

    It has no descriptor but the null device and `log`, its output; it leads a session, and gets the signal `end` when
    its parent dies. `name` is what tools show of it beside its command line, which is that of a program of its own.
    """
    with suppress(Exception):  # it fails again in the fork, and its log says why
        import_module(module)
    # Pages of objects that no collection looks at stay shared.
    gc.freeze()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        be_service(module, flags, name=name, log=log, end=end, parent=parent)
    return pid


def be_service(module: str, flags: Sequence[str], *, name: str, log: int, end: signal.Signals, parent: int) -> NoReturn:
    """Become a service: from here on nothing of the process that forked is used. See `fork_service`.

    Where `parent` is not our parent any more, nothing is run.
    """
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        libc.end_with_parent(end)
        if os.getppid() != parent:
            os._exit(1)
        os.dup2(log, 1)
        os.dup2(log, 2)
        keep_only()
        sys.argv = [module, *flags]
        rename(name, [*program(module), *flags])
        gc.enable()
        status = _status(import_module(module).main(list(flags)))
    except SystemExit as error:
        status = _status(error.code)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def keep_only(*descriptors: int) -> None:
    """Close all but the standard streams and these."""
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in descriptors:
            with suppress(OSError):  # that which the folder was read by
                os.close(number)


def _status(code: object) -> int:
    """Return the exit status that Python gives a program which ends with `code`."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def rename(name: str, command: Sequence[str]) -> None:
    """Have this process shown under a name and a command line, as far as there is room for the latter.

    The kernel shows the memory where a program's arguments were put, and lets only who has CAP_SYS_RESOURCE name
    another place: so it is written over.
    """
    libc.call("prctl", libc.PR_SET_NAME, f"mesos-{name}".encode()[:15])
    found = read_stat("self")
    start, end = (0, 0) if found is None else found.arguments
    if 0 < start < end:
        text = b"".join(os.fsencode(word) + b"\0" for word in command)[: end - start - 1]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
