"""How the time of an operator grows with the size of its items: so much, and so much per part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Growth:
    """Seconds of a call as `fixed + per_part * parts`.

    A part is one answer of an actor: a round of 16 workers is an item of 16 parts.
    """

    fixed: float
    per_part: float
    seen: Mapping[int, float] = field(default_factory=dict)
    """what it was fitted to: seconds by number of parts"""

    def at(self, parts: float) -> float:
        """Seconds of a call on an item of so many parts."""
        return self.fixed + self.per_part * parts

    def ratio(self, parts: int, measured: int) -> float:
        """How much longer a call takes than one that was measured on another size."""
        if parts == measured:
            return 1.0
        before = self.at(measured)
        return self.at(parts) / before if before > 0 else 1.0


def fitted(seen: Mapping[int, float]) -> Growth:
    """The line through what was measured, neither part of it below zero.

    >>> line = fitted({4: 0.5, 16: 1.7})
    >>> round(line.fixed, 3), round(line.per_part, 3), round(line.at(256), 1)
    (0.1, 0.1, 25.7)
    >>> fitted({2: 0.5})  # one size says nothing of others
    Growth(fixed=0.5, per_part=0.0, seen={2: 0.5})

    Every size counts alike, as a share of its own time.
    """
    points = [(float(parts), seconds) for parts, seconds in seen.items() if seconds > 0]
    if len(points) < 2:
        return Growth(points[0][1] if points else 0.0, 0.0, dict(seen))
    # least squares of (fixed + per_part * x) / y - 1
    aa = sum(1 / (y * y) for _, y in points)
    ab = sum(x / (y * y) for x, y in points)
    bb = sum(x * x / (y * y) for x, y in points)
    a, b = sum(1 / y for _, y in points), sum(x / y for x, y in points)
    spread = aa * bb - ab * ab
    fixed, per_part = (a * bb - b * ab) / spread, (b * aa - a * ab) / spread
    if per_part < 0:
        fixed, per_part = a / aa, 0.0
    elif fixed < 0:
        fixed, per_part = 0.0, b / bb
    return Growth(fixed, per_part, dict(seen))
