"""Every block of code in the documentation: commands are run on a box, documents are held against what reads them.

What cannot be run here says why in a comment before it (tests/support/pages.py); its commands and flags exist
all the same.
"""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from marathon_cli.main import BUG
from marathon_cli.registry import ROWS
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import flags_of
from mesos_gpu.mesos.security.authorization import read_acls
from mesos_gpu.mesos.security.cram_md5 import read_credentials
from mesos_gpu.testing import BoxFactory, MesosBox
from tests.support.images.build import cuda_image, save_archive
from tests.support.pages import Block, blocks, calls
from tests.support.places import ROOT

pytestmark = pytest.mark.slow

PAGES = [
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
ELSEWHERE = {
    "docs/start/first-five-minutes.md": "tests/box/test_recording.py",
    "docs/start/first-five-minutes.zh-CN.md": "tests/box/test_recording.py",
}
"""Pages whose blocks another test runs."""
BLOCKS = [block for page in PAGES for block in blocks(ROOT, page) if block.page not in ELSEWHERE]
SHELL = ("sh", "console")
SERVICES = (AGENT, MASTER, MARATHON)
COMMANDS = {row.path for row in ROWS}
PATIENCE_S = 100.0
TRAIN = {
    "id": "train",
    "gpus": 1,
    "cmd": "mkdir -p checkpoints logs; touch checkpoints/1.pt; echo hello >logs/train.log; echo ready; sleep 1000",
}
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      imagePullSecrets: [{name: login}]
      containers: [{name: web, image: nginx, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
FILES: Mapping[str, Mapping[str, str]] = {
    "docs/do/access.md": {"ops.secret": "a secret\n"},
    "docs/do/convert.md": {
        "deployment.yaml": DEPLOYMENT,
        "compose.yaml": "services: {web: {image: nginx, command: [serve]}}",
    },
    "docs/do/real-cluster.md": {"config.yaml": "master_list: [10.0.0.1, 10.0.0.2, 10.0.0.3]\ncluster_name: ours\n"},
    "docs/do/tasks.md": {"data/1.txt": "some", ".config/fish/completions/keep": ""},
}
"""What a reader has before a page begins, by page."""
APPS: Mapping[str, Mapping[str, Any]] = {
    "docs/do/tasks.md": TRAIN,
    "docs/do/usage.md": TRAIN,
    "docs/do/gpu-answers.md": {**TRAIN, "gpus": 5, "constraints": [["hostname", "UNLIKE", ".*"]]},
}
"""An app that runs, or waits, before a page begins."""


def name_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


# --- what is run --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of archives, as `docker save` writes them, of the images that the pages name."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "nvidia").mkdir()
    for name in ("nvidia/cuda:latest", "nvidia/cuda:12.4.1-base-ubuntu22.04", "cuda:8.0"):
        save_archive(folder / f"{name}.tar", cuda_image())
    return folder


class Reader:
    """Somebody who types what a page says, in a folder and a home of their own, at a box on this machine."""

    def __init__(self, box: MesosBox, folder: Path) -> None:
        self._box, self._folder = box, folder
        programs = folder / ".programs"
        programs.mkdir(parents=True)
        for name, does in (("mesos-gpu", f"exec {sys.executable} -m marathon_cli"), ("sudo", "exec")):
            (programs / name).write_text(f'#!/bin/sh\n{does} "$@"\n')
            (programs / name).chmod(0o755)
        agent = box.agents[0]
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MESOS_", "MARATHON_"))},
            **{"HOME": str(folder), "MARATHON_URL": str(box.marathon_url), "PYTHONPATH": str(ROOT)},
            **{"PATH": f"{programs}:{os.environ['PATH']}", "AGENT": agent.state()["id"]},
        }
        self._addresses = {
            **{f"{host}:5050": box.master for host in ("127.0.0.1", "localhost")},
            **{f"{host}:5051": agent.url.removeprefix("http://") for host in ("127.0.0.1", "localhost")},
            "/etc/systemd/system/": "",
            "/var/lib/me/": f"{folder}/",
        }

    def has(self, page: str) -> None:
        """Make what is there before a page begins."""
        for name, text in FILES.get(page, {}).items():
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(text)
        if page in APPS:
            app = {"cpus": 0.1, "mem": 32, **APPS[page]}
            done = self._shell(f"mesos-gpu app add --no-validate - <<'END'\n{json.dumps(app)}\nEND\n")
            assert done.returncode == 0, done.stderr
            if "constraints" not in app:
                done = self._shell("until mesos-gpu task log train | grep ready; do sleep 0.1; done")
                assert done.returncode == 0, done.stderr

    def types(self, text: str) -> subprocess.CompletedProcess[str]:
        for ours, theirs in self._addresses.items():
            text = text.replace(ours, theirs)
        return self._shell(text)

    def runs(self, program: str) -> subprocess.CompletedProcess[str]:
        for ours, theirs in self._addresses.items():
            program = program.replace(ours, theirs)
        command = [sys.executable, "-W", "error", "-c", program]
        return subprocess.run(
            command, cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def _shell(self, text: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-e", "-o", "pipefail", "-c", text]
        return subprocess.run(
            command,
            cwd=self._folder,
            env=self._env,
            input="a secret\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


TO_RUN = [block for block in BLOCKS if block.is_run and block.language in (*SHELL, "python")]


@pytest.fixture(scope="module")
def the_box(mesos_box_factory: BoxFactory, images: Path) -> MesosBox:
    return mesos_box_factory(gpus=8, docker_registry=images, marathon=True)


@pytest.mark.root
@pytest.mark.parametrize("page", sorted({block.page for block in TO_RUN}))
def test_what_a_page_says_can_be_typed(page: str, the_box: MesosBox, tmp_path: Path) -> None:
    reader = Reader(the_box, tmp_path)
    reader.has(page)
    try:
        for block in (one for one in TO_RUN if one.page == page):
            done = reader.runs(block.text) if block.language == "python" else reader.types(block.commands())
            if block.mark != "any status":
                assert done.returncode == 0, f"{name_of(block)}\n{block.text}\n{done.stdout}\n{done.stderr}"
            assert done.returncode != BUG, f"{name_of(block)}\n{done.stderr}"
    finally:
        reader.types("mesos-gpu app list -q | while read -r app; do mesos-gpu app remove $app --force; done")


# --- what is not run ----------------------------------------------------------------------------------------------

LOOKED_AT = [block for block in BLOCKS if not block.is_run]


@pytest.mark.parametrize("block", LOOKED_AT, ids=name_of)
def test_what_is_not_run_says_why_and_names_commands_and_flags_that_exist(block: Block) -> None:
    assert len(block.mark.split()) > 3, "say in words why it is not run"
    for line in SERVICES:
        known = {flag.name for flag in flags_of(line.flags)}
        for words in calls(line.program, block.commands()):
            given = {word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")}
            assert {name.removeprefix("no-") for name in given} - known == set(), f"{name_of(block)}: {line.program}"
    for words in calls("mesos-gpu", block.commands()):
        depth = max((n for n in range(len(words) + 1) if " ".join(words[:n]) in COMMANDS), default=0)
        assert depth or words[0].startswith("-"), f"{name_of(block)}: no command {words}"
        command = [sys.executable, "-m", "marathon_cli", *words[:depth], "--help", *words[depth:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stderr) == (0, ""), f"{name_of(block)}: {words}"


# --- documents ----------------------------------------------------------------------------------------------------


def schema_of(document: Mapping[str, Any]) -> str:
    """Return which schema a definition is of."""
    if "run" in document:
        return "job"
    return "pod" if "containers" in document else "app"


DOCUMENTS = [block for block in BLOCKS if block.language in ("json", "yaml", "ini") and block.is_run]


@pytest.mark.parametrize("block", DOCUMENTS, ids=name_of)
def test_documents_in_pages_are_what_their_readers_take(block: Block) -> None:
    if block.language == "ini":
        text = block.text if block.text.startswith("[") else f"[first]\n{block.text}"
        parser = configparser.ConfigParser(strict=True, interpolation=None)
        parser.read_string(text)
        assert parser.sections()
    elif block.language == "yaml":
        assert [*yaml.safe_load_all(block.text)]
        command = [sys.executable, "-m", "marathon_cli", "convert", "-"]
        done = subprocess.run(command, cwd=ROOT, input=block.text, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
    else:
        check_json(block.text)


def check_json(text: str) -> None:
    """Hold a document, or some keys of an app, against what reads it."""
    part = not text.startswith("{")
    document = json.loads(f"{{{text}}}" if part else text)
    if "credentials" in document:
        assert read_credentials("credentials", text)
    elif "permissive" in document:
        assert read_acls("acls", text)
    else:
        schema = json.loads((ROOT / "schemas" / f"{schema_of(document)}.json").read_text())
        if part:
            schema["required"] = []
        assert document.keys() <= schema["properties"].keys()
        assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []


def test_every_language_of_a_block_has_somebody_who_looks_at_it() -> None:
    assert {block.language for block in BLOCKS} <= {*SHELL, "python", "json", "yaml", "ini", "text"}
    assert {block.mark for block in BLOCKS if block.is_run} <= {"", "any status"}
    assert all((ROOT / page).exists() and (ROOT / test).exists() for page, test in ELSEWHERE.items())
