"""`rillflow view`: a run in the browser, or all runs of a directory."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser, whole

_DESCRIPTION = """\
Show a run in the browser, while it goes on or when it is over: the curve, the dataflow with its
live rates, the bottleneck. Of a directory of runs: a table, their curves in one picture, what
differs. It listens on this machine alone, and only the printed address opens it."""


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    parser = Parser("view", _DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="a run's directory, or one of runs")
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
        "--token", metavar="TEXT", help="what a reader has to show (default random)"
    )
    parser.add_argument(
        "--open", action="store_true", help="open it in the browser of this machine"
    )
    options = parser.parse(arguments)

    from rillflow.web.server import serve

    with serve(options.run, options.host, options.port, options.token) as view:
        print(f"{view.url}\nCtrl-C ends it", flush=True)
        if options.open:
            import webbrowser

            webbrowser.open(view.url)
        try:
            view.wait()
        except KeyboardInterrupt:
            print()
    return 0
