"""What shows a training run while it goes on: a live display, lines, JSON."""
