"""What files from strangers may do: how large they may be, what they may name, what is imported."""
