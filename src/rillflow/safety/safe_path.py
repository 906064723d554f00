"""`python -m rillflow` without the current directory first on the path.

Python puts it there, before the installed packages and its own library: a file called `numpy.py` in
a directory of somebody else's would be NumPy. What the user names from here is looked for here, at
the end of the path (see `cli/flags/current_directory.py`). Worker processes begin as `python -m`,
too.

Imported before anything else, so it imports nothing that Python has not loaded by itself.
"""

import sys


def asked_for_us() -> bool:
    """Whether Python is just now looking for the module of `python -m rillflow...`."""
    if sys.argv[:1] != ["-m"]:
        return False
    word = sys.orig_argv[-len(sys.argv)]  # what stands before the arguments: `rillflow`
    name = word.partition("m")[2] if word.startswith("-") else word  # or `-mrillflow`
    return name.partition(".")[0] == "rillflow"


if asked_for_us() and not sys.flags.safe_path:
    del sys.path[0]
