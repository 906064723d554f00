"""`rillflow serve`: a trained policy that answers over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.flags.policy_to_load import Asked, add_policy_flags

_DESCRIPTION = """\
Answer observations with the actions of a trained policy over HTTP, for environments that live in
another program. Requests that come together are answered by one pass of the network. It listens on
this machine alone, and answers only who shows the printed token."""


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    parser = Parser("serve", _DESCRIPTION)
    add_policy_flags(parser)
    parser.add_argument(
        "--port", type=whole(0), default=0, metavar="N", help="0 is any that is free (default 0)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="to listen on; any but this machine's own needs --token (default 127.0.0.1)",
    )
    parser.add_argument(
        "--token", metavar="TEXT", help="what a client has to show (default random)"
    )
    parser.add_argument(
        "--window",
        type=whole(0),
        default=1,
        metavar="MS",
        help="milliseconds in which requests are gathered into one pass (default 1)",
    )
    parser.add_argument(
        "--sampled", action="store_true", help="draw actions instead of taking the most likely"
    )
    asked = Asked(parser, arguments, plays=False)
    options = asked.options

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.serving import serve
    from rillflow.serving.server import example

    with notes_as_lines():
        trained = asked.one("serve them one by one, such as `rillflow serve {first}`")
        how = {"window": options.window / 1000, "sampled": options.sampled}
        with serve(trained, options.host, options.port, options.token, **how) as served:
            print(f"{served.url}\ntoken {served.token}\n{example(served)}", flush=True)
            print("Ctrl-C ends it", flush=True)
            try:
                served.wait()
            except KeyboardInterrupt:
                print()
    return 0
