"""What the commands show: progress, tables, curves, errors, all as text on a terminal."""
