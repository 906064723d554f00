"""A learner beside the first one, in a process of its own: `python -m` this file, and a socket.

It does what it is told until nobody is there to tell it anything.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from typing import Any

from rillflow.learning.learner_group import HERE, receive, send


def main(fd: int) -> int:
    """Learn until the other side is gone; what is raised here is told there."""
    with socket.socket(fileno=fd) as sock:
        try:
            job: dict[str, Any] = receive(sock)
            from rillflow.learning.torch_together import member  # torch, once it is known for what

            learner = member(**job)
            send(sock, HERE)
            learner.join()
            warnings.simplefilter("ignore")  # the first one says the same
            while True:
                method, arguments = receive(sock)
                getattr(learner, method)(*arguments)
        except (EOFError, ConnectionError):
            return 0
        except BaseException as error:
            _tell(sock, f"raised {type(error).__name__}: {error}")
            return 1


def _tell(sock: socket.socket, words: str) -> None:
    try:
        send(sock, words)
    except OSError:
        print(f"rillflow: a learner {words}", file=sys.stderr)


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of a process group would wait for those that are gone
