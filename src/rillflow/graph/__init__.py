"""The program as data: no threads, no processes, no numpy."""
