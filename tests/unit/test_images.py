"""What counts as an image, and where its channels are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from rillflow.images import as_image, image_in


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 84, 84), ("first", 84, 84, 4)),
        ((84, 84, 4), ("last", 84, 84, 4)),
        ((457, 120, 3), ("last", 457, 120, 3)),
        ((3, 210, 160), ("first", 210, 160, 3)),
        ((10, 10, 10), ("last", 10, 10, 10)),
        ((8, 8, 111), ("last", 8, 8, 111)),  # a chess board with its history
        ((17, 9, 9), ("first", 9, 9, 17)),
        ((12, 40, 40), ("first", 40, 40, 12)),
        ((60, 80), ("none", 60, 80, 1)),
    ],
)
def test_two_sides_of_one_length_are_no_channels(shape: Any, expected: Any) -> None:
    image = as_image(shape)
    assert image is not None
    assert (image.order, image.height, image.width, image.channels) == expected


def test_where_channels_are_can_be_said() -> None:
    assert str(as_image((6, 7, 42))) == "7x42x6", "the shorter of the outer axes, if nobody says"
    assert str(as_image((6, 7, 42), "last")) == "6x7x42"


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (Box(0, 1, (10, 10, 4), np.bool_), True),
        (Box(0, 255, (7, 7, 3), np.uint8), True),
        (Box(0, 255, (16, 20), np.uint8), True),
        (Box(-np.inf, np.inf, (3, 9, 9), np.float32), True),
        (Box(0, 1, (3, 3, 2), np.float32), False),
        (Box(0, 1, (4, 4), np.uint8), False),
        (Box(0, 1, (10, 10), np.float32), False),  # a matrix
        (Box(0, 255, (2, 9, 9, 3), np.uint8), False),
        (Box(0, 255, (128,), np.uint8), False),
    ],
    ids=str,
)
def test_tables_are_told_from_images(space: Any, image: bool) -> None:
    assert (image_in(space) is not None) == image
