"""What kubectl, docker and `dcos` call commands, and what they are called here; imported when one is not found."""

from __future__ import annotations

_WORDS = {
    "app list` or `mesos-gpu task list": "ls, containers, container",
    "task log": "log, app logs, app log, task logs",
    "app add": "create, deploy, launch, app create, app apply, app deploy",
    "app remove": "destroy, app delete, app rm, app destroy",
    "app show": "app get, app describe, app inspect",
    "app update": "edit, patch, set, app edit, app set",
    "app scale": "scale",
    "app restart": "restart",
    "app versions": "app version, app history",
    "image prune": "rmi, image rm, image remove",
    "task exec": "ssh",
    "task download": "cp, task cp",
    "task kill": "task stop, task rm",
    "task list": "task ps",
    "task ls": "task files",
    "task metrics": "stats",
    "task show": "task describe",
    "agent describe": "agent show",
    "agent deactivate": "agent cordon",
    "agent reactivate": "agent undrain, agent uncordon",
    "gpu top": "gpu smi",
    "gpu list": "nvidia-smi, gpu ls, gpu show",
    "deployment watch": "wait, deployment status",
    "deployment rollback": "deployment undo",
    "deployment stop": "deployment cancel",
    "job run": "job start",
    "job kill": "job stop",
    "job remove": "job delete, job rm",
    "deployment": "rollout",
    "job": "cronjob",
    "why": "debug, events",
    "config set": "login",
    "config": "cluster, context",
    "--version": "version",
}

MEANT = {word: here for here, words in _WORDS.items() for word in words.split(", ")}
"""By the words behind `mesos-gpu`, those of the command that is meant."""
