"""The command `rillflow`: its `commands/`, the `flags/` they take, the `output/` they show."""
