"""`python -m rillflow` is the command `rillflow`."""

import sys

from rillflow.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
