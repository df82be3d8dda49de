"""Which whole GPUs instances have, or would get, and whether these share NVLink: values, and words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_TOLD = 8


@dataclass(frozen=True, slots=True)
class Given:
    """The whole GPUs of an instance on a machine, by index. `nvlink`: None for one alone, and where it is not known."""

    host: str
    indices: tuple[int, ...]
    nvlink: bool | None = None

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"host": self.host, "indices": list(self.indices), "nvlink": self.nvlink}


def read_given(document: Mapping[str, Any]) -> Given:
    """Return what `document` returned. Raises KeyError, TypeError or ValueError when it is none."""
    nvlink = document.get("nvlink")
    return Given(str(document["host"]), tuple(map(int, document["indices"])), None if nvlink is None else bool(nvlink))


def links_words(given: Iterable[Given], of: str = "instances") -> str:
    """Return in a sentence without its full stop whose GPUs share NVLink; "" where that is known of none.

    `of` is what they are called where there are too many to name.
    """
    told = [
        f"{'+'.join(map(str, one.indices))} on {one.host} {'share' if one.nvlink else 'do not all share'} NVLink"
        for one in given
        if one.nvlink is not None
    ]
    more = f" and so on, of {len(told)} {of}" if len(told) > _MOST_TOLD else ""
    return f"GPUs {'; '.join(told[:_MOST_TOLD])}{more}" if told else ""


def linked(app: Mapping[str, Any]) -> str:
    """Return a sentence on the GPUs of an app's tasks, or of a pod's instances, a space before it; "" if not known.

    The containers of an instance share its GPUs.
    """
    tasks, instances = app.get("tasks") or [], app.get("podInstances") or []
    there = [(task.get("host"), task.get("gpuCards")) for task in tasks]
    there += [(one.get("agentHostname"), one.get("gpuCards")) for one in instances]
    words = links_words(
        (read_given({"host": host, **cards}) for host, cards in there if cards), "instances" if instances else "tasks"
    )
    return f" {words}." if words else ""
