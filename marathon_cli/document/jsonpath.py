"""JSONPath templates, as `kubectl -o jsonpath=` takes them: text with paths in braces, over one JSON document. Pure.

    {.id}  {[*].id}  {.tasks[0].host}  {.env['A.B']}  {..gpus}  {[?(@.gpus>0)].id}  {.list[1:3]}
    {range [*]}{.id}{"\\t"}{.gpus}{"\\n"}{end}

A template without braces is one path. Paths that lead nowhere give nothing. Source: kubectl's JSONPath reference.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadInput

_NAME = re.compile(r"(?:\\.|[^\s.\[\]{}()'\",:*@$?=<>!\\])+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d+))?")
_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class _Path:
    """Steps from the document's root, or from the present item of a `range`."""

    steps: tuple[Step, ...]
    from_root: bool

    def of(self, root: Any, current: Any) -> list[Any]:
        found = [root if self.from_root else current]
        for step in self.steps:
            found = [value for holder in found for value in step(holder)]
        return found


@dataclass(frozen=True, slots=True)
class _Range:
    """The parts between `{range ...}` and `{end}`, once for each value."""

    over: _Path
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been understood."""

    parts: tuple[str | _Path | _Range, ...]

    def render(self, document: Any) -> str:
        """Return the text that the template makes of a document."""
        return "".join(_render(self.parts, document, document))


def parse_template(text: str) -> Template:
    """Return the template that `text` means. Raises BadInput that points at what is wrong."""
    if "{" not in text:
        text = f"{{{text}}}"
    return Template(_Parser(text).template())


def _render(parts: Sequence[Any], root: Any, current: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Path):
            yield " ".join(_text(value) for value in part.of(root, current))
        else:
            for value in part.over.of(root, current):
                yield from _render(part.parts, root, value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Parser:
    """Reads a template from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def template(self) -> tuple[Any, ...]:
        stack: list[tuple[_Path | None, list[Any]]] = [(None, [])]
        while self._at < len(self._text):
            literal, brace, _ = self._text[self._at :].partition("{")
            if literal:
                stack[-1][1].append(literal)
            self._at += len(literal) + len(brace)
            if not brace:
                break
            self._space()
            if self._word("range"):
                stack.append((self._path(), []))
            elif self._word("end"):
                over, parts = stack.pop()
                if over is None:
                    raise self._wrong("`end` without a `range` before it")
                stack[-1][1].append(_Range(over, tuple(parts)))
            elif (quoted := self._quoted()) is not None:
                stack[-1][1].append(quoted)
            else:
                stack[-1][1].append(self._path())
            self._space()
            self._need("}")
        if len(stack) > 1:
            raise self._wrong("this `range` has no {end}")
        return tuple(stack[0][1])

    def _path(self) -> _Path:
        self._space()
        steps: list[Step] = []
        from_root = self._take("$")
        if not from_root and not self._take("@") and self._peek() not in (".", "["):
            steps.append(_key(self._name()))
        while True:
            if self._take(".."):
                steps.append(_descend)
                steps += [] if self._peek() == "[" else [_each if self._take("*") else _key(self._name())]
            elif self._take("."):
                if self._peek() not in ("[", "}", " ", ")", ""):
                    steps.append(_each if self._take("*") else _key(self._name()))
            elif self._take("["):
                steps.append(self._bracket())
            else:
                return _Path(tuple(steps), from_root)

    def _bracket(self) -> Step:
        self._space()
        if self._take("?("):
            step = self._filter()
            self._need(")")
        elif self._take("*"):
            step = _each
        else:
            choices = [self._choice()]
            while self._take(","):
                self._space()
                choices.append(self._choice())
            step = choices[0] if len(choices) == 1 else _union(choices)
        self._space()
        self._need("]")
        return step

    def _choice(self) -> Step:
        if (quoted := self._quoted()) is not None:
            return _key(quoted)
        if found := self._match(_SLICE):
            begin, end, stride = (int(number) if number else None for number in found.groups())
            if stride == 0:
                raise self._wrong("a slice's step must not be 0")
            return _sliced(slice(begin, end, stride))
        if found := self._match(_INTEGER):
            return _item(int(found.group()))
        raise self._wrong("a number, a slice, a quoted key, * or ?( was expected")

    def _filter(self) -> Step:
        left = self._operand()
        self._space()
        for sign, compare in _COMPARE.items():
            if self._take(sign):
                return _where(left, compare, self._operand())
        return _where(left, None, None)

    def _operand(self) -> Any:
        self._space()
        if (quoted := self._quoted()) is not None:
            return quoted
        if found := self._match(_NUMBER):
            return float(found.group())
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._word(word):
                return value
        return self._path()

    def _quoted(self) -> str | None:
        if (found := self._match(_QUOTED)) is None:
            return None
        inner = found.group(1) if found.group(1) is not None else found.group(2)
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape.group(1), escape.group(1)), inner)

    def _name(self) -> str:
        if (found := self._match(_NAME)) is None:
            raise self._wrong("a key was expected")
        return re.sub(r"\\(.)", r"\1", found.group())

    def _word(self, word: str) -> bool:
        end = self._at + len(word)
        if self._text.startswith(word, self._at) and self._text[end : end + 1] in ("", " ", "}", ")", ".", "["):
            self._at = end
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise self._wrong(f"{sign} was expected")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _space(self) -> None:
        while self._peek() == " ":
            self._at += 1

    def _wrong(self, sentence: str) -> BadInput:
        return BadInput(f"not a JSONPath template: {sentence}\n    {self._text}\n    {' ' * self._at}^")


def _key(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _sliced(part: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _union(choices: Sequence[Step]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for choice in choices:
            yield from choice(value)

    return step


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for child in _each(value):
        yield from _descend(child)


def _where(left: Any, compare: Callable[[Any, Any], bool] | None, right: Any) -> Step:
    def values(operand: Any, item: Any) -> list[Any]:
        return operand.of(item, item) if isinstance(operand, _Path) else [operand]

    def holds(item: Any) -> bool:
        if compare is None:
            return bool(values(left, item))
        return any(_compare(compare, a, b) for a in values(left, item) for b in values(right, item))

    def step(value: Any) -> Iterator[Any]:
        yield from (item for item in _each(value) if holds(item))

    return step


def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return compare(left, right)
    except TypeError:  # of different kinds: neither less nor more
        return False
