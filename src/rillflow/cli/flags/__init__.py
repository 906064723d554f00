"""Flags of the commands: parsed, checked, and turned into what they name."""
