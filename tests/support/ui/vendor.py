"""Brings the page's foreign modules up to date: .venv/bin/python -m tests.support.ui.vendor

`npm pack` fetches the tarballs that PACKAGES names. Of each we keep the modules that the page loads, and its licence.
Modules name each other by bare names, which a browser resolves by an import map alone, and an import map would have to
be an inline script; so these names become paths. The page's policy refuses inline styles as well: where a module writes
some, it is made to hand them to `parts/adopted.js`. What is kept, with its hashes, stands in vendor.json.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[3] / "mesos_gpu" / "ui" / "static" / "vendor"
RECORD = VENDOR / "vendor.json"


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the npm registry: `modules` are ours by theirs."""

    name: str
    version: str
    licence: str
    modules: dict[str, str]
    rewrites: dict[str, str] = field(default_factory=dict)
    """What is written otherwise in every module, all of it there."""
    begins: str = ""
    """What a module that is written otherwise begins with."""


PACKAGES = (
    Package(
        "preact", "10.29.8", "MIT", {"preact.js": "dist/preact.module.js", "hooks.js": "hooks/dist/hooks.module.js"}
    ),
    Package("htm", "3.1.1", "Apache-2.0", {"htm.js": "dist/htm.module.js"}),
    Package("@preact/signals-core", "1.14.5", "MIT", {"signals-core.js": "dist/signals-core.module.js"}),
    Package("@preact/signals", "2.11.4", "MIT", {"signals.js": "dist/signals.module.js"}),
    Package(
        "@xterm/xterm",
        "6.0.0",
        "MIT",
        {"xterm.js": "lib/xterm.mjs", "xterm.css": "css/xterm.css"},
        {
            'n.mainDocument.createElement("style")': "adopted()",
            'this._document.createElement("style")': "adopted()",
            't.setAttribute("style",`${t.getAttribute("style")||""}${e};`)': '(t.style.cssText+=e+";")',
        },
        'import{adopted}from"../parts/adopted.js";\n',
    ),
    Package("@xterm/addon-fit", "0.11.0", "MIT", {"addon-fit.js": "lib/addon-fit.mjs"}),
)
PATHS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(r'(\bfrom ?|\bimport ?)"([^"./][^"]*)"')
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=.*\n?")


def browsable(text: str) -> str:
    """Return a module's text with paths in the place of bare names. Raises KeyError for a name that is not ours."""
    return _SOURCE_MAP.sub("\n", _IMPORT.sub(lambda found: f'{found[1]}"{PATHS[found[2]]}"', text))


def rewritten(text: str, package: Package) -> str:
    """Return a module's text with what its package is to write otherwise. Raises LookupError when it is not there."""
    for theirs, ours in package.rewrites.items():
        if theirs not in text:
            raise LookupError(f"{package.name}@{package.version} no longer has {theirs}")
        text = text.replace(theirs, ours)
    if 'setAttribute("style"' in text or 'createElement("style")' in text:
        raise LookupError(f"{package.name}@{package.version} writes styles that the page's policy refuses")
    return package.begins + text


def digest(data: bytes) -> str:
    """Return how vendor.json, and npm, write a hash: sha512 in base64."""
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


def main() -> int:
    """Fetch everything again, and write what is kept."""
    record = []
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            asked = f"{package.name}@{package.version}"
            packed = ["npm", "pack", "--silent", "--pack-destination", folder, asked]
            name = subprocess.run(packed, check=True, capture_output=True, text=True).stdout.split()[-1]
            tarball = Path(folder, name)
            files = {}
            with tarfile.open(tarball) as archive:

                def read(member: str, archive: tarfile.TarFile = archive) -> bytes:
                    found = archive.extractfile(f"package/{member}")
                    if found is None:
                        raise FileNotFoundError(member)
                    return found.read()

                licence = f"LICENSE.{package.name.removeprefix('@').replace('/', '-')}"
                kept = {licence: read("LICENSE")}
                for ours, theirs in package.modules.items():
                    text = read(theirs).decode()
                    kept[ours] = (rewritten(browsable(text), package) if ours.endswith(".js") else text).encode()
            for ours, data in kept.items():
                (VENDOR / ours).write_bytes(data)
                files[ours] = digest(data)
            record.append(
                {
                    "name": package.name,
                    "version": package.version,
                    "licence": package.licence,
                    "tarball": digest(tarball.read_bytes()),
                    "files": files,
                }
            )
            print(f"{asked}: {', '.join(files)}")
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
