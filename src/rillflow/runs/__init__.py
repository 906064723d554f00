"""Runs on disk: a directory for each, and the listeners that write into it."""
