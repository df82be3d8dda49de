"""The first stage's refusals: Marathon's code for machines, a sentence and advice for people."""

from __future__ import annotations

import difflib
import json
import math
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_ids import id_problem

_TYPE_CODES = {
    "string": ("error.expected.jsstring", "text in quotes"),
    "number": ("error.expected.jsnumber", "a number"),
    "integer": ("error.expected.jsnumber", "a whole number"),
    "boolean": ("error.expected.jsboolean", "true or false"),
    "array": ("error.expected.jsarray", "a list in [ ]"),
    "object": ("error.expected.jsobject", "an object in { }"),
}
_BOUNDS = {
    "minimum": ("error.min", "must be {} or more"),
    "maximum": ("error.max", "must be {} or less"),
    "minLength": ("error.minLength", "must have {} or more characters"),
    "maxLength": ("error.maxLength", "must have {} characters at most"),
    "minItems": ("error.minLength", "must have {} or more entries"),
    "maxItems": ("error.maxLength", "must have {} entries at most"),
}


def shape_problem(path: str, keyword: str, wanted: Any, found: Any) -> Problem:
    """Return what to say when `found` at `path` breaks the schema's `keyword: wanted`."""
    name = path.rpartition("/")[2] or "the document"
    if keyword == "required":
        return Problem(path, "error.path.missing", f"`{wanted}` is missing", f"add `{wanted}`")
    if keyword == "type":
        return _type_problem(path, name, wanted if isinstance(wanted, str) else wanted[0], found)
    if keyword == "enum":
        near = difflib.get_close_matches(str(found).upper(), [str(item).upper() for item in wanted], n=1)
        choices = ", ".join(f"`{item}`" for item in wanted)
        hint = next((f"did you mean `{item}`?" for item in wanted if [str(item).upper()] == near), None)
        sentence = f"`{name}` must be one of {choices}, but is {show(found)}"
        return Problem(path, "error.unknown.enum.literal", sentence, hint)
    if keyword == "pattern":
        if path == "/id" or path.startswith("/dependencies("):
            return id_problem(path, found)
        return Problem(path, "error.pattern", f"`{name}` cannot be {show(found)}")
    if keyword in _BOUNDS:
        code, sentence = _BOUNDS[keyword]
        return Problem(path, code, f"`{name}` {sentence.format(wanted)}, but is {show(found)}")
    return Problem(path, f"error.{keyword}", f"`{name}` breaks the rule {keyword}: {show(wanted)}")


def show(value: Any) -> str:
    """Return `value` as JSON, cut to a length that fits in a sentence."""
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"the text {text}" if isinstance(value, str) else text


def _type_problem(path: str, name: str, wanted: str, found: Any) -> Problem:
    code, kind = _TYPE_CODES[wanted]
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    advice = None
    if wanted == "integer" and is_number:
        code = "error.expected.int"
        if name == "gpus" and 0 < found < 1024:
            whole = math.ceil(found)
            advice = f"write {whole} for whole GPUs; to share a GPU, set `gpuShare` or use `mesos-gpu run --gpu-mem`"
        elif abs(found) >= 2**31:
            kind = "a whole number below 2147483648"
    elif wanted in ("integer", "number") and isinstance(found, str) and _is_number(found):
        advice = f"write {found.strip()} without quotes"
    elif wanted == "string" and (is_number or isinstance(found, bool)):
        advice = f'write "{json.dumps(found)}" in quotes'
    elif wanted == "boolean" and str(found).lower() in ("true", "false"):
        advice = f"write {str(found).lower()} without quotes"
    elif wanted == "array" and isinstance(found, str):
        advice = f"write [{json.dumps(found, ensure_ascii=False)}]"
    return Problem(path, code, f"`{name}` must be {kind}, but is {show(found)}", advice)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
