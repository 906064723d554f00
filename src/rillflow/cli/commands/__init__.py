"""One file per command of `rillflow`; each has a `main`, and is imported when it is asked for."""
