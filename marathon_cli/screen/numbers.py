"""Numbers on the command line: click's own, by the names that messages and help are to have for them."""

from __future__ import annotations

import click


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
