"""Who counts the observations that networks are normalised by: the learner, after learning.

Until a batch was learned from its networks see it as whoever acted did: log-probabilities agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rillflow.errors import RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning.results import Gradients
from rillflow.learning.reward_scale import counted
from rillflow.policies.normalizer import Moments, as_buffers, moments_in, of_measured


class ObservationStatistics:
    """The statistics of all that a learner has learned from, which are buffers of its networks.

    Args:
        wanted: whether observations are normalised, in some way.
        normalizers: those of all networks and their copies; all say the same.
        measured: which numbers of an observation it is about; None: all of them.
    """

    def __init__(
        self, wanted: object, normalizers: Callable[[], list[Any]], measured: Array | None = None
    ) -> None:
        self.wanted = bool(wanted)
        self._measured = measured
        self._normalizers = normalizers

    def count(self, batches: Iterable[SampleBatch]) -> None:
        """Let the observations of batches count, which were learned from."""
        if self.wanted:
            self._join([Moments.of(counted(batch, "obs")) for batch in batches])

    def of(self, batch: SampleBatch) -> dict[str, Array] | None:
        """What travels with the gradients of a batch; None: nothing need."""
        return as_buffers(Moments.of(counted(batch, "obs"))) if self.wanted else None

    def count_those_of(self, gradients: Gradients) -> None:
        """Let the observations count that gradients were made from."""
        if not self.wanted:
            return
        if gradients.seen is None:
            raise RunError(
                "normalize_observations=True needs the statistics of the observations that "
                "gradients were made from, and these have none: an operator that makes Gradients "
                "anew passes `seen` on, as AverageGradients does."
            )
        self._join([moments_in(gradients.seen)])

    def _join(self, new: list[Moments]) -> None:
        normalizers = self._normalizers()
        moments: Moments = normalizers[0].moments
        for one in new:
            moments = of_measured(moments.joined(one), self._measured)
        for normalizer in normalizers:
            normalizer.set(moments)
