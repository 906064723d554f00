"""Rows of a dataset as a source: each worker reads its own part, in random order, for ever."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from rillflow.datasets.checking import check
from rillflow.datasets.reading import Dataset
from rillflow.datasets.rows import RowsOf
from rillflow.datasets.shuffled import ShuffledRows
from rillflow.errors import BuildError
from rillflow.experience.batch import SampleBatch
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.fault_settings import bytes_of
from rillflow.learning.offline_config import OfflineConfig
from rillflow.policies.spec import PolicySpec


class MinariRows:
    """A source that gives rows of a dataset: `rf.train(..., source=MinariRows("data/cartpole"))`.

    Each batch has columns [1, N, ...]: `obs`, `actions`, `rewards`, `discount` and `next_obs`, as
    those from replay. Of several workers each reads its own part of the episodes. A worker that
    is restarted begins anew, and a run that is resumed goes on with the row that is next.

    Args:
        data: a dataset of Minari, a directory or the id of one on this machine.
        rows: in a batch.
        n_step: steps that a row looks ahead.
        memory: that a worker keeps rows in; larger data streams through it.
    """

    def __init__(
        self, data: str, rows: int = 2048, *, n_step: int = 1, memory: int | str = "512MiB"
    ) -> None:
        self.data, self.rows, self.n_step, self.memory = data, rows, n_step, memory

    @classmethod
    def of(cls, config: OfflineConfig) -> MinariRows:
        """The source that settings describe."""
        config.require_ready({})
        assert config.data is not None, "it was required"
        return cls(
            config.data, config.rows_per_draw, n_step=config.n_step, memory=config.data_memory
        )

    def __call__(self, worker: Any) -> Part:
        """The part that one worker reads."""
        return Part(self, worker)

    def __repr__(self) -> str:
        return f"MinariRows({self.data!r})"


class Part:
    """What one worker reads."""

    def __init__(self, source: MinariRows, worker: Any) -> None:
        config, info = worker.config, worker.info
        self.dataset = Dataset(source.data).measure()
        rows_of = rows_for(self.dataset, config, worker.spec, source.n_step)
        window = max(1, (bytes_of(source.memory) or 1) // rows_of.row_bytes)
        shards = max(1, config.num_workers)
        _refuse_shards(self.dataset, shards)
        self._rows = ShuffledRows(
            rows_of.take, self.dataset.lengths, window, info.seed, info.index % shards, shards
        )
        self._count = source.rows

    def __iter__(self) -> Iterator[SampleBatch]:
        while True:
            columns = self._rows.take(self._count)
            for column in columns.values():
                column.flags.writeable = False  # the batch's own: nobody need copy it
            yield SampleBatch({name: column[None] for name, column in columns.items()})

    def get_state(self) -> dict[str, Any]:
        """Which row is next."""
        return self._rows.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on there."""
        self._rows.set_state(state)

    def close(self) -> None:
        """Close the file."""
        self.dataset.close()


def rows_for(
    dataset: Dataset, config: AlgorithmConfig, spec: PolicySpec, n_step: int = 1
) -> RowsOf:
    """Rows as a policy of this spec takes them; refused if it takes others."""
    rows_of = RowsOf(dataset, n_step, config.gamma, config.preprocessing, config.action_masks)
    seen, acts = rows_of.observation_space, rows_of.action_space
    if seen.shape != spec.observation_shape or seen.dtype != spec.observation_space.dtype:
        why = ": masks in infos are not in a dataset, action_masks=False" if spec.masked else ""
        raise BuildError(
            f"dataset {dataset.name!r}: its observations are seen as {seen}, and the policy takes "
            f"{spec.observation_space}{why}."
        )
    if acts.shape != spec.action_space.shape:
        raise BuildError(
            f"dataset {dataset.name!r}: its actions are {acts}, and the policy's "
            f"{spec.action_space}."
        )
    return rows_of


def check_data(config: AlgorithmConfig, spec: PolicySpec, envs: Any) -> None:
    """Refuse a dataset that does not suit the environment, before anything starts.

    Args:
        config: the settings; those that name no data are let through.
        spec: the policy.
        envs: an environment, whose own spaces are compared.
    """
    if not isinstance(config, OfflineConfig) or config.data is None:
        return
    vector = envs.vector
    with Dataset(config.data) as dataset:
        found = check(
            dataset,
            vector.single_observation_space,
            vector.single_action_space,
            scan=config.check_data,
        )
        rows_for(dataset, config, spec, config.n_step)
        _refuse_shards(dataset, max(1, config.num_workers))
    if found.env is not None and isinstance(config.env, str) and found.env != config.env:
        warnings.warn(
            f"dataset {config.data!r} says that it was recorded in {found.env!r}, and the "
            f"environment is {config.env!r}",
            stacklevel=5,
        )


def _refuse_shards(dataset: Dataset, shards: int) -> None:
    if shards > len(dataset.episodes):
        raise BuildError(
            f"dataset {dataset.name!r}: {shards} workers share {len(dataset.episodes)} episodes, "
            "and each needs one: num_workers must be no more than that."
        )
