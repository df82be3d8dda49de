"""Numbers on the command line: click's own, by the names that messages and help are to have for them."""

from __future__ import annotations

import re
from typing import Any

import click


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class WholeGpus(Whole):
    """A number of GPUs, of which none is given in parts; who asks for a part is told how that is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Raises click.BadParameter."""
        if re.fullmatch(r"\d*\.\d+", str(value)):
            self.fail(
                f"{str(value)!r} is no whole number; a part of a GPU that others share is asked for by its memory, "
                "for example `--gpu-mem 6GiB`.",
                param,
                ctx,
            )
        return int(super().convert(value, param, ctx))


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
