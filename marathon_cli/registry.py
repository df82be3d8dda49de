"""Every command of `mesos-gpu`, one line each: what it is called, where it is, and what it does. Pure.

A command is imported when it is run; help is made from this table. To add one: a line here, and a `@click.command()`
in a module of `marathon_cli/commands/` (which imports requests, rich and the like inside functions only).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PROGRAM = "mesos-gpu"

RUN, LOOK, OPERATE, BOX = "Run", "Look", "Operate", "This machine"


class Row(NamedTuple):
    """One command. `where` is `module:attribute` below marathon_cli.commands; a group has none."""

    path: str
    where: str
    help: str
    section: str = ""
    """For a command of the first level: under which headline it is listed."""
    default: str = ""
    """For a group: which of its commands is meant when none is named."""


ROWS: Sequence[Row] = (
    Row("run", "run:run", "Run a command once, on GPUs of its own, and exit with its status.", RUN),
    Row(
        "convert",
        "convert:convert",
        "Turn Kubernetes and Compose files and docker run into apps, pods and jobs.",
        RUN,
    ),
    Row(
        "apply",
        "apply:apply",
        "Create or change what files define: apps, pods, jobs and groups of ours, and objects of Kubernetes.",
        RUN,
    ),
    Row("plan", "apply:plan", "Say what would happen if FILEs were applied; nothing is done.", RUN),
    Row(
        "remove",
        "apply:remove",
        "Remove what files define, and end its tasks: apps, pods, jobs, groups, and objects of Kubernetes.",
        RUN,
    ),
    Row("app", "", "Apps: what runs, in how many copies, on how many GPUs.", RUN),
    Row("app add", "app:add", "Add the app that FILE defines."),
    Row("app list", "app:list_apps", "List the apps."),
    Row("app show", "app:show", "Print everything that Marathon knows of APP."),
    Row("app update", "app:update", "Change APP by KEY=VALUE, by a file, or by both."),
    Row("app scale", "app:scale", "Run INSTANCES copies of APP."),
    Row("app start", "app:start", "Start APP, which has no instances, with INSTANCES of them."),
    Row("app stop", "app:stop", "Stop APP: no instances, and all its tasks end."),
    Row("app restart", "app:restart", "Replace all tasks of APP, as its upgradeStrategy says."),
    Row("app kill", "app:kill", "End the tasks of APP; others take their place."),
    Row("app remove", "app:remove", "Remove APP and end its tasks."),
    Row("app versions", "app:versions", "List the versions of APP, newest first."),
    Row("app validate", "app:validate", "Check files that define apps, and change nothing."),
    Row("group", "", "Groups: trees of apps and pods, changed as one.", RUN),
    Row("group add", "group:add", "Add the group that FILE (JSON or YAML) defines, with all its apps."),
    Row("group list", "group:list_groups", "List the groups, with all that is in each."),
    Row("group show", "group:show", "Print everything that is in GROUP; without one, in the root."),
    Row("group update", "group:update", "Change GROUP by KEY=VALUE, by a file, or by both."),
    Row("group scale", "group:scale", "Multiply the instances of every app in GROUP by FACTOR, rounded up."),
    Row("group remove", "group:remove", "Remove GROUP and everything in it."),
    Row("pod", "", "Pods: containers that run side by side, on the GPUs of their pod.", RUN),
    Row("pod add", "pod:add", "Add the pod that FILE (JSON or YAML) defines."),
    Row("pod list", "pod:list_pods", "List the pods and how they are."),
    Row("pod show", "pod:show", "Print everything that Marathon knows of POD: its definition and its instances."),
    Row("pod update", "pod:update", "Change POD by KEY=VALUE, by a file, or by both."),
    Row("pod kill", "pod:kill", "End instances of POD; others take their place."),
    Row("pod remove", "pod:remove", "Remove POD and end its instances."),
    Row("job", "", "Jobs: what runs to its end, when asked or by a schedule.", RUN),
    Row("job add", "job:add", "Add the job that FILE (JSON or YAML) defines, with its schedules."),
    Row("job list", "job:list_jobs", "List the jobs, what they do now, and when they run next."),
    Row("job show", "job:show", "Print everything that is known of JOB."),
    Row("job run", "job:run", "Run JOB now."),
    Row(
        "job history",
        "job:history",
        "List the runs of JOB: active ones, then those that have ended, the latest first.",
    ),
    Row("job kill", "job:kill", "End runs of JOB."),
    Row(
        "job update",
        "job:update",
        "Change JOB by KEY=VALUE, by a file, or by both; its schedules stay as they are.",
    ),
    Row("job remove", "job:remove", "Remove JOB; one that runs only with --stop-runs."),
    Row("job schedule", "", "Schedules of a job, by cron."),
    Row(
        "job schedule add",
        "job:add_schedule",
        "Add a schedule to JOB: that of FILE (JSON or YAML), or one of --cron.",
    ),
    Row("job schedule list", "job:list_schedules", "List the schedules of JOB."),
    Row(
        "job schedule update",
        "job:update_schedule",
        "Change a schedule of JOB, as in cron='0 4 * * *' or enabled=false.",
    ),
    Row("job schedule remove", "job:remove_schedule", "Remove a schedule of JOB."),
    Row("deployment", "", "Deployments: changes that are under way.", RUN),
    Row("deployment list", "deployment:list_deployments", "List the deployments under way, of all apps or of APP."),
    Row("deployment watch", "deployment:watch", "Show how a deployment goes, until it is done."),
    Row(
        "deployment rollback",
        "deployment:rollback",
        "Stop a deployment and restore its apps as they were before it.",
    ),
    Row("deployment stop", "deployment:stop", "Stop a deployment and leave everything as it is now."),
    Row("task", "", "Tasks: the running copies of apps.", RUN),
    Row("task list", "task:list_tasks", "List the tasks of all apps, of one, or those that are named."),
    Row(
        "task show",
        "task:show",
        "Print everything that Marathon knows of TASK: its id, how that begins, or a part of it.",
    ),
    Row("task kill", "task:kill", "End tasks; others take their place unless --scale says otherwise."),
    Row(
        "task log",
        "task_log:log",
        "Print what a task writes: the file stdout of its sandbox, or another FILE there.",
    ),
    Row(
        "task suspend",
        "task:suspend",
        "Put away what TASK has on its GPUs, and let others have those, until it is resumed.",
    ),
    Row("task resume", "task:resume", "Give a suspended TASK GPUs again, and let it go on where it stood."),
    Row("task exec", "task_exec:exec_", "Run COMMAND in the container of TASK, with its GPUs, files and limits."),
    Row(
        "task attach",
        "task_exec:attach",
        "Attach this terminal to TASK's own, until it ends or the detach keys are typed.",
    ),
    Row("task ls", "task_files:ls", "List the files of TASK's sandbox, or of a folder in it."),
    Row(
        "task download",
        "task_files:download",
        "Copy files and folders out of TASK's sandbox, all of it without a PATH.",
    ),
    Row("task metrics", "task:metrics", "Show what TASK uses: CPUs, memory, disk, and each of its GPUs."),
    Row("ui", "ui:ui", "Open the page of Marathon in a browser, and print its address.", LOOK),
    Row("why", "why:why", "Explain why APP is not running, and what would make it run.", LOOK),
    Row(
        "when",
        "when:when",
        "Say when what waits of APP is expected to start: the usual time, and between which times in 8 cases of 10.",
        LOOK,
    ),
    Row(
        "usage",
        "usage:usage",
        "Show GPU-hours and what was used of them, also of tasks and apps that have ended; of APP alone in words.",
        LOOK,
    ),
    Row("gpu", "", "GPUs: which there are, how they are, who holds them.", LOOK),
    Row("gpu list", "gpu:list_gpus", "List the GPUs of all agents: where, what, how they are, who holds them."),
    Row(
        "gpu types",
        "gpu:types",
        "List the kinds of GPUs, as GKE lists accelerator types, and how to ask for each.",
    ),
    Row("gpu top", "gpu:top", "Show what GPUs do now, the busiest first, with the tasks that hold them."),
    Row(
        "gpu fragments",
        "gpu:fragments",
        "Show GPUs that are free and that nothing that is asked for could use, by machine, with the cause.",
    ),
    Row("gpu mig", "", "MIG: this machine's GPUs in parts."),
    Row(
        "gpu mig plan",
        "gpu:plan",
        "Show which MIG instances would be destroyed and made so that the GPU has these, and no others.",
    ),
    Row(
        "gpu mig apply",
        "gpu:apply",
        "Divide a GPU of this machine into MIG instances; none that is used is touched.",
    ),
    Row("share", "", "Shared GPUs: who has which part, and changes while tasks run.", LOOK),
    Row(
        "share list",
        "share:list_shares",
        "List the GPUs that tasks share: who has which part, and what keeps it to that.",
    ),
    Row(
        "share set",
        "share:set_share",
        "Change how a GPU of this machine is shared, or the part of a task, at once and until it is changed again.",
    ),
    Row("agent", "", "Agents: the machines that tasks run on.", LOOK),
    Row(
        "agent describe",
        "agent:describe",
        "Show all about one agent: its GPUs, what is taken, and by which tasks.",
    ),
    Row("agent list", "agent:list_agents", "List the agents, how each is, and what it has free."),
    Row(
        "agent drain",
        "agent:drain",
        "Take AGENT out of use: no more offers of it, and its tasks end, to be started elsewhere.",
    ),
    Row("agent deactivate", "agent:deactivate", "Make no more offers of AGENT; what runs there continues."),
    Row(
        "agent reactivate",
        "agent:reactivate",
        "Make offers of AGENT again, after `deactivate` or a `drain` that is done.",
    ),
    Row("agent decommission", "agent:decommission", "End all tasks of AGENT and never let it come back."),
    Row("queue", "", "The launch queue: what waits for resources, and what the last offers lacked.", LOOK, "list"),
    Row("queue list", "queue:list_queue", "List what waits to be launched: apps, pods, and runs of jobs."),
    Row(
        "queue summary",
        "queue:summary",
        "Show how many of the last offers met each requirement of APP, GPUs included.",
    ),
    Row(
        "queue details",
        "queue:details",
        "Show the last offer of each agent that APP could not use, and what it lacked.",
    ),
    Row("queue reset", "queue:reset", "Launch APP at once, whatever delay its failures have led to."),
    Row("about", "cluster:about", "Print what Marathon says of itself: version, leader, flags.", OPERATE),
    Row("ping", "cluster:ping", "Check that Marathon answers.", OPERATE),
    Row("leader", "", "The leader: which of several Marathons leads.", OPERATE, "show"),
    Row("leader show", "cluster:show_leader", "Print host and port of the leading Marathon."),
    Row(
        "leader delete",
        "cluster:delete_leader",
        "Have the leading Marathon step down, so that another one leads.",
    ),
    Row("plugin", "", "Plugins: what Marathon was extended with.", OPERATE, "list"),
    Row("plugin list", "cluster:list_plugins", "List the plugins that Marathon runs."),
    Row("service", "", "Services: the frameworks that run tasks, Marathons among them.", OPERATE, "list"),
    Row(
        "service list",
        "service:list_services",
        "List the frameworks that are registered with the master, and what their tasks have.",
    ),
    Row(
        "service shutdown",
        "service:shutdown",
        "End all tasks of SERVICE and forget it: the framework can never come back under its id.",
    ),
    Row("quota", "", "Quotas: how much of the cluster a role may have, GPUs too.", OPERATE, "list"),
    Row(
        "quota list",
        "quota:list_quotas",
        "List what roles have, their limits and their guarantees.",
    ),
    Row(
        "quota set",
        "quota:set_quota",
        "Limit how much of the cluster ROLE may have; what is not named stays as it is.",
    ),
    Row("quota remove", "quota:remove_quota", "Remove the quota of ROLE: its limits and its guarantees."),
    Row("image", "", "Images: the container images that agents keep.", OPERATE),
    Row("image list", "image:list_images", "List the images of all agents."),
    Row(
        "image pull",
        "image:pull",
        "Have every agent pull IMAGE, so that the first container in it starts at once.",
    ),
    Row("image prune", "image:prune", "Remove images that no container uses."),
    Row("config", "", "Profiles: servers and credentials under a name.", OPERATE),
    Row("config set", "config:set_", "Set KEY to VALUE in a profile."),
    Row("config unset", "config:unset", "Remove KEY from a profile, or the whole profile."),
    Row("config use", "config:use", "Use PROFILE from now on."),
    Row("config list", "config:list_profiles", "List the profiles."),
    Row(
        "config show",
        "config:show",
        "Show which settings count now and where each is from; or those of PROFILE.",
    ),
    Row("config keys", "config:keys", "List the keys that can be set, and the variable of each."),
    Row(
        "replay",
        "replay:replay",
        "Replay a history of jobs under placement policies, and compare them.",
        OPERATE,
    ),
    Row("flags", "", "Flags of agents, masters and Marathons for a cluster with GPUs.", OPERATE),
    Row("flags agent", "flags:agent", "Print the flags of an agent that hands out GPUs."),
    Row("flags master", "flags:master", "Print the flags of a master of a cluster with GPUs."),
    Row("flags marathon", "flags:marathon", "Print the flags of a Marathon that runs apps on GPUs."),
    Row("up", "box:up", "Start a box: master, agents and Marathon on this machine.", BOX),
    Row("down", "box:down", "Stop the box and its tasks.", BOX),
    Row("status", "box:status", "Show the box's services and GPUs.", BOX),
    Row("pool", "", "Pools: groups of identical agents of the box, added and removed while it runs.", BOX, "list"),
    Row("pool list", "pool:list_pools", "List the pools of the box."),
    Row("pool create", "pool:create", "Add a pool of identical agents to the running box."),
    Row("pool resize", "pool:resize", "Set the number of agents of a pool."),
    Row("pool delete", "pool:delete", "Drain the agents of a pool, and take them out of the box."),
    Row(
        "doctor",
        "doctor:doctor",
        "Check this machine: driver, NVML, device nodes, cgroups, programs, ports, and the flags of its agents.",
        BOX,
    ),
    Row(
        "docker-args",
        "integrations:docker_args",
        "Print arguments of docker run that give a container GPUs of this machine's agent.",
        BOX,
    ),
    Row("cdi", "", "CDI: devices by name, for podman and other engines.", BOX),
    Row(
        "cdi generate",
        "cdi:generate",
        "Print a CDI specification of the GPUs of this machine's agent: by index, by UUID, and all.",
    ),
    Row("cdi list", "cdi:list_devices", "List the devices that CDI files of this machine define, of any vendor."),
    Row(
        "cdi check",
        "cdi:check",
        "Check the CDI files of this machine: each by the rules of its version, ours against the agent's GPUs.",
    ),
    Row("door", "", "Doors: the programs that other engines call for GPUs.", BOX),
    Row(
        "door install",
        "integrations:install",
        "Install the programs that Docker, nvidia-docker's users or podman call for GPUs.",
    ),
    Row("help", "help:help_", "Show what COMMAND does and takes; without one, which commands there are.", BOX),
    Row(
        "uninstall",
        "uninstall:uninstall",
        "Undo what was set up on this machine: programs of doors, hooks, CDI files, systemd units, completions.",
        BOX,
    ),
    Row("completion", "help:completion", "Print what SHELL needs to complete commands and names.", BOX),
)
