"""Policies: a network and a distribution over actions; acting in NumPy, learning in torch."""
