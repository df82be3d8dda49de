"""What people look at GPUs with sees simulated ones, too: gpustat and nvitop, from PyPI, over our libnvidia-ml.so.1.

So does a program that uses them by NVIDIA's own binding of CUDA's driver API, over our libcuda.so.1; and what reads the
many forms in which nvidia-smi prints.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.simulated.libraries import NVML, simulated_library
from tests.clients.environments import Environment
from tests.support.box.live import LiveBox, live_box

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

# nvitop as a library: what its screen and other people's scripts ask.
NVITOP = """
import json
from nvitop import Device
shown = []
for device in Device.all():
    seen = device.as_snapshot()
    processes = sorted([pid, one.type, one.gpu_memory() >> 20] for pid, one in device.processes().items())
    shown.append([device.index, device.uuid(), device.name(), seen.memory_total >> 20, seen.gpu_utilization, processes])
print(json.dumps(shown))
"""

OTHERS = (
    "GPUtil==1.4.0",
    "nvsmi==0.4.2",
    "py3nvml==0.2.7",
    "httpx",
    "pydantic",
    "rich",
    "python-dateutil",
    "setuptools<80",
    "psutil",
    "tabulate",
    "termcolor",
    "pytest",
    "numpy",
)
# What reads nvidia-smi or NVML and nothing else, with what it needs above.
SMALL = (
    "zeus==0.16.0",
    "gpu-who==0.2.5",
    "gpurun-numa==0.1.0",
    "nvidia-docker-smi==0.1.0",
    "nvidia-htop==1.2.0",
    "pynvidiasmi==1.0.1",
    "tokenwatt-check==0.4.2",
    "xputop==0.1.8",
)
OWN_TESTS = "pynvml==13.0.1"  # in a folder of its own: it warns of itself wherever it is installed
NODE = "node-nvidia-smi@1.0.0"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("tools") / "venv")
    environment.begin("gpustat==1.1.1", "nvitop==1.7.2", "cuda-bindings==13.5.0", "cuda-core==1.2.2", *OTHERS)
    # Of zeus what reads GPUs; it wants much else for what it does with them, and so do some others.
    environment.begin("--no-deps", *SMALL)
    environment.begin("--no-deps", "--target", str(environment.folder / "own_tests"), OWN_TESTS)
    npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            [*npm, "--prefix", str(environment.folder), NODE], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        environment.finish()
        # A task may run as anybody, who can read no folder of pytest's.
        yield environment
    finally:
        environment.close()


def run(tools: Environment, *words: str, **variables: str) -> str:
    done = subprocess.run(
        [tools.python, *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "COLUMNS": "120", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_they_see_the_gpus_of_a_machine_and_who_uses_them(tools: Environment, tmp_path: Path) -> None:
    library = simulated_library()
    assert library is not None
    (tmp_path / NVML).write_bytes(library)
    me = os.getpid()
    answers = {
        **{"count": 2, "driver": "550.54.15", "gpu.0.name": "NVIDIA A100", "gpu.0.total": 40960, "gpu.0.used": 700},
        **{"gpu.0.util": 37, "gpu.0.celsius": 41, "gpu.0.milliwatts": 120000, "gpu.0.limit": 400000, "gpu.1.util": 0},
        "gpu.0.process.0": f"{me}:512:C:30",
    }
    (tmp_path / "answers").write_text("".join(f"{key}={value}\n" for key, value in answers.items()))
    machine = {"LD_LIBRARY_PATH": str(tmp_path), "SIMULATED_NVML": str(tmp_path / "answers")}
    seen = json.loads(run(tools, "-m", "gpustat", "--json", **machine))
    first, second = seen["gpus"]
    assert (seen["driver_version"], first["name"], first["index"], second["index"]) == (
        "550.54.15",
        "NVIDIA A100",
        0,
        1,
    )
    assert (first["utilization.gpu"], first["temperature.gpu"], first["power.draw"]) == (37, 41, 120)
    assert (first["memory.used"], first["memory.total"], first["enforced.power.limit"]) == (700, 40960, 400)
    assert [(one["pid"], one["gpu_memory_usage"]) for one in first["processes"]] == [(me, 512)]
    assert (second["processes"], second["temperature.gpu"]) == ([], None)
    assert first["uuid"] != second["uuid"]
    shown = json.loads(run(tools, "-c", NVITOP, **machine))
    assert shown[0] == [0, first["uuid"], "NVIDIA A100", 40960, 37, [[me, "C", 512]]]
    assert shown[1][0] == 1
    table = run(tools, "-m", "nvitop", "-1", **machine)
    assert "Driver Version: 550.54.15" in table
    assert re.search(r"700(\.0)?MiB / 40\.00GiB +│ +37%", table), table


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    with live_box(tmp_path_factory.mktemp("tools") / "box", "--gpu_driver=simulated", "--simulated_gpus=4") as made:
        yield made


def run_json(box: LiveBox, tools: Environment, gpus: int, *words: str) -> Any:
    done = box.cli("run", "--gpus", str(gpus), "--", tools.python, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_in_a_simulated_container_they_see_its_gpus_and_no_others(tools: Environment, box: LiveBox) -> None:
    def seen(gpus: int, *words: str) -> Any:
        return run_json(box, tools, gpus, *words)

    known = {one["uuid"] for one in json.loads(box.ok("gpu", "list", "-o", "json"))}
    assert len(known) == 4
    two = seen(2, "-m", "gpustat", "--json")
    assert two["driver_version"] == "999.0-simulated"
    assert [one["index"] for one in two["gpus"]] == [0, 1]
    assert {one["uuid"] for one in two["gpus"]} < known
    assert {(one["utilization.gpu"], one["power.draw"], one["temperature.gpu"]) for one in two["gpus"]} == {(0, 25, 30)}
    assert all(one["processes"] == [] for one in two["gpus"])
    four = seen(4, "-c", NVITOP)
    assert [row[0] for row in four] == [0, 1, 2, 3]
    assert {row[1] for row in four} == known
    assert {tuple(row[2:5]) for row in four} == {("Simulated GPU", 16384, 0)}
    assert seen(0, "-c", NVITOP) == []


# A program of a user, and beside it in the same container what looks at the card; both end.
CUDA = """
import json, os, subprocess, sys
from cuda.bindings import driver as cuda

def call(name, *arguments):
    code, *answer = getattr(cuda, name)(*arguments)
    assert code == cuda.CUresult.CUDA_SUCCESS, (name, code)
    return answer[0] if answer else None

def seen():
    return json.loads(subprocess.check_output([sys.executable, "-m", "gpustat", "--json"]))["gpus"]

call("cuInit", 0)
context = call("cuCtxCreate", None, 0, call("cuDeviceGet", 0))
memory = call("cuMemAlloc", 3 << 30)
back = bytearray(9)
call("cuMemcpyHtoD", memory, b"simulated", 9)
call("cuMemcpyDtoH", back, memory, 9)
assert back == b"simulated"
code, _ = cuda.cuMemAlloc(14 << 30)
assert code == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, code
ptx = b"// takes spin 500000\\n.visible .entry spin(\\n)\\n\\0"
function = call("cuModuleGetFunction", call("cuModuleLoadData", ptx), b"spin")
for _ in range(4):
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
(during,) = seen()
call("cuCtxSynchronize")
percent = 0
while percent < 100:  # sooner or later the second before was full of kernels; what is left ends with the program
    for _ in range(20):
        call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
    percent = seen()[0]["utilization.gpu"]
print(json.dumps([call("cuDeviceGetCount"), during, os.getpid()]))
"""


def test_a_cuda_program_has_the_gpu_of_its_container_and_is_seen_on_it(tools: Environment, box: LiveBox) -> None:
    count, gpu, pid = run_json(box, tools, 1, "-W", "ignore", "-c", CUDA)
    assert (count, gpu["memory.used"], gpu["memory.total"]) == (1, 3072, 16384)
    assert [(one["pid"], one["gpu_memory_usage"]) for one in gpu["processes"]] == [(pid, 3072)]
    # It has ended, and left nothing on the card.
    idle = run_json(box, tools, 4, "-m", "gpustat", "--json")
    assert {(one["memory.used"], len(one["processes"])) for one in idle["gpus"]} == {(0, 0)}


# NVIDIA's Python over CUDA's driver API and NVML: a kernel between two events, memory, what `system` says of the card.
CORE = """
import json, subprocess
from cuda.core import Device, EventOptions, LaunchConfig, ObjectCode, launch, system
device = Device(0)
device.set_current()
stream = device.create_stream()
memory = device.allocate(3 << 30, stream=stream)
kernel = ObjectCode.from_ptx(b"// takes spin 5000\\n.visible .entry spin(\\n)\\n\\0").get_kernel("spin")
begin = stream.record(options=EventOptions(timing_enabled=True))
launch(stream, LaunchConfig(grid=1, block=32), kernel)
end = stream.record(options=EventOptions(timing_enabled=True))
end.sync()
((told,), used) = system.Device.get_all_devices(), ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"]
print(json.dumps({
    "name": device.name, "chip": list(device.compute_capability), "uuid": device.uuid, "ms": end - begin,
    "system": [told.name, told.uuid, told.memory_info.used >> 20], "used": subprocess.check_output(used, text=True),
}))
"""


def test_cuda_core_runs_a_kernel_and_sees_the_card_that_nvml_sees(tools: Environment, box: LiveBox) -> None:
    seen = run_json(box, tools, 1, "-W", "ignore", "-c", CORE)
    assert (seen["name"], seen["chip"], seen["used"]) == ("Simulated GPU", [8, 0], "3072 MiB\n")
    assert seen["system"] == ["Simulated GPU", f"GPU-{seen['uuid']}", 3072]
    assert seen["ms"] >= 5


# What else people's programs read GPUs with: by nvidia-smi's queries (GPUtil, nvsmi), by NVML (py3nvml, zeus).
READERS = """
import contextlib, io, json, os, subprocess, sys
sys.path.insert(0, os.path.dirname(sys.executable))
import GPUtil, nvsmi
from py3nvml import nvidia_smi
from zeus.device import get_gpus
(gpu,) = GPUtil.getGPUs()
(other,) = nvsmi.get_gpus()
process = [[one.pid, one.gpu_id, one.used_memory] for one in nvsmi.get_gpu_processes()]
zeus = get_gpus().gpus[0]
py3smi = subprocess.check_output([sys.executable, os.path.join(os.path.dirname(sys.executable), "py3smi")], text=True)
with contextlib.redirect_stdout(io.StringIO()):
    query = nvidia_smi.XmlDeviceQuery()
print(json.dumps({
    "GPUtil": [gpu.uuid, gpu.memoryTotal, gpu.memoryUsed, gpu.driver, gpu.name, gpu.display_mode],
    "nvsmi": [other.uuid, other.mem_total, other.mem_used, other.driver, other.name, other.display_mode],
    "processes": process, "available": GPUtil.getAvailable(maxLoad=1.1, maxMemory=1.1), "pid": os.getpid(),
    "py3smi": py3smi, "query": query,
    "zeus": {
        "name": zeus.get_name(), "limits": zeus.get_power_management_limit_constraints(),
        "watts": zeus.get_instant_power_usage() // 1000, "celsius": zeus.get_gpu_temperature(),
        "energy": zeus.get_total_energy_consumption(), "clocks": zeus.get_supported_memory_clocks(),
        "graphics": zeus.get_supported_graphics_clocks(715),
    },
}))
"""


def test_other_readers_of_gpus_are_answered(tools: Environment, box: LiveBox) -> None:
    use = CUDA.partition("memory = ")[0] + 'memory = call("cuMemAlloc", 3 << 30)\n'
    seen = run_json(box, tools, 1, "-W", "ignore", "-c", use + READERS)
    assert seen["GPUtil"] == seen["nvsmi"]
    assert seen["GPUtil"][1:] == [16384, 3072, "999.0-simulated", "Simulated GPU", "Disabled"]
    assert seen["processes"] == [[seen["pid"], "0", 3072]]
    assert seen["available"] == [0]
    assert re.search(r"3072MiB / +16384MiB", seen["py3smi"]), seen["py3smi"]
    assert "FUNCTION" not in seen["query"].upper().replace("_", ""), seen["query"]
    assert f"<uuid>{seen['GPUtil'][0]}</uuid>" in seen["query"]
    zeus = seen["zeus"]
    assert (zeus["name"], zeus["limits"], zeus["clocks"]) == ("Simulated GPU", [150000, 300000], [715])
    assert (zeus["watts"] >= 25, zeus["celsius"] >= 30, zeus["graphics"]) == (True, True, [1480, 405])


# What reads nvidia-smi's table, its report as XML, its monitor of processes, its matrix and its fields.
FORMS = """
import json, os, subprocess, sys
environment, here = os.path.dirname(os.path.dirname(sys.executable)), os.getcwd()
os.environ.update(PATH=f"{environment}/bin:{os.environ['PATH']}", HOME=here, COLUMNS="140", LC_ALL="C.UTF-8")

def said(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout

said("tokenwatt-check", "--no-load", "--no-disk", "--no-net", "--json", "checked.json")
os.environ["PYTHONPATH"] = f"{environment}/own_tests"
own = ["-k", "not nvlink_capability and not GetAttributes and not index0", "-q", "-p", "no:cacheprovider"]
tested = said(sys.executable, "-W", "ignore", "-m", "pytest", *own, "--pyargs", "pynvml_utils.tests.test_nvml")
os.environ["PYTHONPATH"] = ""
print(json.dumps({
    "pid": os.getpid(), "pynvml": tested, "htop": said("nvidia-htop.py"), "docker": said("nvidia-docker-smi"),
    "fields": json.loads(said(sys.executable, "-m", "pynvidiasmi", "--fields", "name", "clocks.sm", "power.draw")),
    "numa": said("gpurun", "--mode", "taskset", "-g", "0", "printenv", "CUDA_VISIBLE_DEVICES"),
    "who": json.loads(said("gpu-who", "--json")), "xputop": said("xputop", "-b", "nvidia", "once"),
    "node": json.loads(said("node", f"{environment}/node_modules/node-nvidia-smi/node-nvidia-smi.js")),
    "checked": open("checked.json").read(),
}))
"""


def test_what_reads_nvidia_smi_finds_the_card_and_its_process(tools: Environment, box: LiveBox) -> None:
    use = CUDA.partition("memory = ")[0] + 'memory = call("cuMemAlloc", 3 << 30)\n'
    seen = run_json(box, tools, 1, "-W", "ignore", "-c", use + FORMS)
    pid = str(seen["pid"])
    assert re.search(rf"\| +0 +{pid} +\S+ +3072MiB ", seen["htop"]), seen["htop"]
    assert re.search(rf"^{pid} .* C .* 3072M .* GPU-0$", seen["docker"], re.MULTILINE), seen["docker"]
    assert seen["fields"] == [{"name": "Simulated GPU", "clocks.sm": 405, "power.draw": "25.00"}]
    assert seen["numa"] == "0\n"
    (gpu,), (process,) = seen["who"]["gpus"], seen["who"]["processes"]
    assert (gpu["mem_used"], gpu["power_limit"], process["pid"]) == (3072, 300, seen["pid"])
    assert re.search(r"│ +30 │ +25\.0 │ +0\.0 │ +3072 │ +16384 │", seen["xputop"]), seen["xputop"]
    card = seen["node"]["nvidia_smi_log"]["gpu"]
    assert (card["fb_memory_usage"]["used"], card["gpu_power_readings"]["power_draw"]) == ("3072 MiB", "25.00 W")
    assert card["processes"]["process_info"]["pid"] == pid
    assert '"PASS"' in seen["checked"], seen["checked"]
    assert re.search(r"^\d\d passed, \d+ (deselected|xfailed)", seen["pynvml"], re.MULTILINE), seen["pynvml"]


def test_a_task_with_a_part_of_a_card_sees_the_size_of_its_part(tools: Environment, tmp_path: Path) -> None:
    box = LiveBox(tmp_path / "box")
    try:
        box.env["MESOS_SIMULATED_GPU_MEMORY"] = "15109MB"  # a flag of the agent's
        box.up("--gpu_driver=simulated", "--simulated_gpus=1", "--shared_gpus=0")
        for words in (("-m", "gpustat", "--json"), ("-c", NVITOP)):
            done = box.cli("run", "--gpu-mem", "6GiB", "--", tools.python, *words)
            assert done.returncode == 0, done.stdout + done.stderr
            seen = json.loads(done.stdout)
            total = seen["gpus"][0]["memory.total"] if "gpus" in seen else seen[0][3]
            assert total == 6043
        # The container's nvidia-smi, too: its own part, and what it has of that.
        asked = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader"]
        use = CUDA.partition("memory = ")[0] + 'memory = call("cuMemAlloc", 3 << 30)\n'
        text = f"{use}print(subprocess.check_output({asked}, text=True).strip())"
        done = box.cli("run", "--gpu-mem", "6GiB", "--", tools.python, "-W", "ignore", "-c", text)
        assert done.stdout.strip() == "3072 MiB, 6043 MiB", done.stdout + done.stderr
    finally:
        box.cli("down")


# What NVML tells of GPUs in MIG mode, by pynvml; nvitop and gpustat read it beside.
MIG = """
import json, subprocess, sys, pynvml
from nvitop import MigDevice, PhysicalDevice
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
found = []
for slot in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
    try:
        part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
    except pynvml.NVMLError:
        continue
    attributes = pynvml.nvmlDeviceGetAttributes(part)
    found.append([
        pynvml.nvmlDeviceGetUUID(part), pynvml.nvmlDeviceGetName(part), attributes.memorySizeMB,
        attributes.gpuInstanceSliceCount, pynvml.nvmlDeviceGetMemoryInfo(part).used >> 20,
        [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(part)],
    ])
nvitop = [
    [one.uuid(), one.name(), one.memory_total() >> 20, one.memory_used() >> 20] for one in MigDevice.all()
]
gpustat = json.loads(subprocess.check_output([sys.executable, "-m", "gpustat", "--json"]))["gpus"]
print(json.dumps({
    "pynvml": found, "nvitop": nvitop, "mode": pynvml.nvmlDeviceGetMigMode(gpu)[0],
    "boards": [[one.is_mig_mode_enabled(), one.uuid()] for one in PhysicalDevice.all()],
    "gpustat": [[one["uuid"], one["memory.used"], one["memory.total"]] for one in gpustat],
}))
"""
A100 = {
    "MESOS_SIMULATED_GPU_MODEL": "NVIDIA A100-SXM4-40GB",
    "MESOS_SIMULATED_GPU_MEMORY": "40960MB",
    "MESOS_MIG_STRATEGY": "single",
    "MESOS_MIG_PROFILES": "0:3g.20gb,2g.10gb",
}


def test_mig_instances_are_seen_by_their_containers_with_their_memory(tools: Environment, tmp_path: Path) -> None:
    box = LiveBox(tmp_path / "box")
    box.env.update(A100)  # flags of the agent's
    try:
        box.up("--gpu_driver=simulated", "--simulated_gpus=1")
        listed = {one["uuid"]: one["model"] for one in json.loads(box.ok("gpu", "list", "-o", "json"))}
        assert sorted(listed.values()) == [f"NVIDIA A100-SXM4-40GB MIG {name}" for name in ("2g.10gb", "3g.20gb")]
        # The test's own memory on the instance is taken by CUDA, and seen by all three.
        use = CUDA.partition("memory = ")[0] + 'memory = call("cuMemAlloc", 3 << 30)\n'
        seen = run_json(box, tools, 1, "-W", "ignore", "-c", use + MIG)
        ((uuid, name, memory, slices, used, pids),) = seen["pynvml"]
        assert listed[uuid] == name
        assert (slices, memory) == {"2g.10gb": (2, 10240), "3g.20gb": (3, 20480)}[name.rpartition(" ")[2]]
        assert (used, len(pids), seen["mode"]) == (3072, 1, 1)
        assert seen["nvitop"] == [[uuid, name, memory, 3072]]
        assert [one[0] for one in seen["boards"]] == [True]
        assert seen["gpustat"] == [[seen["boards"][0][1], 3072, 40960]]

        plan = box.ok("gpu", "mig", "plan", "7g.40gb", "-o", "json")
        assert [step["step"] for step in json.loads(plan)] == ["destroy", "destroy", "create"]
        box.ok("gpu", "mig", "apply", "7g.40gb")
        seen = run_json(box, tools, 1, "-W", "ignore", "-c", MIG)
        assert [row[2:5] for row in seen["pynvml"]] == [[40960, 7, 0]]
    finally:
        box.cli("down")
