"""The actors of reinforcement learning: rollout workers."""
