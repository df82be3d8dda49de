"""What a set of files defines, for `apply`: apps, pods, jobs and groups, ours and those made of Kubernetes' objects.

All objects of Kubernetes are read together, so that a ConfigMap of one file is found by what uses it in another. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from marathon_cli.convert import compose, docker, kubernetes
from marathon_cli.convert.model import Notes, Workload
from marathon_cli.convert.shell import Word
from marathon_cli.convert.source import read_documents
from marathon_cli.convert.variables import ReadFile
from marathon_cli.convert.writing import Converted, Form, form_of, write
from marathon_cli.document.check import Source, parse
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
    if kind == "docker" or (kind is None and docker.is_command(text)):
        return _written(docker.read(text, environ, notes, read_file), form, notes)
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
    return _written(docker.read_words(script, environ, notes, read_file), form, notes)


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


_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_ORDER = ("group", "app", "pod", "job")


class Manifest(NamedTuple):
    """One thing that is to be: its kind (app, pod, job or group), what defines it, and where that stands."""

    kind: str
    document: dict[str, Any]
    source: Source


class Manifests(NamedTuple):
    """What files define, in their order, and what is to be known of what was converted."""

    all: list[Manifest]
    notes: list[str]


def read_manifests(sources: Sequence[Source], environ: Mapping[str, str]) -> Manifests:
    """Return what files define. Raises BadInput, with the place, for what is none of these."""
    own: list[Manifest] = []
    foreign: list[Source] = []
    for source in sources:
        for part in _parts(source):
            value = parse(part)
            for index, document in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(document, dict) and "apiVersion" in document and "kind" in document:
                    foreign.append(part)
                    break
                at = _item(part, index, document) if isinstance(value, list) else part
                own.append(Manifest(kind_of(document, at), document, at))
    converted, notes = _converted(foreign, environ) if foreign else ([], [])
    if not own and not converted:
        names = ", ".join(source.name for source in sources)
        raise BadInput("\n".join([f"{names}: there is nothing in it to run", *notes]))
    return Manifests([*own, *converted], notes)


def kind_of(document: object, source: Source) -> str:
    """Return what a document of ours defines. Raises BadInput."""
    keys = document.keys() if isinstance(document, dict) else frozenset()
    if "id" in keys or keys & {"apps", "groups", "pods"}:
        if keys & {"apps", "groups", "pods"}:
            return "group"
        return "job" if "run" in keys else "pod" if "containers" in keys else "app"
    first = len(source.text) - len(source.text.lstrip())
    raise BadInput(
        f"{source.at(first)}: this is no app, pod, job or group (an object with an id) and no object of Kubernetes "
        "(apiVersion, kind)"
    )


def _item(source: Source, index: int, document: object) -> Source:
    """Return an item of a list as a text of its own, whose lines are told from those of the whole."""
    return Source(f"{source.name}: item {index + 1}", json.dumps(document, indent=2))


def _parts(source: Source) -> Iterator[Source]:
    """Yield each document of a file with its lines where they stand in it, without those that are empty."""
    if not source.is_yaml:
        yield source
        return
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(source.text))]
    for start, end in zip(starts, [*starts[1:], len(source.text)], strict=True):
        text = _SEPARATOR.sub("   ", source.text[start:end])
        if any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            # Its name tells that it is YAML also where standard input's does not.
            yield Source(source.name, "\n" * source.text.count("\n", 0, start) + text)
    if not source.text.strip():
        raise BadInput(f"{source.name}: is empty; definitions in JSON or YAML were expected")


def _converted(parts: Sequence[Source], environ: Mapping[str, str]) -> tuple[list[Manifest], list[str]]:
    """Return what the objects of Kubernetes in these texts are here, and the notes on it, each with its own file."""
    begins: list[tuple[int, Source]] = []
    whole, line = "", 0
    for part in parts:
        begins.append((line, part))
        text = part.text if part.text.endswith("\n") else part.text + "\n"
        whole += text + "---\n"
        line += text.count("\n") + 1
    name = "\0"

    def placed(text: str) -> str:
        def there(found: re.Match[str]) -> str:
            at = int(found[1])
            begin, part = max((one for one in begins if one[0] < at), key=lambda one: one[0])
            return f"{part.name}:{at - begin}"

        return re.sub(f"{name}:([0-9]+)", there, text).replace(f"{name}: ", "")

    try:
        done = convert(whole, name, environ=environ, kind="kubernetes")
    except BadInput as error:
        if "there is nothing in it to run" in str(error):
            return [], [placed(text) for text in str(error).splitlines()[1:]]
        raise BadInput(placed(str(error))) from None
    files = ", ".join(dict.fromkeys(part.name for part in parts))
    found = [
        Manifest(form, document, Source(f"{files}: as {form} {document['id']}", json.dumps(document, indent=2)))
        for form, document in done.documents
    ]
    return found, [placed(text) for text in done.notes.lines()]


def removal_order(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return manifests so that what is in a group goes before the group."""
    return sorted(manifests, key=lambda one: _ORDER.index(one.kind), reverse=True)
