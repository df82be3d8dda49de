"""A task that keeps its part of a GPU busy forever, by CUDA's driver API: `gpu_tenant.py`; it needs Python alone.

On a simulated GPU each kernel takes two milliseconds. Where there is no libcuda.so.1 (it is compiled where there is a C
compiler), the simulated card is asked without it.
"""

from __future__ import annotations

import ctypes
import os
import socket

DEPTH = 8
KERNEL_US = 2000
PTX = f".version 7.0\n// takes spin {KERNEL_US}\n.visible .entry spin(\n)\n".encode()


def by_cuda(cuda: ctypes.CDLL) -> None:
    """Launch kernels, and wait for them, forever."""

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise SystemExit(f"{name}: CUDA error {code}")

    context, memory, module, function = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(2 << 30))
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
    print("computing", flush=True)
    while True:
        for _ in range(DEPTH):
            call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
        call("cuCtxSynchronize")


def by_socket(path: str) -> None:
    """Have the simulated card compute, forever."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as card:
        card.connect(path)
        kernel = b"K %g\n" % (KERNEL_US / 1000)
        card.sendall(kernel * DEPTH)
        print("computing", flush=True)
        while done := card.recv(4096):
            card.sendall(kernel * done.count(b"D"))


if __name__ == "__main__":
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        cards = os.environ.get("MESOS_GPU_SIMULATED_CARDS", "")
        if not cards:
            raise SystemExit(f"there is no CUDA here: {error}") from None
        by_socket(cards.split(",")[0])
    else:
        by_cuda(library)
