"""Operators that know nothing of reinforcement learning."""
