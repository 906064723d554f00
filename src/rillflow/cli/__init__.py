"""The command `rillflow`: its commands are in `commands/`, what they share is here."""
