"""How a service program ends."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

FAIL = """
import sys
from mesos_gpu.process.program import run_program

async def main(stop):
    raise OSError(int(sys.argv[1]), "what the kernel said", "/a/path")

sys.exit(run_program("mesos-gpu-agent", main))
"""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOMEM])
def test_what_a_machine_is_short_of_is_one_line(number: int) -> None:
    done = subprocess.run([sys.executable, "-c", FAIL, str(number)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mesos-gpu-agent: [Errno {number}] what the kernel said: '/a/path'")


def test_our_own_faults_keep_their_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", FAIL, str(errno.EBADF)], capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


LEVELS = """
import logging
from mesos_gpu.local.forking.forked import preload
from mesos_gpu.process.program import run_program

async def main(stop):
    logging.getLogger("mesos_gpu.somewhere").info("info")
    logging.getLogger("mesos_gpu.somewhere").debug("debug")
    logging.getLogger("aiohttp.access").info("a call")
    return 0

for _ in preload(["json"]):
    pass
told = []
clear, fix = logging.Manager._clear_cache, logging.Manager._fixupChildren
logging.Manager._clear_cache = lambda self: told.append("a level") or clear(self)
logging.Manager._fixupChildren = lambda self, *names: told.append("a logger above others") or fix(self, *names)
run_program("mesos-gpu-master", main)
print(told)
"""


def test_a_service_that_is_forked_tells_nothing_to_all_loggers_which_would_take_a_page_for_each() -> None:
    done = subprocess.run([sys.executable, "-c", LEVELS], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    (line,) = done.stderr.splitlines()
    assert line.endswith("I mesos_gpu.somewhere: info")
