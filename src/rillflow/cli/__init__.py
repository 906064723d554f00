"""The command `rillflow`: `commands/` has them, `flags/` what they take, `output/` what they show."""
