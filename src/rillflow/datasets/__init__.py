"""Datasets of episodes in Minari's format: found, checked, streamed in random order, written.

Nothing that a dataset names is imported or made: its metadata is read as plain data.
"""
