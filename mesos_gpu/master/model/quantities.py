"""Amounts of scalar resources by name, in thousandths; which agent, role and volume they are of does not count.

Source: Mesos include/mesos/resource_quantities.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Quantities: TypeAlias = Mapping[str, int]
