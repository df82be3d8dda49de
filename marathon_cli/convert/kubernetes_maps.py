"""ConfigMaps that stand in the same file as what uses them: variables, and files for the command to write."""

from __future__ import annotations

from collections.abc import Iterable

from marathon_cli.convert.model import Container, Notes, Place
from marathon_cli.convert.shell import join
from marathon_cli.convert.source import Section

_MOST_CHARACTERS = 64 * 1024
"""A command is one argument of a shell, which Linux lets be 128 KiB long."""

_UNNAMED = "its image's own program is not known here; name it (command), then the command can write the files"


class ConfigMaps:
    """The ConfigMaps of a file, by name; what nobody takes of them is noted at the end."""

    def __init__(self, objects: Iterable[Section]) -> None:
        self._objects: dict[str, Section] = {}
        for item in objects:
            metadata = item.section("metadata")
            self._objects[metadata.text("name") or ""] = item
            metadata.ignore(*metadata)
        self._read: dict[str, dict[str, str]] = {}

    def get(self, name: str) -> dict[str, str] | None:
        """Return the texts of a ConfigMap; None where the file has none of that name."""
        item = self._objects.get(name)
        if item is None:
            return None
        if name not in self._read:
            self._read[name] = {key: value or "" for key, (value, _) in item.texts_by_key("data").items()}
        return self._read[name]

    def finish(self, notes: Notes) -> None:
        """Note the ConfigMaps that nobody takes, and what of the others is not carried over."""
        for name, item in self._objects.items():
            if name not in self._read:
                notes.lost(item.at("kind"), f"the ConfigMap {name}: nothing in this file takes it")
                continue
            item.ignore("apiVersion", "kind", "immutable")
            item.lose("only texts are carried over", "binaryData")
            item.finish()


def write_files(source: Section, maps: ConfigMaps, container: Container, path: str, below: str | None) -> str | None:
    """Have a container's command write a ConfigMap's files to `path` before its program starts.

    `source` is the volume's `configMap`; `below` names the one file that is mounted (subPath). Return why it cannot
    be; None when it is done.
    """
    name = source.text("name") or ""
    data = maps.get(name)
    source.ignore("optional")
    if data is None:
        source.ignore(*source)
        return f"the ConfigMap {name} is not in this file; files are brought into the sandbox with `fetch`"
    files = {key: (key, source.text("defaultMode")) for key in data}
    if "items" in source:
        files = {}
        for item in source.sections("items"):
            key = item.text("key") or ""
            files[key] = (item.text("path") or key, item.text("mode") or source.text("defaultMode"))
    if not container.entrypoint:
        return _UNNAMED
    lines = []
    for key, (file, mode) in files.items():
        if key not in data:
            return f"the ConfigMap {name} has no {key}"
        if below is None:
            lines.append(_line(f"{path.rstrip('/')}/{file}", data[key], mode))
        elif below == file:
            lines.append(_line(path, data[key], mode))
    if sum(map(len, [*container.before, *lines])) > _MOST_CHARACTERS:
        return "its files are too large for a command; bring them into the sandbox with `fetch`"
    if below is not None and not lines:
        return f"the ConfigMap {name} has no file {below}"
    container.before += lines
    return None


def note_of(place: Place, notes: Notes) -> None:
    """Note what is different about files that the command writes."""
    notes.check(place, "the command writes its files before the program starts; they do not change with the ConfigMap")


def _line(path: str, text: str, mode: str | None) -> str:
    folder = path.rpartition("/")[0] or "/"
    chmod = f" && chmod {_octal(mode)} {join([path])}" if mode is not None else ""
    return f"mkdir -p {join([folder])} && printf %s {join([text])} > {join([path])}{chmod}"


def _octal(mode: str) -> str:
    """Return a file's mode in octal digits: YAML says 0755 or 0o755, JSON 493."""
    if mode.startswith("0"):
        return mode.removeprefix("0o").lstrip("0") or "0"
    return f"{int(mode):o}" if mode.isdigit() else "644"
