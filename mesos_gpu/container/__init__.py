"""UCR containers: a bundle, an OCI runtime, a supervisor and a sandbox."""

from mesos_gpu.container.host.mounts import enter_private_mounts
from mesos_gpu.container.life.containerizer import Containerizer
from mesos_gpu.container.life.opening import open_containerizer
from mesos_gpu.container.spec.config import ContainerConfig, Termination

__all__ = ["ContainerConfig", "Containerizer", "Termination", "enter_private_mounts", "open_containerizer"]
