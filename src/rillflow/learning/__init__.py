"""Learning: the learner, optimisers, and losses of both frameworks side by side."""
