"""Films in .mp4, written by ffmpeg, which says how it went by its exit code alone."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO

import numpy as np

from rillflow.results.optional_libraries import needs
from rillflow.results.rendering import Frame


def write_mp4(path: Path, film: Iterator[Frame], fps: float) -> None:
    """H.264 that browsers and phones play; an error if ffmpeg could not write all of it."""
    program = needs("imageio_ffmpeg", "video", "a film in .mp4").get_ffmpeg_exe()
    first = next(film)
    # yuv420p and even sides: other H.264 is valid, but browsers and phones do not play it
    height, width = (side - side % 2 for side in first.shape[:2])
    rate = str(Fraction(fps).limit_denominator())
    command = [
        program, "-v", "error", "-y",
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-",
        "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart",
        str(path.resolve()),
    ]  # fmt: skip
    whole = False
    with tempfile.TemporaryFile() as told:
        # in a session of its own: Ctrl-C is ours to handle
        started = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=told, start_new_session=True
        )
        with suppress(BrokenPipeError), started as ffmpeg:  # broken: it has ended, and tells why
            try:
                _send(ffmpeg, first, film, (height, width))
                whole = True
            except BaseException:
                ffmpeg.kill()
                raise
        if started.returncode or not whole:
            raise OSError(errno.EIO, f"ffmpeg: {_reason(told, started.returncode)}")


def _send(
    ffmpeg: subprocess.Popen[bytes], first: Frame, film: Iterator[Frame], size: tuple[int, int]
) -> None:
    assert ffmpeg.stdin is not None, "it was asked for"
    height, width = size
    ffmpeg.stdin.write(np.ascontiguousarray(first[:height, :width]).data)
    for frame in film:
        ffmpeg.stdin.write(np.ascontiguousarray(frame[:height, :width]).data)
    ffmpeg.stdin.close()


def _reason(told: IO[bytes], code: int) -> str:
    """What the exit code stands for, if ffmpeg speaks of it at all; else its last line."""
    told.seek(0)
    text = told.read(65_536).decode(errors="replace")
    meant = os.strerror(256 - code)  # it ends with minus the number of the system's error
    if meant in text:
        return meant
    lines = text.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it did not say why")
    return re.sub(r"^(\[[^]]*\]\s*)+", "", last.strip())  # which of its parts says so
