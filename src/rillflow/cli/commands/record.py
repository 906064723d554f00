"""`rillflow record`: film a trained policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser, positive, whole
from rillflow.cli.flags.policy_to_load import Asked, add_policy_flags, beside

_DESCRIPTION = """\
Film some episodes of a trained policy. The ending of the file says how: .mp4 and .gif are films,
.png is a strip of frames of one episode."""


def main(arguments: Sequence[str]) -> int:
    """Film."""
    parser = Parser("record", _DESCRIPTION)
    add_policy_flags(parser)
    parser.add_argument(
        "-o", "--out", metavar="FILE", help=".mp4, .gif or .png (default RUN/video.mp4)"
    )
    parser.add_argument(
        "--episodes",
        type=whole(1),
        default=1,
        metavar="N",
        help="to film, one after the other (default 1)",
    )
    parser.add_argument(
        "--frames", type=whole(1), default=8, metavar="N", help="of a .png (default 8)"
    )
    parser.add_argument(
        "--fps",
        type=positive,
        metavar="X",
        help="frames a second (default: as the environment was made for)",
    )
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=1,
        metavar="N",
        help="of the environment; the same seed gives the same film (default 1)",
    )
    parser.add_argument(
        "--max-steps",
        type=whole(1),
        default=3000,
        metavar="N",
        help="cut an episode after so many (default 3000)",
    )
    parser.add_argument(
        "--sampled", action="store_true", help="draw actions instead of taking the most likely"
    )
    asked = Asked(parser, arguments)
    options = asked.options
    path = Path(options.out) if options.out else beside(options.run, "video.mp4")

    from rillflow.arguments import path_ending_in
    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results import frame_strip, record

    path_ending_in(path, (".mp4", ".gif", ".png"), "a film, or a strip of frames,")

    how = {
        "seed": options.seed, "greedy": not options.sampled, "max_steps": options.max_steps
    }  # fmt: skip
    with notes_as_lines():
        trained = asked.one("films are of one; `rillflow evaluate` plays with all of them")
        if path.suffix.lower() == ".png":
            frame_strip(trained, path, options.frames, **how)
        else:
            record(trained, path, options.episodes, fps=options.fps, **how)
    print(path)
    return 0
