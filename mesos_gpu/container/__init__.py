"""UCR containers: a bundle, an OCI runtime, a supervisor and a sandbox."""

from mesos_gpu.container.config import ContainerConfig, Termination
from mesos_gpu.container.containerizer import Containerizer
from mesos_gpu.container.mounts import enter_private_mounts
from mesos_gpu.container.opening import open_containerizer

__all__ = ["ContainerConfig", "Containerizer", "Termination", "enter_private_mounts", "open_containerizer"]
