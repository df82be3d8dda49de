"""Yelp's task_processing: a MesosExecutor runs a GPU task to its end, in an image if one is named, through its runner.

Prints the events as JSON.
"""

import json
import sys

from task_processing.runners.sync import Sync
from task_processing.task_processor import TaskProcessor

processor = TaskProcessor()
processor.load_plugin(provider_module="task_processing.plugins.mesos")
executor = processor.executor_from_config(
    provider="mesos_task",
    provider_config={
        "secret": "",
        "mesos_address": sys.argv[1],
        "role": "*",
        "framework_name": "task_processing",
        "framework_staging_timeout": 60,
    },
)
image = {"image": sys.argv[3]} if len(sys.argv) > 3 else {}
config = executor.TASK_CONFIG_INTERFACE(
    cmd=sys.argv[2], cpus=0.1, mem=32, gpus=1, disk=10, containerizer="MESOS", **image
)
result = Sync(executor=executor).run(config)
print(json.dumps({"success": result.success, "kind": result.kind, "platform_type": result.platform_type}))
executor.stop()
