"""The words of other tools that work here: which commands of the registry each stands for, and how its options map.

Pure. Nothing is done here that the registry's commands do not do. Sources: docker's `docker COMMAND --help`, kubectl's
`kubectl COMMAND --help`, DC/OS' dcos-cli and dcos-core-cli, `gcloud compute accelerator-types list --help`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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


DOCKER, KUBECTL, DCOS, GCLOUD = "docker", "kubectl", "dcos", "gcloud"
TOOLS = (DOCKER, KUBECTL, DCOS, GCLOUD)

NOTHING = ""
"""What an option means that asks for what is so anyway."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("app", "apps", "deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"), "app"
    ),
    **dict.fromkeys(("sts", "statefulset", "statefulsets", "ds", "daemonset", "daemonsets"), "app"),
    **dict.fromkeys(("job", "jobs", "job.batch", "jobs.batch", "cj", "cronjob", "cronjobs", "cronjob.batch"), "job"),
    **dict.fromkeys(("po", "pod", "pods", "task", "tasks"), "task"),
    **dict.fromkeys(("no", "node", "nodes", "agent", "agents"), "agent"),
}
"""kubectl's kinds, in all their spellings, and what they are here. Of a Kubernetes pod that is each running task."""


class Alias(NamedTuple):
    """One command under another name.

    `means` is the command of the registry that it is. A mapping says what is done to each kind of thing that a NAME can
    be (app, pod, job, task); commands of a tuple are done one after the other, and {} stands for the name.
    """

    path: str
    means: str | Mapping[str, Sequence[str]]
    tool: str
    also: str = ""
    """Other spellings of its last word."""
    options: Mapping[str, str] = {}
    """What an option is here: the command's own name of it, words ("-o wide"), NOTHING, or a note after !.

    One that takes a value, which is not used, ends with =.
    """
    first: str = ""
    """Words that are put in front of what is typed."""
    whole: str = ""
    """The command that shows one NAME in the forms json, yaml and jsonpath: the thing itself and no list."""
    only_ended: bool = False
    """Whether what still runs is refused without --force."""
    help: str = ""
    """For one whose `means` is a mapping."""
    listed: bool = True
    """Whether help and completion show it; what stands for the absence of a word is not."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its last word, in all spellings."""
        return (self.path.rpartition(" ")[2], *self.also.split())


class Gathering(NamedTuple):
    """A word that stands before others, as `get` before `nodes`; `default` is meant when none follows.

    `otherwise` is meant when the word that follows is none of them.
    """

    path: str
    tool: str
    help: str
    default: str = ""
    otherwise: str = ""


_EVERYWHERE = {"-A": NOTHING, "--all-namespaces": NOTHING}
_LOG = {
    "--tail": "--lines",
    "--previous": "--completed",
    "-p": "--completed",
    "--details": NOTHING,
    "--all-containers": NOTHING,
}
_TIME = "!how long a task has to end is its app's taskKillGracePeriodSeconds; --time does not change it"

GATHERINGS: Sequence[Gathering] = (
    Gathering("get", KUBECTL, "List nodes, jobs, pods or deployments, or show those that are named."),
    Gathering("describe", KUBECTL, "Tell all about a node, job, pod or deployment.", otherwise="thing"),
    Gathering("delete", KUBECTL, "Remove what is named, or what files define (-f).", "files"),
    Gathering("top", KUBECTL, "Show what GPUs, nodes or pods do now.", "gpus", "task"),
    Gathering("accelerator-types", GCLOUD, "The kinds of GPUs.", "list"),
    Gathering("node-pools", GCLOUD, "The commands of `gcloud container node-pools`, for the box.", "list"),
    Gathering("node", DCOS, "The commands of `dcos node`.", "list"),
    Gathering("marathon", DCOS, "The commands of `dcos marathon`."),
)

ALIASES: Sequence[Alias] = (
    Alias(
        "ps",
        "task list",
        DOCKER,
        options={"-a": "--all", "--no-trunc": "-o wide", "--format": "--output"},
    ),
    Alias("logs", "task log", DOCKER, first="--both", options=_LOG),
    Alias("exec", "task exec", DOCKER, options={"--stdin": "--interactive"}),
    Alias(
        "attach", "task attach", DOCKER, options={"-i": NOTHING, "-t": NOTHING, "--stdin": NOTHING, "--tty": NOTHING}
    ),
    Alias("images", "image list", DOCKER, options={"-a": NOTHING, "--all": NOTHING, "--no-trunc": "-o wide"}),
    Alias("pull", "image pull", DOCKER),
    Alias("info", "about", DOCKER),
    Alias(
        "stop",
        {
            "app": ("app stop {}",),
            "pod": ("pod update {} scaling.instances=0 --yes",),
            "job": ("job kill {} --all",),
            "task": ("task kill {} --scale",),
        },
        DOCKER,
        options={"-t=": _TIME, "--time=": _TIME, "--timeout=": _TIME},
        help="Stop apps and pods (no instances), runs of jobs, or tasks, none of which is started again.",
    ),
    Alias(
        "start",
        {
            "app": ("app start {}",),
            "pod": ("pod update {} scaling.instances=1 --yes",),
            "job": ("job run {}",),
        },
        DOCKER,
        help="Start apps and pods that were stopped, or run jobs now.",
    ),
    Alias(
        "kill",
        {
            "app": ("app kill {} --scale",),
            "pod": ("pod update {} scaling.instances=0 --yes",),
            "job": ("job kill {} --all",),
            "task": ("task kill {} --scale",),
        },
        DOCKER,
        help="End the tasks of apps and pods, runs of jobs, or tasks; none is started again.",
    ),
    Alias(
        "rm",
        {
            "app": ("app remove {}",),
            "pod": ("pod remove {}",),
            "job": ("job remove {} --stop-runs",),
            "task": ("task kill {} --scale",),
        },
        DOCKER,
        only_ended=True,
        options={"-v": NOTHING, "--volumes": NOTHING},
        help="Remove apps, pods or jobs; those that run only with --force.",
    ),
    Alias(
        "inspect",
        {
            "app": ("app show {}",),
            "pod": ("pod show {}",),
            "job": ("job show {}",),
            "task": ("task show {}",),
        },
        DOCKER,
        help="Print everything that is known of apps, pods, jobs or tasks.",
    ),
    Alias("get nodes", "agent list", KUBECTL, "node no agents agent", _EVERYWHERE),
    Alias("get pods", "task list", KUBECTL, "pod po tasks task", _EVERYWHERE, whole="task show"),
    Alias(
        "get deployments",
        "app list",
        KUBECTL,
        "deployment deploy apps app statefulsets statefulset sts daemonsets daemonset ds",
        _EVERYWHERE,
        whole="app show",
    ),
    Alias("get jobs", "job list", KUBECTL, "job", _EVERYWHERE, whole="job show"),
    Alias("get cronjobs", "job list", KUBECTL, "cronjob cj", _EVERYWHERE, first="--scheduled", whole="job show"),
    Alias("get images", "image list", KUBECTL, "image"),
    Alias("get gpus", "gpu list", KUBECTL, "gpu"),
    Alias("get quotas", "quota list", KUBECTL, "quota resourcequotas resourcequota"),
    Alias("describe node", "agent describe", KUBECTL, "nodes no agent"),
    Alias(
        "describe job",
        {"job": ("job show {} -o yaml", "job history {}")},
        KUBECTL,
        "jobs cronjob cronjobs cj",
        help="Show the definition of JOB, and its runs.",
    ),
    Alias(
        "describe pod",
        {"task": ("task show {} -o yaml",), "pod": ("pod show {} -o yaml", "why {}")},
        KUBECTL,
        "pods po task",
        help="Show all about a task, or a pod and how it is.",
    ),
    Alias(
        "describe deployment",
        {"app": ("app show {} -o yaml", "why {}")},
        KUBECTL,
        "deployments deploy app statefulset sts daemonset ds",
        help="Show the definition of APP, how it is, and why it does not run where it does not.",
    ),
    Alias(
        "describe thing",
        {
            "app": ("app show {} -o yaml", "why {}"),
            "pod": ("pod show {} -o yaml", "why {}"),
            "job": ("job show {} -o yaml", "job history {}"),
            "task": ("task show {} -o yaml",),
        },
        KUBECTL,
        help="Show all about apps, pods, jobs or tasks.",
        listed=False,
    ),
    Alias("delete files", "remove", KUBECTL, options={"--now": NOTHING}, listed=False),
    Alias(
        "delete deployment",
        {"app": ("app remove {}",)},
        KUBECTL,
        "deployments deploy app statefulset sts daemonset ds",
        options={"--now": NOTHING},
        help="Remove apps and end their tasks.",
    ),
    Alias(
        "delete job",
        {"job": ("job remove {} --stop-runs",)},
        KUBECTL,
        "jobs cronjob cronjobs cj",
        options={"--now": NOTHING},
        help="Remove jobs and end their runs.",
    ),
    Alias(
        "delete pod",
        {"task": ("task kill {}",), "pod": ("pod remove {}",)},
        KUBECTL,
        "pods po task",
        options={"--now": NOTHING},
        help="End tasks, others take their place; or remove pods.",
    ),
    Alias("top gpus", "gpu top", KUBECTL, "gpu"),
    Alias("top nodes", "agent list", KUBECTL, "node no"),
    Alias("top pods", "gpu top", KUBECTL, "pod po"),
    Alias("top task", "task metrics", DOCKER, listed=False),
    Alias("cordon", "agent deactivate", KUBECTL),
    Alias("uncordon", "agent reactivate", KUBECTL),
    Alias(
        "drain",
        "agent drain",
        KUBECTL,
        options={"--ignore-daemonsets": NOTHING, "--delete-emptydir-data": NOTHING, "--force": NOTHING},
    ),
    Alias("cluster-info", "about", KUBECTL),
    Alias("accelerator-types list", "gpu types", GCLOUD),
    *(Alias(f"node-pools {word}", f"pool {word}", GCLOUD) for word in ("list", "create", "delete")),
    *(
        Alias(f"marathon {word}", word, DCOS)
        for word in ("about", "app", "deployment", "group", "leader", "ping", "plugin", "pod", "task")
    ),
    Alias("marathon debug", "queue", DCOS),
    Alias("marathon delay", "queue", DCOS),
    *(
        Alias(f"node {word}", f"agent {word}", DCOS)
        for word in ("list", "drain", "deactivate", "reactivate", "decommission")
    ),
    Alias("node describe", "agent describe", DCOS),
    Alias("job log", "task log", DCOS, "logs", options=_LOG),
    Alias("job queue", "queue list", DCOS),
)


def aliases_below(path: str) -> dict[str, Alias]:
    """Return the aliases one level below a path, by their last word in every spelling."""
    return {name: alias for alias in ALIASES if alias.path.rpartition(" ")[0] == path for name in alias.names}


def gathering(path: str) -> Gathering | None:
    """Return the word that stands before others under a path."""
    return next((one for one in GATHERINGS if one.path == path), None)


def listed_below(path: str) -> Iterator[Alias]:
    """Yield the aliases one level below a path that help and completion show."""
    return (alias for alias in ALIASES if alias.listed and alias.path.rpartition(" ")[0] == path)
