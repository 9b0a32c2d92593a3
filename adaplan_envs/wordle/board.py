"""The board as a picture, in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adaplan_envs.wordle.words import LENGTH

_TILE, _GAP, _ZOOM = 48, 4, 4
_COLOURS = {"g": (106, 170, 100), "y": (201, 180, 88), "b": (120, 124, 126), " ": (32, 33, 35)}
_PAPER = (18, 18, 19)

# Capital letters on a grid of 5 x 7, a row of five pixels in two hexadecimal digits.
_FONT = {
    "a": "0e11111f111111",
    "b": "1e11111e11111e",
    "c": "0e11101010110e",
    "d": "1e11111111111e",
    "e": "1f10101e10101f",
    "f": "1f10101e101010",
    "g": "0e11101711110f",
    "h": "1111111f111111",
    "i": "0e04040404040e",
    "j": "0702020202120c",
    "k": "11121418141211",
    "l": "1010101010101f",
    "m": "111b1515111111",
    "n": "11191513111111",
    "o": "0e11111111110e",
    "p": "1e11111e101010",
    "q": "0e11111115120d",
    "r": "1e11111e141211",
    "s": "0f10100e01011e",
    "t": "1f040404040404",
    "u": "1111111111110e",
    "v": "11111111110a04",
    "w": "1111111515150a",
    "x": "11110a040a1111",
    "y": "11110a04040404",
    "z": "1f01020408101f",
}


def draw(history: Sequence[tuple[str, str]], rows: int) -> NDArray[np.uint8]:
    """Draw the guesses and their marks on a board with `rows` rows; uint8 of shape [height, width, 3]."""
    pitch = _TILE + _GAP
    picture = np.full((rows * pitch + _GAP, LENGTH * pitch + _GAP, 3), _PAPER, np.uint8)
    padding = [(" " * LENGTH, " " * LENGTH)] * (rows - len(history))
    for row, (guess, marks) in enumerate([*history, *padding]):
        for column, (letter, mark) in enumerate(zip(guess, marks, strict=True)):
            top, left = _GAP + row * pitch, _GAP + column * pitch
            tile = picture[top : top + _TILE, left : left + _TILE]
            tile[:] = _COLOURS[mark]
            if letter in _FONT:
                shape = _glyph(letter)
                y, x = (_TILE - shape.shape[0]) // 2, (_TILE - shape.shape[1]) // 2
                tile[y : y + shape.shape[0], x : x + shape.shape[1]][shape] = 255
    return picture


def _glyph(letter: str) -> NDArray[np.bool_]:
    rows = np.frombuffer(bytes.fromhex(_FONT[letter]), np.uint8)
    pixels = (rows[:, None] >> np.arange(4, -1, -1)) & 1
    return pixels.astype(bool).repeat(_ZOOM, axis=0).repeat(_ZOOM, axis=1)
