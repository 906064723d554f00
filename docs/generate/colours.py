"""The colours of the pictures of benchmarks: ours, the others', what misses its bar, text."""

OURS, THEIRS, MISSED, INK = "#0072B2", "#9A9A9A", "#D55E00", "#222222"
