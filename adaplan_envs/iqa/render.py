"""A top view of a house as a picture: what is there, what has been seen, where the agent stands."""

from __future__ import annotations

from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from adaplan_envs.iqa.look import House
from adaplan_envs.iqa.memory import State
from adaplan_envs.iqa.scene import FURNITURE, OBJECTS
from adaplan_envs.iqa.sight import STRIDE, cells

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]

SIDE = 28
"""Side of a cell in pixels."""
WALL: Colour = (70, 74, 84)
FLOOR: Colour = (236, 229, 214)
INK: Colour = (30, 30, 34)
AGENT: Colour = (214, 40, 40)
VIEW: Colour = (255, 225, 90)
PLACES: dict[str, Colour] = {
    "cabinet": (166, 124, 82),
    "counter": (176, 190, 197),
    "drawer": (205, 170, 125),
    "fridge": (150, 196, 222),
    "microwave": (149, 156, 176),
    "sink": (128, 203, 196),
    "table": (212, 163, 115),
}
ITEMS: dict[str, Colour] = dict(
    zip(
        OBJECTS,
        [
            (200, 30, 45), (250, 250, 250), (190, 120, 40), (90, 60, 170), (255, 236, 170), (120, 120, 130),
            (60, 70, 90), (70, 160, 60), (30, 110, 200), (240, 150, 190), (130, 90, 50), (20, 160, 160), (250, 90, 40),
        ],
        strict=True,
    )
)  # fmt: skip
_ROWS = (
    "2575565656344436555674647746443455355755722271115255655"
    "444475775565555255526564425563656553421672222555575555255775552555522271247"
)
GLYPHS = {letter: _ROWS[5 * number : 5 * number + 5] for number, letter in enumerate(ascii_lowercase)}
"""Letter -> five rows of three pixels, one octal digit each."""
ZOOM = 2


def draw(house: House, state: State) -> Picture:
    """Return the house from above, uint8 of shape [height, width, 3].

    What has not been seen yet is dim, what is in view is tinted. Objects are discs in the colours of the legend,
    rings while the receptacle that they are in is closed.
    """
    scene = house.scene
    inside = scene.walls | scene.floor
    width = max(cell % STRIDE for cell in cells(inside)) + 1
    height = max(cell // STRIDE for cell in cells(inside)) + 1
    kinds = sorted({item.kind for item in scene.items})
    columns = max(1, width // 4)
    rows = -(-len(kinds) // columns)
    picture = np.full(((height + rows) * SIDE, width * SIDE, 3), 255, np.uint8)
    _fill(picture, scene.floor, FLOOR)
    _fill(picture, scene.walls, WALL)
    for place in scene.places:
        _fill(picture, place.cells, PLACES[place.kind])
    _tint(picture, inside & ~state.memory.seen, INK, 0.45)
    _tint(picture, house.view(state.cell, state.heading).cells, VIEW, 0.35)
    for number, place in enumerate(scene.places):
        x, y = _centre(place.cells)
        opens = FURNITURE[place.kind].opens
        _write(picture, x, y - (6 if opens else 0), place.kind)
        held = [item for item in scene.items if item.place == number]
        for slot, item in enumerate(held):
            if item.cell is not None:
                _disc(picture, *_centre(1 << item.cell), ITEMS[item.kind])
            else:
                at = x + 18 * slot - 9 * (len(held) - 1)
                _disc(picture, at, y + 7, ITEMS[item.kind], hollow=not state.opened >> number & 1)
    _arrow(picture, state.cell, state.heading)
    for slot, kind in enumerate(kinds):
        x, y = slot % columns * 4 * SIDE, (height + slot // columns) * SIDE + SIDE // 2
        _disc(picture, x + 14, y, ITEMS[kind])
        _write(picture, x + 26 + 4 * len(kind), y, kind)
    return picture


def _square(cell: int) -> tuple[slice, slice]:
    x, y = cell % STRIDE * SIDE, cell // STRIDE * SIDE
    return slice(y, y + SIDE), slice(x, x + SIDE)


def _fill(picture: Picture, mask: int, colour: Colour) -> None:
    for cell in cells(mask):
        picture[_square(cell)] = colour


def _tint(picture: Picture, mask: int, colour: Colour, share: float) -> None:
    for cell in cells(mask):
        square = _square(cell)
        picture[square] = (picture[square] * (1 - share) + np.array(colour) * share).astype(np.uint8)


def _centre(mask: int) -> tuple[int, int]:
    numbers = list(cells(mask))
    x = sum(cell % STRIDE for cell in numbers) * SIDE // len(numbers) + SIDE // 2
    return x, sum(cell // STRIDE for cell in numbers) * SIDE // len(numbers) + SIDE // 2


def _disc(picture: Picture, x: int, y: int, colour: Colour, hollow: bool = False) -> None:
    down, right = np.ogrid[: picture.shape[0], : picture.shape[1]]
    distance = (down - y) ** 2 + (right - x) ** 2
    picture[distance <= 8**2] = INK
    picture[(distance <= 7**2) & (distance > (4**2 if hollow else -1))] = colour


def _arrow(picture: Picture, cell: int, heading: int) -> None:
    x, y = _centre(1 << cell)
    down, right = np.ogrid[: picture.shape[0], : picture.shape[1]]
    east, south = ((0, -1), (1, 0), (0, 1), (-1, 0))[heading]
    along = (right - x) * east + (down - y) * south
    aside = np.abs((right - x) * south - (down - y) * east)
    picture[(along >= -9) & (aside * 2 <= 11 - along)] = AGENT


def _write(picture: Picture, x: int, y: int, word: str) -> None:
    """Write `word` with its centre at (x, y)."""
    rows = [[int(bit) for letter in word for bit in f"{int(GLYPHS[letter][row]):03b}0"] for row in range(5)]
    ink = np.kron(np.array(rows, bool), np.ones((ZOOM, ZOOM), bool))
    down, right = np.nonzero(ink)
    down, right = down + y - ink.shape[0] // 2, right + x - ink.shape[1] // 2
    fits = (down >= 0) & (down < picture.shape[0]) & (right >= 0) & (right < picture.shape[1])
    picture[down[fits], right[fits]] = INK
