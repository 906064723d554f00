"""From fragments of experience to rows to learn from; the twin of `rl.postprocess`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rillflow.experience.batch import BOOTSTRAP, Array
from rillflow.learning.analytic.network import Network
from rillflow.policies.sampling import Floats

Rows = dict[str, Array]


def actor_critic_rows(
    network: Network, batch: Mapping[str, Array], gamma: float, lam: float
) -> Rows:
    """Generalised advantages and value targets of a time-major batch, as flat rows.

    Values of all observations, and of the true next ones, come from one pass over the network.
    Steps that only reset an environment are left out.
    """
    before, after = _values(network, batch)
    ended = batch["terminated"] | batch["truncated"]
    valid = batch.get("valid")
    if valid is not None:
        ended = ended | ~valid
    rewards = np.asarray(batch["rewards"], np.float32)
    advantages = gae(rewards, before, after, batch["terminated"], ended, gamma, lam)
    rows = {
        "obs": batch["obs"],
        "actions": batch["actions"],
        "logp": batch["logp"],
        "advantages": advantages,
        "targets": advantages + before,
    }
    flat = {name: flattened(column) for name, column in rows.items()}
    if valid is None or valid.all():
        return flat
    chosen = valid.ravel().nonzero()[0]
    return {name: column[chosen] for name, column in flat.items()}


def gae(
    rewards: Floats,
    before: Floats,
    after: Floats,
    terminated: Array,
    ended: Array,
    gamma: float,
    lam: float,
) -> Floats:
    """The advantages [T, B] of `losses.gae`; the value targets are these plus `before`."""
    kept: Floats = np.where(terminated, np.float32(0), after)
    advantages: Floats = rewards + np.float32(gamma) * kept - before
    decay = np.where(ended | terminated, np.float32(0), np.float32(gamma * lam))
    for t in range(len(advantages) - 2, -1, -1):
        advantages[t] += decay[t] * advantages[t + 1]
    return advantages


def evaluate_fragments(network: Network, batch: Mapping[str, Array]) -> tuple[Floats, ...]:
    """Log-probabilities of the actions, entropies, values, and values of the true next
    observations, each [T, B]; `network.backward` speaks of the first three, flattened.
    """
    results = network.evaluate(flattened(batch["obs"]), flattened(batch["actions"]))
    logp, entropy, values = (result.reshape(batch["rewards"].shape) for result in results)
    after = np.concatenate([values[1:], network.values(batch[BOOTSTRAP])[None]])
    return logp, entropy, values, _across_cuts(network, batch, after)


def standardized(x: Floats) -> Floats:
    """Mean 0, standard deviation 1."""
    result: Floats = (x - x.mean()) / (x.std(ddof=1) + np.float32(1e-8))
    return result


def flattened(column: Array) -> Array:
    """Without the time axis."""
    return column.reshape(-1, *column.shape[2:])


def _values(network: Network, batch: Mapping[str, Array]) -> tuple[Floats, Floats]:
    """Values of each observation and of the true next observation: both [T, B]."""
    # the next observation of step t is the observation of step t + 1
    seen = np.concatenate([batch["obs"], batch[BOOTSTRAP][None]])
    values = network.values(flattened(seen)).reshape(seen.shape[:2])
    return values[:-1], _across_cuts(network, batch, values[1:])


def _across_cuts(network: Network, batch: Mapping[str, Array], after: Floats) -> Floats:
    """Values of the next rows, but where an episode was cut and the next one began at once."""
    if "next_obs" not in batch:
        return after
    cut = batch["truncated"] & ~batch["terminated"]
    if cut.any():
        after = after.copy()
        after[cut] = network.values(batch["next_obs"][cut])
    return after
