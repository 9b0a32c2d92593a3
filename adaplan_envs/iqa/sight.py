"""What can be seen from where, on a grid kept as the bits of one integer.

Cell (x, y) is bit ``y * STRIDE + x``; y grows to the south. A set of cells is an ``int``, so that a line of sight is
one ``and`` and a view costs microseconds. Every grid must be enclosed by cells that block sight: nothing then sees
past its border, and shifted bits that leave it do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

STRIDE = 64
CELL = 0.25
"""Side of a cell in metres."""
HEADINGS = ("north", "east", "south", "west")
AHEAD = (-STRIDE, 1, STRIDE, -1)
"""Heading -> difference of the cell number one cell ahead."""
SECTORS = ("left", "front", "right")


class Bearing(NamedTuple):
    """Where a visible cell lies, as the viewer sees it; the order is the order in which things are reported."""

    sector: int
    distance: float
    """Metres between the centres of the cells."""
    angle: float
    """Degrees clockwise from straight ahead."""


class Cone(NamedTuple):
    """The cells that an open view holds in one heading, relative to the viewer; see `Sight`."""

    rays: tuple[tuple[int, int], ...]
    """For each cell of the cone: its bit, and the bits strictly between it and the viewer."""
    mask: int
    bearings: dict[int, Bearing]
    """Difference of cell number -> bearing."""


def cells(mask: int) -> Iterator[int]:
    """Yield the numbers of the cells in `mask`, in rising order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def beside(mask: int) -> int:
    """Return the cells of `mask` and their four neighbours."""
    return mask | mask << 1 | mask >> 1 | mask << STRIDE | mask >> STRIDE


def around(mask: int) -> int:
    """Return the cells of `mask` and their eight neighbours."""
    rows = mask | mask << 1 | mask >> 1
    return rows | rows << STRIDE | rows >> STRIDE


class Sight:
    """A view cone of `view_range` metres and `view_angle` degrees, in the four headings."""

    def __init__(self, view_range: float, view_angle: float) -> None:
        self.reach = int(view_range / CELL + 1e-9)
        """Range in cells."""
        self._centre = self.reach * STRIDE + self.reach
        self._cones = [self._cone(heading, view_angle) for heading in range(4)]

    def _cone(self, heading: int, view_angle: float) -> Cone:
        rays, whole, bearings = [], 0, {}
        for ahead in range(-self.reach, self.reach + 1):
            for side in range(-self.reach, self.reach + 1):
                angle = math.degrees(math.atan2(side, ahead))
                distance = math.hypot(ahead, side)
                if not 0 < distance <= self.reach or abs(angle) > view_angle / 2 + 1e-6:
                    continue
                sector = 0 if angle < -view_angle / 6 else 2 if angle > view_angle / 6 else 1
                offset = _turned(ahead, side, heading)
                bearings[offset] = Bearing(sector, distance * CELL, angle)
                steps = max(abs(ahead), abs(side))
                between = 0
                for i in range(1, steps):
                    between |= 1 << self._centre + _turned(_part(ahead, i, steps), _part(side, i, steps), heading)
                rays.append((1 << self._centre + offset, between))
                whole |= rays[-1][0]
        return Cone(tuple(rays), whole, bearings)

    def visible(self, opaque: int, cell: int, heading: int) -> int:
        """Return the cells seen from `cell`, itself included. A cell of `opaque` is seen, what is behind it is not."""
        shift = self._centre - cell
        local = opaque << shift if shift >= 0 else opaque >> -shift
        seen = 1 << self._centre
        for target, between in self._cones[heading].rays:
            if not local & between:
                seen |= target
        return seen >> shift if shift >= 0 else seen << -shift

    def within(self, cell: int, heading: int) -> int:
        """Return the cells that an open view from `cell` would hold."""
        shift = self._centre - cell
        mask = self._cones[heading].mask
        return mask >> shift if shift >= 0 else mask << -shift

    def nearest(self, mask: int, cell: int, heading: int) -> Bearing:
        """Return the bearing of the cell of `mask` that is nearest to the viewer; all must lie in the cone."""
        bearings = self._cones[heading].bearings
        return min(
            (bearings[other - cell] for other in cells(mask)), key=lambda bearing: (bearing.distance, bearing.angle)
        )


@cache
def sight(view_range: float, view_angle: float) -> Sight:
    """Return the `Sight` of these settings, built once."""
    return Sight(view_range, view_angle)


def _turned(ahead: int, side: int, heading: int) -> int:
    return ahead * AHEAD[heading] + side * AHEAD[(heading + 1) % 4]


def _part(length: int, i: int, steps: int) -> int:
    """Return ``length * i / steps``, rounded half away from zero, so that left and right mirror each other."""
    return int(math.copysign((2 * abs(length) * i + steps) // (2 * steps), length))
