"""Where a container's output goes: into its sandbox, by itself or through a program that keeps the files small."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from mesos_gpu.container.host.beneath import folder_at
from mesos_gpu.container.host.beside import start_beside
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.life.sandbox import open_output
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.output import Kept
from mesos_gpu.container.supervisor import rotator

STDOUT, STDERR = "stdout", "stderr"
PIPE_BYTES = 1 << 20
"""What a container may be ahead of the program that writes for it, where the kernel lets us say so."""
LAST_WORDS_S = 5.0
"""How long programs beside a container may take to write the end of its output when it has ended; as in Mesos."""

log = logging.getLogger(__name__)


def open_streams(
    config: ContainerConfig, bundle: Path, user: HostUser, root: Path, closing: ExitStack
) -> tuple[int, int, Process | None]:
    """Return the descriptors that a container says everything to, which `closing` closes, and who writes it down.

    That is nobody where its output is not limited: then they are the files. `root` as for `open_output`. Raises
    ContainerError, OSError.
    """
    files = []
    for name in (STDOUT, STDERR):
        files.append(open_output(config.sandbox / name, user, root=root))
        closing.callback(os.close, files[-1])
    if config.output is None:
        return files[0], files[1], None
    pipes = []
    for _ in files:
        pipes.append(os.pipe())
        for descriptor in pipes[-1]:
            closing.callback(os.close, descriptor)
        with suppress(OSError):  # it was more than fs.pipe-user-pages-soft allows
            fcntl.fcntl(pipes[-1][0], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    streams: list[str] = []
    for name, kept, file, (reads, _) in zip(
        (STDOUT, STDERR), (config.output.stdout, config.output.stderr), files, pipes, strict=True
    ):
        streams += [name, str(reads), str(file), str(kept.max_bytes), str(kept.rotate), str(_compression(kept))]
    with folder_at(root, str(config.sandbox.relative_to(root))) as folder:
        process = _start(bundle, folder, user, streams, [folder, *files, *(reads for reads, _ in pipes)])
    return pipes[0][1], pipes[1][1], process


async def see_out(writer: Process) -> None:
    """Let a program write the last output of a container that has ended; then it is gone."""
    try:
        await asyncio.wait_for(writer.wait(), LAST_WORDS_S)
    except asyncio.TimeoutError:
        log.warning("the process %d that writes a container's output did not end with it", writer.pid)
        writer.kill()
        await writer.wait()


def _compression(kept: Kept) -> int:
    if not kept.compress:
        return rotator.NONE
    return rotator.LATER if kept.delay_compress else rotator.ALL


def _start(bundle: Path, folder: int, user: HostUser, streams: list[str], descriptors: list[int]) -> Process:
    words = [str(bundle), str(folder), str(user.uid), str(user.gid), *streams]
    what = "the program that writes a container's output"
    return start_beside(rotator.__file__, words, descriptors, stdout=subprocess.DEVNULL, what=what)
