"""What is done to observations before a policy sees them: size, colour, and how many at once.

    Preprocessing(resize=84, grayscale=True, frame_stack=4)

A value that belongs to the settings of a run: whoever makes environments for a policy, to train, to
evaluate, to record, gives it to `make_envs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rillflow.envs.frame_stack import FrameStack
from rillflow.envs.image_change import ImageChange, with_parts_changed
from rillflow.envs.layout import Layout, layout_of
from rillflow.envs.spaces import Observations
from rillflow.envs.stacked_parts import StackedParts
from rillflow.errors import BuildError
from rillflow.images import SMALLEST_SIDE, Channels, Image, as_image, image_in

if TYPE_CHECKING:
    from gymnasium.spaces import Box

Resize: TypeAlias = int | tuple[int, ...] | Literal["auto"] | None

MOST_PIXELS = 128
"""a side that an image may have before "auto" shrinks it"""


@dataclass(frozen=True)
class Preprocessing:
    """How observations are changed; as it is made without arguments, not at all."""

    resize: Resize = None
    """pixels a side, or (height, width); "auto": images above 128 pixels a side are shrunk"""
    grayscale: bool = False
    """whether three colours become one"""
    frame_stack: int = 1
    """how many observations, the newest and those before it, are seen as one"""
    channels: Channels = "auto"
    """where images have their channels"""

    @property
    def asked(self) -> list[str]:
        """The settings somebody has asked for, as they are written."""
        given = {
            "resize": self.resize not in (None, "auto") and f"resize={self.resize!r}",
            "grayscale": self.grayscale and "grayscale=True",
            "frame_stack": self.frame_stack > 1 and f"frame_stack={self.frame_stack}",
        }
        return [text for text in given.values() if text]

    def image(self, space: Any) -> Image | None:
        """How observations of this space are read as images."""
        if self.grayscale or self.resize not in (None, "auto"):
            # who asks for it knows that they are images
            return as_image(space.shape, getattr(space, "channels", self.channels))
        return image_in(space, self.channels)

    def size(self, image: Image) -> tuple[int, int]:
        """The height and the width that images get."""
        if self.resize is None:
            return image.sides
        if self.resize == "auto":
            by = -(-max(image.sides) // MOST_PIXELS)
            # a side of fewer pixels would make a table of it
            height, width = (max(round(x / by), min(x, SMALLEST_SIDE)) for x in image.sides)
            return height, width
        if isinstance(self.resize, int):
            return self.resize, self.resize
        height, width = self.resize
        return height, width

    def problems(self) -> list[str]:
        """What is wrong with the numbers, in words."""
        wrong = []
        sides = (self.resize, self.resize) if isinstance(self.resize, int) else self.resize
        if isinstance(sides, tuple) and (len(sides) != 2 or min(sides) < 1):
            wrong.append(
                "resize must be a number of pixels above 0, two of them (height, width), 'auto' or "
                f"None, got {self.resize!r}"
            )
        if self.frame_stack < 1:
            wrong.append(f"frame_stack must be at least 1, got {self.frame_stack!r}")
        return wrong


def preprocessed(seen: Observations, how: Preprocessing, name: str) -> Observations:
    """Observations in the size and the colours that are asked for; frames are stacked elsewhere."""
    space = seen.space
    layout = layout_of(space)
    if layout is not None:
        return _with_parts(seen, layout, how, name)
    image = how.image(space)
    if image is None:
        if how.grayscale or how.resize not in (None, "auto"):
            raise _no_image(how, space, name)
        return seen
    size = how.size(image)
    grey = how.grayscale and image.channels != 1
    if grey and image.channels != 3:
        raise BuildError(
            f"environment {name!r}: grayscale=True makes one colour of three, and its images have "
            f"{image.channels} channels ({space}): leave it out, or say where the channels are "
            "(channels='first' or 'last')."
        )
    if size == image.sides and not grey:
        return seen
    change = ImageChange(space, image, size, grey, raw=space)
    return Observations(change.space, lambda raw: change(seen.encode(raw)))


def _with_parts(seen: Observations, layout: Layout, how: Preprocessing, name: str) -> Observations:
    """The same for the pictures among the parts of an observation."""
    images = {path: how.image(part.space) for path, part in layout.images.items()}
    found = {path: image for path, image in images.items() if image is not None}
    colours = [image.channels for image in found.values()]
    if not found and (how.grayscale or how.resize not in (None, "auto")):
        raise _no_image(how, layout, name)
    if how.grayscale and not {1, 3} & {*colours}:
        raise BuildError(
            f"environment {name!r}: grayscale=True makes one colour of three, and none of its "
            f"images has three ({layout}): leave it out, or say where the channels are "
            "(channels='first' or 'last')."
        )
    changes = {}
    for path, image in found.items():
        grey, size = how.grayscale and image.channels == 3, how.size(image)
        if grey or size != image.sides:
            part = layout.parts[path]
            changes[path] = ImageChange(part.space, image, size, grey, part.raw)
    return with_parts_changed(seen, layout, changes) if changes else seen


def stack_of(space: Box, how: Preprocessing) -> FrameStack | StackedParts | None:
    """What joins the newest observations of this space; None: nothing has to."""
    if how.frame_stack == 1:
        return None
    layout = layout_of(space)
    if layout is None or only_numbers(layout):
        return FrameStack(space, how.frame_stack, how.image(space))
    return StackedParts(layout, how.frame_stack, how.channels)


def only_numbers(layout: Layout) -> bool:
    """Whether observations are one vector anyway, without a picture or a mask."""
    return not (layout.packed or layout.mask_size)


def shrunk_by_default(before: Any, how: Preprocessing) -> str | None:
    """What a person should know of images that nobody asked to resize; None: they are not."""
    layout = layout_of(before)
    spaces = [before] if layout is None else [part.space for part in layout.images.values()]
    images = [how.image(space) for space in spaces] if how.resize == "auto" else []
    large = [one for one in images if one is not None and how.size(one) != one.sides]
    if not large:
        return None
    image = large[0]
    height, width = how.size(image)
    return (
        f"images of {image.height}x{image.width} pixels are shrunk to {height}x{width}; "
        f"resize=84, say, makes them smaller still, and resize=None keeps them"
    )


def _no_image(how: Preprocessing, space: Any, name: str) -> BuildError:
    asked = " and ".join(text for text in how.asked if not text.startswith("frame_stack"))
    return BuildError(
        f"environment {name!r}: {asked} is for images, which have two or three axes; its "
        f"observations are {space}: leave it out."
    )
