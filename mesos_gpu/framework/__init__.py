"""What authors of Mesos frameworks need for GPUs, in the terms of pymesos: the documents of Mesos' v1 API as dicts.

    info = framework_info("training", roles=["ml"])
    driver = MesosSchedulerDriver(scheduler, info, "127.0.0.1:5050")

    def resourceOffers(self, driver, offers):
        for offer in map(Offered, offers):
            task = GpuTask("worker-1", "python train.py", gpus=2, cpus=4, mem_mib=8192, image="nvidia/cuda")
            if offer.fits(task):
                driver.launchTasks(offer.id, [offer.launch(task)])
            else:
                driver.declineOffer(offer.id)

GPUs are whole: a fraction, which a master answers with TASK_ERROR, is refused here before it travels. Nothing here does
I/O, and nothing imports pymesos: other drivers take the same documents. docs/do/frameworks.md tells more.
"""

from mesos_gpu.framework.info import framework_info
from mesos_gpu.framework.offers import Offered
from mesos_gpu.framework.tasks import GpuTask, check_whole_gpus, volume, whole_gpus
from mesos_gpu.mesos.tasks import is_terminal

__all__ = ["GpuTask", "Offered", "check_whole_gpus", "framework_info", "is_terminal", "volume", "whole_gpus"]
