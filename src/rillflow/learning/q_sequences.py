"""Q learning of policies that remember: whole sequences, with their burn-in and their priorities.

Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rillflow.experience.batch import BOOTSTRAP, STATE, TIMELESS
from rillflow.experience.n_step import n_step_windows
from rillflow.learning.update import Rows

if TYPE_CHECKING:
    from rillflow.learning.q_learning import QNetworkConfig

ETA = 0.9
"""how much of the priority of a sequence is its largest error; the rest is the mean one"""


def sequence_rows(m: Any, batch: Mapping[str, Any], cfg: QNetworkConfig) -> Rows:
    """Sequences [T, B] whose steps look `n_step` steps ahead, or to the end of the sequence, with
    the target network's values of what followed.

    The rows before the last `rollout_fragment_length` are burn-in: both networks see them, so that
    their memory is that of their own weights, and neither learns from them.
    """
    burn_in = max(0, len(batch["rewards"]) - cfg.rollout_fragment_length)
    rows = Rows({n: c if n in TIMELESS else c[burn_in:] for n, c in batch.items()})
    if BOOTSTRAP not in rows:  # sequences from replay have what truly followed each step
        rows[BOOTSTRAP] = rows.next_obs[-1]
    state, target_state = batch[STATE], batch[STATE]
    if burn_in:
        before = batch["obs"][:burn_in], batch[STATE], batch["starts"][:burn_in]
        state = m.frozen.policy.q_values_recurrent(*before)[1]
        target_state = m.target.policy.q_values_recurrent(*before)[1]
    rows |= _windows(rows, cfg)
    _, following = m.target.policy.q_values_of_fragments(rows | {STATE: target_state})
    return Rows(rows | {STATE: state, "next_q": _at(following, rows.last)})


def q_values_of_sequences(m: Any, rows: Rows) -> tuple[Any, Any]:
    """Q values [T, B, actions] of each step, and of what it looks ahead to, by the network that
    is trained."""
    q, following = m.policy.q_values_of_fragments(rows)
    return q, _at(following, rows.last)


def priorities(errors: Any, rows: Rows) -> dict[str, Any]:
    """One error for each sequence [B], and its key: a mix of the largest and the mean one."""
    sizes = errors.detach().abs()
    count: Any = len(sizes)
    if "valid" in rows:
        sizes = sizes.masked_fill(~rows.valid, 0)
        count = rows.valid.sum(0).clamp(min=1)
    mixed = ETA * sizes.amax(0) + (1 - ETA) * sizes.sum(0) / count
    return {"td_errors": mixed, "keys": rows["keys"][0]}


def _windows(rows: Rows, cfg: QNetworkConfig) -> dict[str, Any]:
    """Rewards and discounts over the steps that each looks ahead, and the last one of these."""
    import torch

    names = ("rewards", "terminated", "truncated", "valid")
    columns = {name: rows[name].cpu().numpy() for name in names if name in rows}
    found = n_step_windows(columns, cfg.n_step, cfg.gamma)
    return {name: torch.from_numpy(c).to(rows["rewards"].device) for name, c in found.items()}


def _at(values: Any, row: Any) -> Any:
    """Of [T, B, actions] the rows [T, B]."""
    return values.gather(0, row.unsqueeze(-1).expand_as(values))
