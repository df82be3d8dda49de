"""Reads a YAML (or JSON) text key by key; what was never read is noted at the end as lost, with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from marathon_cli.convert.model import Notes, Place
from marathon_cli.document import positions
from mesos_gpu.errors import BadInput

_T = TypeVar("_T")
_NO_COUNTERPART = "there is no counterpart"
_NULL = "tag:yaml.org,2002:null"


class Section:
    """An object of the source. Reading a key takes it; `finish` notes those that nobody took.

    A key that is not there reads as None, or empty. Raises BadInput where a value has another shape than is read.
    """

    def __init__(self, node: yaml.Node | None, place: Place, notes: Notes) -> None:
        self.place, self.notes = place, notes
        self._nodes: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._children: list[Section] = []
        if node is None or node.tag == _NULL:
            return
        if not isinstance(node, yaml.MappingNode):
            raise notes.bad(place, "an object of keys and values was expected")
        for key, value in _pairs(node, notes):
            self._nodes[key.value] = value
            self._lines[key.value] = key.start_mark.line + 1
            self._open[key.value] = _NO_COUNTERPART

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, without taking them."""
        return iter(list(self._nodes))

    def at(self, key: str) -> Place:
        """Return the place of a key; of this object when it is not there."""
        path = f"{self.place.path}.{key}" if self.place.path else key
        return Place(self._lines.get(key, self.place.line), path)

    def ignore(self, *keys: str) -> None:
        """Take keys that mean nothing elsewhere, or what is so anyway."""
        for key in keys:
            self._open.pop(key, None)

    def lose(self, why: str, *keys: str) -> None:
        """Note for each of the keys that is there why it is not carried over."""
        for key in keys:
            if self._open.pop(key, None) is not None:
                self.notes.lost(self.at(key), why)

    def is_list(self, key: str) -> bool:
        """Return whether the value is a list."""
        return isinstance(self._nodes.get(key), yaml.SequenceNode)

    def is_object(self, key: str) -> bool:
        """Return whether the value is an object."""
        return isinstance(self._nodes.get(key), yaml.MappingNode)

    def text(self, key: str) -> str | None:
        """Return a text, number or truth value as it is written."""
        node = self._take(key)
        return None if node is None else self._scalar(node, self.at(key))

    def read(self, key: str, reader: Callable[[str], _T]) -> _T | None:
        """Return what `reader` makes of a text; its ValueError refuses the source."""
        text = self.text(key)
        if text is None:
            return None
        try:
            return reader(text)
        except ValueError as error:
            raise self.notes.bad(self.at(key), str(error)) from None

    def integer(self, key: str) -> int | None:
        """Return a whole number, 0 or more."""
        return self.read(key, _integer)

    def flag(self, key: str) -> bool:
        """Return a truth value; False when it is not there."""
        return (self.text(key) or "").lower() in ("true", "yes", "on")

    def section(self, key: str) -> Section:
        """Return an object; an empty one when it is not there."""
        child = Section(self._take(key), self.at(key), self.notes)
        self._children.append(child)
        return child

    def sections(self, key: str) -> list[Section]:
        """Return the objects of a list."""
        children = [Section(node, place, self.notes) for node, place in self._items(key)]
        self._children += children
        return children

    def texts(self, key: str) -> list[tuple[str, Place]]:
        """Return the texts of a list with their places."""
        return [(self._scalar(node, place) or "", place) for node, place in self._items(key)]

    def words(self, key: str) -> list[str] | None:
        """Return the texts of a list; None when it is not there."""
        return [text for text, _ in self.texts(key)] if key in self else None

    def items(self, key: str) -> list[Section | tuple[str, Place]]:
        """Return a list whose items are texts or objects."""
        found: list[Section | tuple[str, Place]] = []
        for node, place in self._items(key):
            if isinstance(node, yaml.MappingNode):
                child = Section(node, place, self.notes)
                self._children.append(child)
                found.append(child)
            else:
                found.append((self._scalar(node, place) or "", place))
        return found

    def texts_by_key(self, key: str) -> dict[str, tuple[str | None, Place]]:
        """Return an object whose values are texts; an empty value is None."""
        child = self.section(key)
        return {name: (child.text(name), child.at(name)) for name in child}

    def finish(self, *, below: bool = True) -> None:
        """Note what nobody took, here and `below`."""
        for key, why in self._open.items():
            self.notes.lost(self.at(key), why)
        self._open.clear()
        for child in self._children if below else ():
            child.finish()

    def _take(self, key: str) -> yaml.Node | None:
        self._open.pop(key, None)
        node = self._nodes.get(key)
        return None if node is None or node.tag == _NULL else node

    def _items(self, key: str) -> list[tuple[yaml.Node, Place]]:
        node = self._take(key)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.notes.bad(self.at(key), "a list was expected")
        path = self.at(key).path
        return [(item, Place(item.start_mark.line + 1, f"{path}[{i}]")) for i, item in enumerate(node.value)]

    def _scalar(self, node: yaml.Node, place: Place) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            raise self.notes.bad(place, "a text or number was expected")
        return None if node.tag == _NULL else str(node.value)


def read_documents(text: str, notes: Notes) -> Iterator[Section]:
    """Yield each document of a YAML or JSON text that is not empty. Raises BadInput with line and column."""
    try:
        for node in yaml.compose_all(text, yaml.SafeLoader):
            if node is not None and node.tag != _NULL:
                yield Section(node, Place(node.start_mark.line + 1, ""), notes)
    except yaml.MarkedYAMLError as error:
        if (at := positions.structural(text)) is not None:
            line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
            raise BadInput(f"{notes.name}:{line}:{column}: not YAML: {positions.sentence(text[at])}") from None
        mark = error.problem_mark or error.context_mark
        where = f"{notes.name}:{mark.line + 1}:{mark.column + 1}" if mark else notes.name
        raise BadInput(f"{where}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"{notes.name}: not YAML that can be read: {error}") from None


def _pairs(node: yaml.MappingNode, notes: Notes) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys and values of an object, with those that `<<` merges into it."""
    try:
        SafeConstructor().flatten_mapping(node)
    except ConstructorError as error:
        raise notes.bad(Place(node.start_mark.line + 1, "<<"), str(error.problem)) from None
    pairs: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
    own: set[str] = set()
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise notes.bad(Place(line, ""), "a key must be a text")
        # What is merged comes from elsewhere in the text, stands in front, and what the object says itself counts.
        if node.start_mark.index <= key.start_mark.index < node.end_mark.index:
            if (
                key.value
                and (char := key.value[0] if key.value[0] in positions.HIDDEN else key.value[-1]) in positions.HIDDEN
            ):
                raise notes.bad(Place(line, key.value.strip().strip(char)), positions.sentence(char))
            if key.value in own:
                raise notes.bad(Place(line, key.value), "this key is there twice; keep one of them")
            own.add(key.value)
        pairs[key.value] = (key, value)
    return iter(pairs.values())


def _integer(text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{text!r} is not a whole number, 0 or more")
    return int(text)
