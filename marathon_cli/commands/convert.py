"""`mesos-gpu convert`: what runs elsewhere, as apps, pods and jobs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options
from marathon_cli.convert.docker import is_command
from marathon_cli.convert.writing import Converted
from marathon_cli.document.check import read_source
from marathon_cli.screen.output import Table, columns, say
from mesos_gpu.errors import BadInput

if TYPE_CHECKING:
    from marathon_cli.convert.manifests import Conversion


_COLUMNS = columns("KIND", "ID", "GPUS", "CPUS", "MEM", numbers=("GPUS", "CPUS", "MEM"))
_COMMAND = re.compile(r"(.*/)?(docker|nvidia-docker|podman)|\w+=.*|sudo")


class _DockerWords(click.Command):
    """Its options end where a docker command begins; around a FILE they may stand anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options."""
        ctx.ignore_unknown_options = any(_COMMAND.fullmatch(word) for word in args)
        ctx.allow_interspersed_args = not ctx.ignore_unknown_options
        return super().parse_args(ctx, args)


@click.command(cls=_DockerWords)
@click.argument("source", metavar="FILE | docker run ...", nargs=-1, type=click.UNPROCESSED)
@click.option("--to", "form", type=click.Choice(["app", "pod", "job"]), help="What to make; default: what fits best.")
@click.option(
    "--from",
    "kind",
    type=click.Choice(["kubernetes", "compose", "docker"]),
    help="What FILE is; default: recognised by its contents.",
)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), help="Write each document to a file there.")
@click.option("--strict", is_flag=True, help="Refuse when something cannot be carried over.")
@output_options(default="json")
@debug_option
@pass_console
def convert(console: Console, source: tuple[str, ...], form: Any, kind: Any, into: Path | None, strict: bool) -> None:
    """Turn Kubernetes and Compose files and docker run into apps, pods and jobs.

    What cannot be carried over is said on stderr, with line and key. FILE may be - for standard input. Options
    stand before a docker command. GPUs are understood as nvidia.com/gpu, --gpus, NV_GPU, --runtime=nvidia, --device.

    \b
      mesos-gpu convert deployment.yaml | mesos-gpu app add
      mesos-gpu convert -o yaml docker run --gpus 2 --rm nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi
      mesos-gpu convert --into apps compose.yaml
    """
    from marathon_cli.convert.manifests import convert as convert_text
    from marathon_cli.convert.manifests import convert_words

    if not source and sys.stdin.isatty():
        raise click.UsageError("give a FILE or a docker command, or pipe one in")
    if source and _COMMAND.fullmatch(source[0]) and not Path(source[0]).is_file():
        done = convert_words(source, environ=os.environ, form=form, read_file=_beside(Path()))
    elif len(source) == 1 and " " in source[0] and not Path(source[0]).is_file() and is_command(source[0]):
        # The whole command in quotes.
        done = convert_text(
            source[0], "command line", environ=os.environ, form=form, kind="docker", read_file=_beside(Path())
        )
    elif len(source) > 1:
        raise click.UsageError(f"one FILE at a time, not also {' '.join(source[1:])}")
    else:
        text = read_source(source[0] if source else "-")
        is_file = bool(source) and source[0] != "-" and Path(source[0]).is_file()
        beside = _beside(Path(source[0]).parent) if is_file else None
        done = convert_text(text.text, text.name, environ=os.environ, form=form, kind=kind, read_file=beside)
    for line in done.notes.lines():
        say(line)
    if strict and (lost := sum(note.lost for note in done.notes.all)):
        raise BadInput(f"{lost} thing{'s' if lost > 1 else ''} cannot be carried over; nothing was written")
    if into is not None:
        _write(done, into)
        return
    documents = [item.document for item in done.documents]
    value = documents[0] if len(documents) == 1 else documents
    console.show(
        value,
        table=lambda: Table(_COLUMNS, [_row(item) for item in done.documents]),
        names=[str(document["id"]) for document in documents],
    )


def _beside(folder: Path) -> Callable[[str], str]:
    """Return what reads the files that a source names, relative to its folder."""
    return lambda path: read_source(str(folder / Path(path).expanduser())).text


def _write(done: Conversion, folder: Path) -> None:
    """Write each document to a file of its own, and say with which command it runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for form, document in done.documents:
            path = folder / f"{str(document['id']).strip('/').replace('/', '-')}.{form}.json"
            path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            click.echo(f"mesos-gpu {form} add {path}")
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be written: {error.strerror}") from None


def _row(item: Converted) -> list[object]:
    form, document = item
    parts = [part["resources"] for part in document["containers"]] if form == "pod" else [document.get("run", document)]
    return [form, document["id"], *(sum(part.get(key, 0) for part in parts) for key in ("gpus", "cpus", "mem"))]
