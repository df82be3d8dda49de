"""A program for simulated GPUs: `cuda_program.py MIB KERNEL_US [FILE]`, takes memory and keeps the card busy forever.

It says what it sees, then `round N` after each ten kernels; what it has written into its memory is looked at each time.
It loads libcuda.so.1 as anybody does, and imports the standard library alone.
"""

import ctypes
import sys

mib, kernel_us = int(sys.argv[1]), sys.argv[2]
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        word = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(word))
        print(name, word.value.decode() if word.value else code, flush=True)
        sys.exit(3)


call("cuInit", 0)
count, device = ctypes.c_int(), ctypes.c_int()
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20))
call("cuMemcpyHtoD_v2", memory, b"kept", ctypes.c_size_t(4))
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print("devices", count.value, "free", free.value >> 20, "of", total.value >> 20, flush=True)
module, function = ctypes.c_void_p(), ctypes.c_void_p()
ptx = f".version 7.0\n// takes spin {kernel_us}\n.visible .entry spin(\n)\n"
call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
rounds = 0
while True:
    for _ in range(10):
        call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    read = ctypes.create_string_buffer(4)
    call("cuMemcpyDtoH_v2", read, memory, ctypes.c_size_t(4))
    assert read.raw == b"kept"
    rounds += 1
    print("round", rounds, flush=True)
