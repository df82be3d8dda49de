"""Each way to install that docs/start/install.md shows, with each Python of this machine, in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mesos_gpu import __version__
from tests.packaging.building import committed
from tests.packaging.pythons import pythons
from tests.support import places
from tests.support.pages import blocks

PAGE = places.ROOT / "docs" / "start" / "install.md"
MARK = "not run: tests/packaging/test_install.py types it: "
COMMANDS = {
    block.mark.removeprefix(MARK): block.text for block in blocks(places.ROOT, PAGE) if block.mark.startswith(MARK)
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VERSIONS = sorted(pythons())
OTHERS = VERSIONS[-1:] if "CI" in os.environ else VERSIONS
"""A build server installs with pip on each of its Pythons, and in the other ways on the newest."""
EXTRA = "mesos-gpu[kubernetes]"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pipx and uv."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", "pipx", "uv"], check=True, capture_output=True)
    return folder / "bin"


class Machine:
    """A shell whose /opt, /usr/local/bin and Python are folders of a test."""

    def __init__(self, folder: Path, source: Path, tools: Path, python: str) -> None:
        self._folder, self._source = folder, source
        self.bin = folder / "usr-local-bin"
        for path in (self.bin, folder / "opt", folder / "shims"):
            path.mkdir()
        (folder / "shims" / "python3").symlink_to(python)
        # The caches of pip and uv are those of the user, whose packages are not downloaded for each test.
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_"))}
        self._env = {
            **kept,
            "HOME": os.environ["HOME"],
            "LANG": "C.UTF-8",
            "PATH": f"{self.bin}:{folder / 'shims'}:{tools}:{PATH}",
            "PIPX_DEFAULT_PYTHON": python,
            "UV_PYTHON": python,
            "MESOS_GPU_WORK_DIR": str(folder / "state"),
            "MESOS_GPU_RESIDENT": "0",
        }

    def types(self, command: str, status: int = 0, **env: str) -> str:
        """Run a command of the page in the source tree; return what it prints."""
        for shown, here in (
            ("/opt/", f"{self._folder}/opt/"),
            ("/usr/local/bin", str(self.bin)),
            ("/srv/mesos-gpu.git", str(self._source)),
        ):
            command = re.sub(rf"(?<![\w.-]){shown}", here, command)
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self._source, env=self._env | env, capture_output=True, text=True
        )
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    @property
    def python(self) -> Path:
        """The Python of the environment that mesos-gpu was installed into."""
        return (self.bin / "mesos-gpu").resolve().with_name("python")


@pytest.fixture(params=VERSIONS, ids=lambda version: f"python{version}")
def machine(request: pytest.FixtureRequest, tmp_path: Path, source: Path, tools: Path) -> Machine:
    return Machine(tmp_path, source, tools, pythons()[request.param])


REMOVED_BY = {"git": "-m pip uninstall", "pip": "-m pip uninstall", "pipx": "pipx uninstall", "uv": "uv tool uninstall"}
CHECK = 'import pymesos.process, importlib.metadata as m; print(m.version("http-parser"))'


def install(way: str, machine: Machine) -> None:
    """Type what the page shows, and see that programs and pymesos are there and how to remove them."""
    machine.types(COMMANDS[way])
    assert machine.types("mesos-gpu --version") == f"mesos-gpu, version {__version__}\n"
    assert machine.types(f"{machine.python} -c '{CHECK}'") == "0.9.0+mesosgpu.1\n"
    assert REMOVED_BY[way] in machine.types("mesos-gpu uninstall --dry-run").splitlines()[-1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", OTHERS, ids=lambda version: f"python{version}", indirect=True)
@pytest.mark.parametrize("way", ["git", "pipx", "uv"])
def test_each_way_installs_the_programs_and_pymesos(way: str, machine: Machine) -> None:
    install(way, machine)


@pytest.mark.root
@pytest.mark.timeout(600)
def test_pip_install_gives_a_cluster_that_runs_an_app_and_names_missing_extras(machine: Machine) -> None:
    install("pip", machine)
    machine.types("/opt/mesos-gpu/bin/pip check")
    machine.types("mesos-gpu up --detach --gpu_driver=simulated --master_port=0 --agent_port=0 --marathon_port=0")
    try:
        machine.types("mesos-gpu app add examples/simple-gpu-test.json --wait")
        assert "TASK_RUNNING" in machine.types("mesos-gpu task list")
    finally:
        machine.types("mesos-gpu down --purge --yes")
    programs, agent = "/opt/mesos-gpu/bin", "--master=127.0.0.1:9 --port=0 --gpu_driver=none --work_dir=/opt/work"
    for command in (
        f"{programs}/mesos-gpu-device-plugin --agent=http://127.0.0.1:9",
        f"{programs}/mesos-gpu-agent {agent} --device_plugins_dir=/opt/plugins",
        f"{programs}/mesos-gpu-agent {agent} --pod_resources_socket=/opt/pods.sock",
    ):
        assert EXTRA in machine.types(command, status=1)


ISOLATE = """
from pathlib import Path
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator, NvidiaVolume
here = Path(__file__).parent
driver = open_driver("simulated")
isolator = NvidiaGpuIsolator(
    driver.gpus(), driver, NvidiaVolume.create(here / "volumes", driver), Checkpoints(here / "gpus")
)
isolator.recover([])
isolator.prepare("a", 2)
print(len(isolator.free))
"""


@pytest.mark.timeout(600)
def test_the_isolator_needs_two_dependencies(tmp_path: Path, source: Path, tools: Path) -> None:
    machine = Machine(tmp_path, source, tools, sys.executable)
    machine.types(COMMANDS["isolator"])
    (tmp_path / "opt" / "isolate.py").write_text(ISOLATE)
    assert machine.types("/opt/isolator/bin/python -W error /opt/isolate.py") == "2\n"


# --- what the metadata requires -----------------------------------------------------------------------------------

BUNDLED = {"http-parser": "compat/http-parser", "mesos-gpu-codec": "native"}
REQUIRES = """
import json, runpy, setuptools
setuptools.setup = lambda **to: print(json.dumps(to["install_requires"] + to["extras_require"]["codec"]))
runpy.run_path("setup.py")
"""


def tree_of(folder: Path) -> Path:
    """Make a repository that has no file but setup.py and those folders."""
    for name in BUNDLED.values():
        (folder / name).mkdir(parents=True)
    shutil.copy(places.ROOT / "setup.py", folder)
    return committed(folder)


def required(tree: Path) -> Mapping[str, str]:
    """Return where mesos-gpu, built from a source tree, requires its bundled distributions from."""
    said = subprocess.run([sys.executable, "-c", REQUIRES], cwd=tree, capture_output=True, text=True, check=True)
    requirements = [Requirement(line) for line in json.loads(said.stdout)]
    return {one.name: one.url or str(one.specifier) for one in requirements if one.name in BUNDLED}


def test_a_source_tree_requires_its_own_folders(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "clone")
    assert required(tree) == {name: (tree / folder).as_uri() for name, folder in BUNDLED.items()}


def test_an_sdist_requires_the_versions_of_its_folders(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "mesos_gpu-1")
    (tree / "PKG-INFO").touch()
    versions = {
        name: re.findall(r'^version = "(.*)"', (places.ROOT / folder / "pyproject.toml").read_text(), re.M)
        for name, folder in BUNDLED.items()
    }
    assert required(tree) == {name: f"=={version}" for name, (version,) in versions.items()}


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ("https://host/x.git", "git+https://host/x.git@{commit}#subdirectory={folder}"),
        ("ssh://git@host/x.git", "git+ssh://git@host/x.git@{commit}#subdirectory={folder}"),
        ("file://{source}", "file://{source}/{folder}"),
        ("file:///none/x.git", "file://{here}/{folder}"),
        ("https://token@host/x.git", "file://{here}/{folder}"),
        ("https://user:secret@host/x.git", "file://{here}/{folder}"),
    ],
)
def test_a_checkout_of_pip_requires_what_outlives_it(tmp_path: Path, origin: str, url: str) -> None:
    """pip deletes its checkout, and takes the wheel from its cache the next time."""
    source, here = tree_of(tmp_path / "source"), tree_of(tmp_path / "pip-req-build-1")
    subprocess.run(["git", "-C", here, "remote", "add", "origin", origin.format(source=source)], check=True)
    head = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert required(here) == {
        name: url.format(commit=head.stdout.strip(), folder=folder, source=source, here=here)
        for name, folder in BUNDLED.items()
    }
