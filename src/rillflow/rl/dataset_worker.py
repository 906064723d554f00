"""The actor of algorithms that learn from recorded data: it reads, and plays nothing."""

from __future__ import annotations

from typing import Any

from rillflow.rl.dataset_source import MinariRows
from rillflow.rl.source_worker import SourceWorker


class DatasetWorker(SourceWorker):
    """Gives rows of the settings' `data`, or what their `source` gives."""

    def source_of(self, config: Any) -> Any:
        """The source that the settings name."""
        return config.source or MinariRows.of(config)
