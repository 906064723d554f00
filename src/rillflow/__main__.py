"""`python -m rillflow` is the command `rillflow`."""

import sys

from rillflow.cli.main import program

if __name__ == "__main__":
    sys.exit(program())
