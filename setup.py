"""Packaging only; every setting that is not about packaging is in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent

# pymesos 0.3.15 needs http-parser, whose last release does not compile on Python >= 3.11. compat/http-parser
# is a distribution of that name over httptools. It is named by a file URL so that plain `pip install .` finds it.
HTTP_PARSER = HERE / "compat" / "http-parser"

REQUIRES = [
    "pymesos==0.3.15",
    f"http-parser @ {HTTP_PARSER.as_uri()}",
    "PyYAML>=6.0",
    "aiohttp>=3.14",  # connections in a network namespace of a task (socket_factory), typed keys of requests
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
    "zstandard>=0.22",
]
DEV = [
    "coverage>=7.10",
    "hypothesis>=6.108",
    "import-linter>=2.16",
    "marathon==0.13.0",
    "mypy>=1.10",
    "pytest>=8.0",
    "pytest-asyncio>=0.24",
    "pytest-timeout>=2.2",
    "pytest-xdist>=3.5",
    "ruff>=0.6",
    "schemathesis>=4.0",
    "types-PyYAML",
    "types-croniter",
    "types-jsonschema",
    "types-protobuf",
    "types-requests",
]

PACKAGES = find_packages(include=["mesos_gpu", "mesos_gpu.*", "marathon_cli", "marathon_cli.*"])

setup(
    install_requires=REQUIRES,
    extras_require={"dev": DEV},
    # schemas/ lies at the top for people and editors, and is installed inside our package.
    packages=[*PACKAGES, "mesos_gpu.schemas"],
    package_dir={"mesos_gpu.schemas": "schemas"},
    package_data={
        "mesos_gpu": ["py.typed"],
        "mesos_gpu.mesos": ["messages.json"],
        "mesos_gpu.gpu": ["nvidia-smi", "simulated_nvml.c"],
        "mesos_gpu.schemas": ["*.json"],
        "mesos_gpu.ui": ["static/**/*"],
        "marathon_cli": ["py.typed"],
    },
)
