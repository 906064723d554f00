"""Reinforcement-learning operators under the paper's names, and the actors they ask."""
