"""What a user writes: flows, what merges them, queues between them, and where they come from."""
