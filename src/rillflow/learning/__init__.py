"""From experience to weights: settings, losses, optimisers, and the learner of each framework.

This layer knows batches and policies only: no graph, no engine, no flow.
"""
