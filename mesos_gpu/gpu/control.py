"""The nodes that programs open beside their GPU: nvidiactl, nvidia-uvm, nvidia-uvm-tools, nvidia-modeset."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import NVIDIA_MAJOR, DeviceNode
from mesos_gpu.gpu.numbers import read_character_majors

DEV = Path("/dev")
LOAD_UVM = ("nvidia-modprobe", "-u", "-c", "0")
_LOAD_TIMEOUT_S = 60


class ControlNodes:
    """Finds the control nodes of a real NVIDIA driver.

    nvidiactl is 195:255 by the driver's own convention. The major of nvidia-uvm is the kernel's choice at load time:
    it is read from /proc/devices, else from the node on the host, and never guessed.
    """

    def __init__(self, proc_devices: Path, dev: Path, load_uvm: Callable[[], str | None]) -> None:
        self._proc_devices, self._dev, self._load_uvm = proc_devices, dev, load_uvm
        self._tried_loading = False

    def find(self) -> Sequence[DeviceNode]:
        """Return the nodes. Raises DeviceError, with what to do, when nvidia-uvm is nowhere."""
        major = self._uvm_major()
        found = [DeviceNode("/dev/nvidiactl", NVIDIA_MAJOR, 255), DeviceNode("/dev/nvidia-uvm", major, 0)]
        if _character_device(self._dev / "nvidia-uvm-tools") is not None:
            found.append(DeviceNode("/dev/nvidia-uvm-tools", major, 1))
        if _character_device(self._dev / "nvidia-modeset") is not None:
            found.append(DeviceNode("/dev/nvidia-modeset", NVIDIA_MAJOR, 254))
        return tuple(found)

    def _uvm_major(self) -> int:
        major, why = self._known_uvm_major(), None
        if major is None and not self._tried_loading:
            self._tried_loading = True
            why = self._load_uvm()
            major = self._known_uvm_major()
        if major is None:
            node = _character_device(self._dev / "nvidia-uvm")
            major = None if node is None else os.major(node)
        if major is None:
            tried = f" ({why})" if why else ""
            raise DeviceError(
                f"the kernel has no nvidia-uvm device, which CUDA needs, and `{' '.join(LOAD_UVM)}` did not bring "
                f"it{tried}; load the nvidia-uvm module and start again"
            )
        return major

    def _known_uvm_major(self) -> int | None:
        return read_character_majors(self._proc_devices).get("nvidia-uvm")


def load_uvm() -> str | None:
    """Load nvidia-uvm with NVIDIA's own helper, as Mesos does; return what went wrong, None when nothing did."""
    try:
        subprocess.run(LOAD_UVM, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOAD_TIMEOUT_S)
    except FileNotFoundError:
        return "nvidia-modprobe is not installed"
    except subprocess.TimeoutExpired:
        return f"it took longer than {_LOAD_TIMEOUT_S} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr or error.stdout or b"").decode(
            errors="replace"
        ).strip() or f"exit status {error.returncode}"
    except OSError as error:
        return str(error.strerror)
    return None


def _character_device(path: Path) -> int | None:
    """Return the device number of the character device at `path`; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else None
