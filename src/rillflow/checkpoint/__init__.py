"""Checkpoints that always load: atomic, verified, versioned, and safe to read from anybody.

    with CheckpointStore(run_dir / "checkpoints", keep=3) as store:
        newest = store.newest()
        if newest is not None:
            run.set_state(newest.state)
        for result in run:
            if due(result):
                store.save(step=steps, state=run.get_state(), facts={"algorithm": "ppo"})

A checkpoint is a directory: `manifest.json`, written last, with size and SHA-256 of every file;
`state.json`, the structure, with explicit types; `arrays-*.safetensors`, the numbers. There is no
pickle in it and no code: classes are named, and only registered ones are built.
"""

from rillflow.checkpoint.errors import CheckpointDamaged as CheckpointDamaged
from rillflow.checkpoint.errors import CheckpointError as CheckpointError
from rillflow.checkpoint.errors import CheckpointNotSaved as CheckpointNotSaved
from rillflow.checkpoint.errors import CheckpointWarning as CheckpointWarning
from rillflow.checkpoint.errors import ForeignCheckpoint as ForeignCheckpoint
from rillflow.checkpoint.errors import NoValidCheckpoint as NoValidCheckpoint
from rillflow.checkpoint.errors import StoreLocked as StoreLocked
from rillflow.checkpoint.errors import UnknownClass as UnknownClass
from rillflow.checkpoint.errors import UnknownFormat as UnknownFormat
from rillflow.checkpoint.errors import UnsavableState as UnsavableState
from rillflow.checkpoint.manifest import Manifest as Manifest
from rillflow.checkpoint.read import Checkpoint as Checkpoint
from rillflow.checkpoint.read import read_checkpoint as read_checkpoint
from rillflow.checkpoint.registered_classes import register as register
from rillflow.checkpoint.search import newest_checkpoint as newest_checkpoint
from rillflow.checkpoint.store import CheckpointStore as CheckpointStore
