"""The frame around a few endpoints alone, to test them without their program."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.process.access import READONLY
from mesos_gpu.process.authentication import Gate
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.operator_frame import Handler, OperatorFrame, Parts

PROCESS = "slave(1)"


def frame_app(
    shown: Mapping[str, Handler] | None = None,
    called: Mapping[str, Handler] | None = None,
    *,
    files: FilesApi | None = None,
    gate: Gate | None = None,
    acls: Acls = OPEN,
    json_suffixes: bool = False,
) -> web.Application:
    """An application with these endpoints beside those of every program."""
    parts = Parts(
        program="test",
        process_id=PROCESS,
        flags={"port": "5051"},
        metrics=lambda: {"some/number": 1.0},
        files=files or FilesApi(SandboxFiles(lambda path: None), dict),
        use_of=lambda name, method: READONLY,
        shown=shown or {},
        called=called or {},
    )
    return OperatorFrame(parts, gate=gate, acls=acls, json_suffixes=json_suffixes).make_app()
