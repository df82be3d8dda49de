"""A real registry for tests: Debian's docker-registry on 127.0.0.1, with a storage folder of its own.

`RealRegistry` is a context manager; tests/images/conftest.py has fixtures. examples/demo_image.py uses it too, where no
test tools are installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from mesos_gpu.images.reference import ImageReference
from tests.support.images.build import BuiltImage, push

USER, PASSWORD = "tester", "secret"
_BCRYPT = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
_LISTENING = re.compile(r"listening on ([\d.:]+)")


class RealRegistry:
    """Started on entering, ended on leaving. `url` is what --docker_registry takes."""

    def __init__(self, folder: Path, *, login: bool = False, tls: tuple[Path, Path] | None = None) -> None:
        """`tls` is a certificate and its key."""
        self.folder, self._login, self._tls = folder, login, tls
        self._process: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None
        self._address = "127.0.0.1:0"

    @property
    def host(self) -> str:
        return self._address

    @property
    def url(self) -> str:
        return f"http{'' if self._tls is None else 's'}://{self._address}"

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    def blob_path(self, digest: str) -> Path:
        number = digest.partition(":")[2]
        return self.storage / "docker/registry/v2/blobs/sha256" / number[:2] / number / "data"

    def push(self, name: str, image: BuiltImage) -> None:
        reference = ImageReference.parse(name)
        push(self.url, reference.repository, image, tag=reference.tag, auth=(USER, PASSWORD) if self._login else None)

    def start(self) -> None:
        """Start it, at its earlier address if it had one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {
            "version": "0.1",
            "log": {"accesslog": {"disabled": True}, "level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}, "delete": {"enabled": True}},
            "http": {"addr": self._address},
        }
        if self._tls is not None:
            settings["http"]["tls"] = {"certificate": str(self._tls[0]), "key": str(self._tls[1])}
        if self._login:
            (self.folder / "users").write_text(f"{USER}:{_BCRYPT}\n")
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(self.folder / "users")}}
        (self.folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
        process = subprocess.Popen(
            [shutil.which("docker-registry") or "registry", "serve", str(self.folder / "config.yml")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", "OTEL_TRACES_EXPORTER": "none"},
        )
        self._process = process
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if found := _LISTENING.search(line):
                self._address = found[1]
                break
        else:
            process.wait()
            raise AssertionError("docker-registry did not start: " + "".join(said))
        self._drain = threading.Thread(target=process.stderr.read, daemon=True)
        self._drain.start()

    def stop(self) -> None:
        """End it; its storage stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            if self._drain is not None:
                self._drain.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None

    def __enter__(self) -> RealRegistry:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
