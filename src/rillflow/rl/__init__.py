"""Reinforcement-learning operators, on top of the generic ones."""
