"""What kubectl, docker and `dcos` call commands, and what they are called here; imported when one is not found."""

from __future__ import annotations

_WORDS = {
    "app list` or `mesos-gpu task list": "ps, ls, get, pods",
    "task log": "logs, log, app logs, app log, task logs",
    "app add": "apply, create, deploy, launch, app create, app apply, app deploy",
    "app remove": "delete, rm, destroy, app delete, app rm, app destroy",
    "app show` or `mesos-gpu agent describe": "describe, inspect",
    "app show": "app get, app describe, app inspect",
    "app update": "app edit, app set",
    "app scale": "scale",
    "app versions": "app version, app history",
    "task exec": "exec, ssh",
    "task attach": "attach",
    "task download": "cp, task cp",
    "task kill": "task stop, task rm",
    "task list": "task ps",
    "task ls": "task files",
    "task show": "task describe",
    "agent list": "nodes",
    "agent describe": "agent show",
    "agent deactivate": "cordon, agent cordon",
    "agent reactivate": "uncordon, agent undrain, agent uncordon",
    "agent drain": "drain",
    "gpu top": "top, gpu smi",
    "gpu list": "nvidia-smi, gpu ls, gpu show",
    "deployment watch": "deployment status",
    "deployment rollback": "deployment undo",
    "deployment stop": "deployment cancel",
    "job run": "job start",
    "job kill": "job stop",
    "job remove": "job delete, job rm",
    "deployment": "rollout",
    "job": "cronjob",
    "why": "debug",
    "config set": "login",
    "config": "cluster, context",
    "up": "start",
    "down": "stop",
    "--version": "version",
}

MEANT = {word: here for here, words in _WORDS.items() for word in words.split(", ")}
"""By the words behind `mesos-gpu`, those of the command that is meant."""
