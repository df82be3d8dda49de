"""Packaging only; every setting that is not about packaging is in pyproject.toml."""

import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from setuptools import find_namespace_packages, find_packages, setup

REQUIRES = [
    "pymesos==0.3.15",
    "PyYAML>=6.0",
    "aiohttp>=3.14",  # connections in a network namespace of a task (socket_factory), typed keys of requests
    'backports.zstd>=1.0; python_version < "3.14"',  # the standard library's compression.zstd
    "click>=8.4",
    "croniter>=2.0",
    "jsonschema>=4.18",
    "kazoo>=2.9",
    "msgspec>=0.21",
    "numpy>=1.26",
    "nvidia-ml-py>=12.535.77",
    "prometheus-client>=0.19",
    "protobuf>=6.31",
    "requests>=2.31",
    "rich>=14.2",
    "typing-extensions>=4.12.2",
    "tzdata>=2024.1",
]
DEV = [
    "bandit>=1.8",
    "build>=1.2",
    "cyclonedx-bom>=5.0",
    "coverage>=7.10",
    "hypothesis>=6.108",
    'import-linter>=2.16; python_version >= "3.11"',  # no such release for 3.10: `./run check` does without there
    "marathon==0.13.0",
    "mkdocs-material>=9.6",  # the site of `./run docs`
    "mypy>=1.10",
    "playwright>=1.50",
    "pytest>=8.0",
    "pytest-asyncio>=0.24",
    "pytest-timeout>=2.2",
    "pytest-xdist>=3.5",
    "ruff>=0.6",
    "schemathesis>=4.0",
    "types-PyYAML",
    "types-croniter",
    "types-grpcio",
    "types-jsonschema",
    "types-protobuf",
    "types-requests",
]

ROOT = Path(__file__).resolve().parent


def bundled(name: str, version: str, folder: str) -> str:
    """Return the requirement of a distribution that this repository contains and no public index has.

    In a source tree it is the folder's URL, so that pip, pipx and uv need nothing else. An sdist, and each wheel built
    from one, requires the version instead, since a path is valid on one machine only: `pip install --find-links dist`.
    """
    return f"{name}=={version}" if (ROOT / "PKG-INFO").exists() else f"{name} @ {location(folder)}"


def location(folder: str) -> str:
    """Return the URL of a folder of this source tree.

    pip deletes what it has checked out but may keep the wheel in its cache, so the URL is then that of the repository.
    Exceptions: a bare repository on this machine, since pip before 24.1 rejects `git+file:///` in metadata, and a URL
    with a password or a token, which would be readable in the installed metadata.
    """
    here = (ROOT / folder).as_uri()
    if not (ROOT / ".git").exists() or not any(part.startswith("pip-") for part in ROOT.parts):
        return here
    origin, commit = git("config", "--get", "remote.origin.url"), git("rev-parse", "HEAD")
    parts = urlsplit(origin)
    if parts.scheme == "file":
        there = Path(unquote(parts.path)) / folder
        return there.as_uri() if there.is_dir() else here
    secret = parts.password or (parts.scheme in ("http", "https") and parts.username)
    return f"git+{origin}@{commit}#subdirectory={folder}" if parts.hostname and not secret else here


def git(*words: str) -> str:
    """Return what git prints about this source tree."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


# pymesos requires http-parser, whose last release does not compile on Python 3.11 and newer. This is a distribution of
# that name over httptools.
HTTP_PARSER = bundled("http-parser", "0.9.0+mesosgpu.1", "compat/http-parser")

# The compiled codec of messages.
CODEC = [bundled("mesos-gpu-codec", "2.0.0+mesosgpu.1", "native")]

# Where a prefix keeps them; man pages and completions are there once tools/make_extras.py has made them.
SHARED = {
    "share/man/man1": ["packaging/man/*.1"],
    "share/man/man8": ["packaging/man/*.8"],
    "share/bash-completion/completions": ["packaging/completions/mesos-gpu.bash"],
    "share/zsh/site-functions": ["packaging/completions/_mesos-gpu"],
    "share/fish/vendor_completions.d": ["packaging/completions/mesos-gpu.fish"],
    "share/mesos-gpu/systemd": ["packaging/systemd/*.service"],
    "share/mesos-gpu/etc": ["packaging/etc/*.conf"],
    "share/mesos-gpu/examples": ["examples/*.json", "examples/*.py"],
}

PACKAGES = find_packages(include=["mesos_gpu", "mesos_gpu.*", "marathon_cli", "marathon_cli.*"])
# Folders of files: setuptools takes them for packages without an __init__.py, and warns of any left out.
FOLDERS = find_namespace_packages(include=["mesos_gpu.gpu.smi", "mesos_gpu.ui.static", "mesos_gpu.ui.static.*"])

# The kubelet's interfaces, as host of device plugins and as one.
KUBERNETES = ["grpcio>=1.60"]

# The tree of cGPU's /proc/cgpu_km, over libfuse of the system.
FUSE = ["mfusepy>=3.0"]

# Plots of mesos-gpu replay.
PLOTS = ["matplotlib>=3.7"]

setup(
    install_requires=[*REQUIRES, HTTP_PARSER],
    extras_require={
        "dev": [*DEV, *KUBERNETES, *FUSE, *PLOTS],
        "kubernetes": KUBERNETES,
        "fuse": FUSE,
        "codec": CODEC,
        "plots": PLOTS,
    },
    packages=[*PACKAGES, *FOLDERS],
    # Said explicitly, setuptools installs an editable tree by a path in a .pth file. Its default for this layout is an
    # import hook, which costs every start of Python 15 ms and more.
    package_dir={"": "."},
    data_files=[
        (folder, sorted(str(path) for pattern in patterns for path in Path().glob(pattern)))
        for folder, patterns in SHARED.items()
    ],
    package_data={
        "mesos_gpu": ["py.typed"],
        "mesos_gpu.mesos": ["messages.json"],
        "mesos_gpu.simulated": ["*.c"],
        "mesos_gpu.schemas": ["*.json"],
        **{name: ["*"] for name in FOLDERS},
        "marathon_cli": ["py.typed"],
    },
)
