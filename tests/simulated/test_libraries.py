"""libcuda.so.1 and libnvidia-ml.so.1 of simulated GPUs, loaded by real programs, over the program that plays cards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.mesos.shares.gpu_shares import SharedCard
from tests.support.simulated.played import Played

pytestmark = pytest.mark.slow

CALLS = """
import ctypes, json, os
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    word = c_char_p()
    cuda.cuGetErrorName(code, byref(word))
    return word.value.decode().removeprefix("CUDA_") if word.value else code

def show(*values):
    print(json.dumps(values))

"""
CONTEXT = (
    CALLS
    + """
assert call("cuInit", 0) == "SUCCESS"
context, memory, module, function = c_void_p(), c_uint64(), c_void_p(), c_void_p()
assert call("cuCtxCreate_v2", byref(context), 0, 0) == "SUCCESS"
"""
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    made = Played(tmp_path_factory.mktemp("played"))
    try:
        yield made
    finally:
        made.end()


def lines(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


def test_devices_are_those_whose_nodes_open_in_the_order_that_is_asked_for(played: Played) -> None:
    text = (
        CALLS
        + """
count, name, uuid = c_int(), ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
show(call("cuDeviceGetCount", byref(count)), call("cuInit", 0), call("cuDeviceGetCount", byref(count)), count.value)
show(call("cuDeviceGetName", name, 64, 0), name.value.decode())
show(call("cuDeviceGetUuid", uuid, 0), uuid.raw.hex())
show(call("cuDeviceGetName", name, 64, 9))
"""
    )
    one, other = (gpu.uuid.removeprefix("GPU-").replace("-", "") for gpu in played.gpus)
    shown = lines(played.run(text))
    assert shown[0] == ["ERROR_NOT_INITIALIZED", "SUCCESS", "SUCCESS", 2]
    assert shown[1:] == [["SUCCESS", "Simulated GPU"], ["SUCCESS", one], ["ERROR_INVALID_DEVICE"]]
    assert lines(played.run(text, CUDA_VISIBLE_DEVICES="1"))[2] == ["SUCCESS", other]
    assert lines(played.run(text, CUDA_VISIBLE_DEVICES=played.gpus[1].uuid + ",0"))[2] == ["SUCCESS", other]
    nothing = lines(played.run(text, CUDA_VISIBLE_DEVICES="x"))
    assert nothing[0][1] == "ERROR_NO_DEVICE"  # type: ignore[index]


def test_memory_keeps_what_is_written_and_is_refused_when_the_card_is_full(played: Played) -> None:
    text = (
        CONTEXT
        + """
def left():
    free, total = c_size_t(), c_size_t()
    assert call("cuMemGetInfo_v2", byref(free), byref(total)) == "SUCCESS"
    return [free.value >> 20, total.value >> 20]

more, other, back = c_uint64(), c_uint64(), ctypes.create_string_buffer(8)
show(left(), call("cuMemAlloc_v2", byref(memory), c_size_t(1000 << 20)), left())
show(call("cuMemAlloc_v2", byref(more), c_size_t(100 << 20)), call("cuMemAlloc_v2", byref(more), c_size_t(0)))
show(call("cuMemcpyHtoD_v2", memory, b"1234567", c_size_t(8)), call("cuMemsetD8_v2", c_uint64(memory.value + 1), 65, 2))
show(call("cuMemcpyDtoH_v2", back, memory, c_size_t(8)), back.value.decode())
show(call("cuMemcpyHtoD_v2", c_uint64(memory.value + (1000 << 20) - 4), b"1234567", c_size_t(8)))
show(call("cuMemFree_v2", memory), call("cuMemFree_v2", memory), left())
show(call("cuMemAllocManaged", byref(more), c_size_t(8), 1), call("cuCtxDestroy_v2", context), call("cuCtxSynchronize"))
"""
    )
    assert lines(played.run(text)) == [
        [[1024, 1024], "SUCCESS", [24, 1024]],
        ["ERROR_OUT_OF_MEMORY", "ERROR_INVALID_VALUE"],
        ["SUCCESS", "SUCCESS"],
        ["SUCCESS", "1AA4567"],
        ["ERROR_INVALID_VALUE"],
        ["SUCCESS", "ERROR_INVALID_VALUE", [1024, 1024]],
        ["ERROR_NOT_SUPPORTED", "SUCCESS", "ERROR_INVALID_CONTEXT"],
    ]


def test_kernels_take_the_time_that_their_text_says_and_events_measure_it(played: Played) -> None:
    text = (
        CONTEXT
        + """
image = b".version 7.0\\n// takes spin 3000\\n.visible .entry spin(\\n)\\n"
show(call("cuModuleLoadData", byref(module), image), call("cuModuleGetFunction", byref(function), module, b"spin"))
show(call("cuModuleGetFunction", byref(c_void_p()), module, b"spi"))
begin, end, stream, ms = c_void_p(), c_void_p(), c_void_p(), c_float()
assert [call("cuEventCreate", byref(one), 0) for one in (begin, end)] == ["SUCCESS"] * 2
assert call("cuStreamCreate", byref(stream), 1) == "SUCCESS"
call("cuEventRecord", begin, stream)
assert {call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, None, None) for _ in range(20)} == {"SUCCESS"}
call("cuEventRecord", end, stream)
show(call("cuEventQuery", end), call("cuEventSynchronize", end), call("cuStreamQuery", stream))
show(call("cuEventElapsedTime", byref(ms), begin, end), round(ms.value))
show(call("cuLaunchKernel", function, 1, 1, 1, 2048, 1, 1, 0, None, None, None))
address = c_void_p()
show(call("cuGetProcAddress_v2", b"cuMemAlloc", byref(address), 12000, c_uint64(0), None), bool(address.value))
show(call("cuGetProcAddress_v2", b"cuNothing", byref(address), 12000, c_uint64(0), None), bool(address.value))
if not (child := os.fork()):
    os._exit(call("cuCtxSynchronize") != "ERROR_NOT_INITIALIZED")
show(os.waitpid(child, 0)[1])
"""
    )
    shown = lines(played.run(text))
    assert shown[:3] == [
        ["SUCCESS", "SUCCESS"],
        ["ERROR_NOT_FOUND"],
        ["ERROR_NOT_READY", "SUCCESS", "SUCCESS"],
    ]
    code, ms = shown[3]  # type: ignore[misc]
    assert (code, ms >= 60) == ("SUCCESS", True)
    assert shown[4:] == [["ERROR_INVALID_VALUE"], ["SUCCESS", True], ["ERROR_NOT_FOUND", False], [0]]


def said(program: subprocess.Popen[str], word: str) -> str:
    """Wait until a program has said a line with that word; return it."""
    assert program.stdout is not None
    for line in program.stdout:
        if word in line:
            return line.strip()
    raise AssertionError(f"it ended without a word of {word}")


NVML = """
import json, pynvml, time
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
while True:
    memory, rates = pynvml.nvmlDeviceGetMemoryInfo(device), pynvml.nvmlDeviceGetUtilizationRates(device)
    running = [[one.pid, one.usedGpuMemory >> 20] for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(device)]
    if rates.gpu > 50:
        break
    time.sleep(0.05)
samples = pynvml.nvmlDeviceGetProcessUtilization(device, 0)
print(json.dumps([memory.used >> 20, memory.total >> 20, running, [one.pid for one in samples]]))
"""


def test_nvml_says_who_uses_a_card_and_how_much(played: Played) -> None:
    program = played.start(["300", "1000"])
    try:
        assert said(program, "devices") == "devices 2 free 724 of 1024"
        used, total, running, sampled = json.loads(played.run(NVML))
        assert (used, total, running, sampled) == (300, 1024, [[program.pid, 300]], [program.pid])
    finally:
        program.kill()
        program.wait(30)


def test_a_limit_of_the_driver_is_what_a_program_sees_and_has(played: Played) -> None:
    lines_of = Path("/proc/self/cgroup").read_text().splitlines()
    path = next(line.split(":", 2)[2] for line in lines_of)
    text = f"""
import pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(1)
path = "/sys/fs/cgroup{path}".encode()
"""
    hard = "(1 << 64) - 1"
    setting = text + "limits = pynvml.c_nvmlSetMemoryLimits_v1_t(path, 0, HARD)\n"
    setting += "pynvml.nvmlDeviceSetMemoryLimits_v1(device, limits)\n"
    asking = text + "limits = pynvml.c_nvmlGetMemoryLimits_v1_t(path)\n"
    asking += "pynvml.nvmlDeviceGetMemoryLimits_v1(device, limits)\nprint(limits.hardLimit >> 20)"
    try:
        played.run(setting.replace("HARD", str(200 << 20)))
        assert played.run(asking) == "200"
        greedy = played.start(["300", "1000"], CUDA_VISIBLE_DEVICES="1")
        assert said(greedy, "cuMemAlloc") == "cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY"
        modest = played.start(["150", "1000"], CUDA_VISIBLE_DEVICES="1")
        assert said(modest, "devices") == "devices 1 free 50 of 200"
        modest.kill()
    finally:
        played.run(setting.replace("HARD", hard))


def test_six_of_fifteen_gib_of_a_card_are_6043_mib_for_cuda(tmp_path: Path) -> None:
    """The figure of cGPU's own page, by the limit that drivers keep since release 615."""
    path = next(line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines())
    card = SharedCard(0, "GPU-0", 15109)
    played = Played(tmp_path, 1, 15109)
    try:
        with played.asked() as cards:
            cards.ask(f"limit 0 0 {card.memory_of(6) << 20} {path}")
        program = played.start(["1000", "1000"])
        assert said(program, "devices") == "devices 1 free 5043 of 6043"
    finally:
        played.end()


def test_a_program_is_put_away_and_goes_on_on_another_card(played: Played) -> None:
    program = played.start(["500", "1000"])
    said(program, "round")
    text = CALLS + (
        f"pid, state = {program.pid}, c_int()\n"
        + """
steps = [call("cuCheckpointProcessLock", pid, None), call("cuCheckpointProcessCheckpoint", pid, None)]
call("cuCheckpointProcessGetState", pid, byref(state))
show(steps, state.value)
"""
    )
    assert lines(played.run(text)) == [[["SUCCESS", "SUCCESS"], 2]]
    with played.asked() as cards:
        assert cards.ask("card 0").split()[1] == "0"
    before, after = (gpu.uuid.removeprefix("GPU-") for gpu in played.gpus)
    text = CALLS + (
        f"pid, before, after = {program.pid}, {before!r}, {after!r}\n"
        + """
import uuid
pair = (ctypes.c_ubyte * 32)(*uuid.UUID(before).bytes, *uuid.UUID(after).bytes)
class Arguments(ctypes.Structure):
    _fields_ = [("pairs", c_void_p), ("count", ctypes.c_uint), ("reserved", ctypes.c_ubyte * 52)]
how = Arguments(ctypes.addressof(pair), 1)
show(call("cuCheckpointProcessRestore", pid, byref(how)), call("cuCheckpointProcessUnlock", pid, None))
"""
    )
    assert lines(played.run(text)) == [["SUCCESS", "SUCCESS"]]
    said(program, "round")
    with played.asked() as cards:
        assert cards.ask("processes 0") == ""
        assert cards.ask("processes 1").split(":")[:2] == [str(program.pid), str(500 << 20)]
    program.kill()
    program.wait(30)


def test_without_the_program_there_is_no_driver(tmp_path: Path) -> None:
    alone = Played(tmp_path)
    alone.end()
    assert lines(alone.run(CALLS + 'show(call("cuInit", 0))')) == [["ERROR_UNKNOWN"]]


def test_cards_outlive_their_agent_and_are_taken_up_by_the_next(tmp_path: Path) -> None:
    played = Played(tmp_path)
    try:
        program = played.start(["100", "1000"])
        said(program, "round")
        played.cards.close(keep=True)
        played.cards.begin()
        played.cards.start(played.volume)
        with played.asked() as cards:
            assert cards.ask("card 0").split()[1] == str(100 << 20)
        said(program, "round")
    finally:
        played.end()
