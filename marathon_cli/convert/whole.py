"""One text in, documents and notes out: recognises what a text is and has the right reader read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from marathon_cli.convert import compose, docker_run, kubernetes
from marathon_cli.convert.env_files import ReadFile
from marathon_cli.convert.model import Notes, Workload
from marathon_cli.convert.shell import Word
from marathon_cli.convert.source import read_documents
from marathon_cli.convert.writing import Converted, Form, form_of, write
from mesos_gpu.errors import BadInput

Kind = Literal["kubernetes", "compose", "docker"]
KINDS: Sequence[Kind] = ("kubernetes", "compose", "docker")


class Conversion(NamedTuple):
    """What a source became, and what is to be known of it."""

    documents: list[Converted]
    notes: Notes


def convert(
    text: str,
    name: str,
    *,
    environ: Mapping[str, str],
    form: Form | None = None,
    kind: Kind | None = None,
    read_file: ReadFile | None = None,
) -> Conversion:
    """Convert a Kubernetes or Compose file, or a script of docker commands; `kind` is told by its contents.

    `environ` are the variables that Compose and NV_GPU may use, `read_file` returns the files of variables that the
    text names; without it, that they are lost is noted. Raises BadInput, with the line.
    """
    notes = Notes(name)
    if not text.strip():
        raise BadInput(f"{name}: is empty; a Kubernetes or Compose file, or a docker command line, was expected")
    if kind == "docker" or (kind is None and docker_run.is_command(text)):
        return _written(docker_run.read(text, environ, notes, read_file), form, notes)
    documents = list(read_documents(text, notes))
    if kind == "compose" or (kind is None and any(compose.is_compose(document) for document in documents)):
        found = [workload for document in documents for workload in compose.read(document, environ, notes, read_file)]
    elif kind == "kubernetes" or all(kubernetes.is_kubernetes(document) for document in documents):
        found = kubernetes.read(documents, notes)
    else:
        strange = next(document for document in documents if not kubernetes.is_kubernetes(document))
        raise BadInput(
            f"{name}:{strange.place.line}: this is no Kubernetes object (apiVersion, kind), no Compose file (services) "
            "and no docker command line"
        )
    return _written(found, form, notes)


def convert_words(
    words: Sequence[str], *, environ: Mapping[str, str], form: Form | None = None, read_file: ReadFile | None = None
) -> Conversion:
    """Convert one docker command, given as the words that a shell has made of it. Raises BadInput."""
    notes = Notes("command line")
    script = [[Word(text, 1) for text in words]]
    return _written(docker_run.read_words(script, environ, notes, read_file), form, notes)


def _written(workloads: Sequence[Workload], form: Form | None, notes: Notes) -> Conversion:
    apps = {workload.name for workload in workloads if (form or form_of(workload)) == "app"}
    documents = []
    for workload in _ordered(workloads):
        for other in workload.after:
            if other not in apps:
                notes.lost(workload.at, f"that it comes after {other}, which is not an app of this file")
        workload.after = [other for other in workload.after if other in apps]
        documents.append(write(workload, form, notes))
    if not documents:
        said = "\n".join(notes.lines())
        raise BadInput(f"{notes.name}: there is nothing in it to run{chr(10) if said else ''}{said}")
    return Conversion(documents, notes)


def _ordered(workloads: Sequence[Workload]) -> list[Workload]:
    """Return workloads so that each comes behind those it depends on, else in their order."""
    left, ordered = list(workloads), list[Workload]()
    while left:
        waiting = {workload.name for workload in left}
        ready = [workload for workload in left if not waiting & set(workload.after) - {workload.name}]
        # In a circle, someone has to be first; Marathon says what is wrong with it.
        ordered += ready or left[:1]
        left = [workload for workload in left if workload not in ordered]
    return ordered
