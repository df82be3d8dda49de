"""The shapes of the documents that Marathon takes, each read from its file in mesos_gpu/schemas/."""

from __future__ import annotations

from mesos_gpu.marathon.definitions.document_schema import DocumentSchema

APP = DocumentSchema(
    "app.json",
    {
        "command": "cmd",
        "count": "instances",
        "dependsOn": "dependencies",
        "environment": "env",
        "image": "container.docker.image",
        "memory": "mem",
        "replicas": "instances",
        "volumes": "container.volumes",
    },
)
GROUP = DocumentSchema("group.json")
"""The apps and pods in a group's document are not looked into."""
POD = DocumentSchema("pod.json", {"env": "environment", "instances": "scaling.instances", "name": "id"})
JOB = DocumentSchema("job.json", {"cmd": "run.cmd", "cron": "schedules", "env": "run.env", "gpus": "run.gpus"})
