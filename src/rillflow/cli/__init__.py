"""The command `rillflow`: one file per command, each imported when it is asked for."""
