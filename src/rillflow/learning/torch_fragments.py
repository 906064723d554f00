"""Whole fragments as a policy saw them, in torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rillflow.experience.batch import BOOTSTRAP


def timeline(batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """What each environment showed, in order; and the row [T, B] that each step has in there.

    The true next observation of a step is the row behind it: that of the next step, or the one
    after the fragment. Where an episode was cut and the next one began within the same step, the
    final observation gets a row of its own in between, so that a policy that remembers sees it
    with the memory of its episode. Columns are filled up with zeros at the end.
    """
    names: list[str] = [name for name in ("obs", "actions", "starts") if name in batch]
    time, envs = batch["rewards"].shape
    device = batch["rewards"].device
    at = torch.arange(time, device=device)[:, None].expand(time, envs)
    cut = batch["truncated"] & ~batch["terminated"]
    if "next_obs" not in batch or not cut.any():
        last = {name: torch.zeros_like(batch[name][:1]) for name in names}
        last["obs"] = batch[BOOTSTRAP][None]
        return at, {name: torch.cat([batch[name], last[name]]) for name in names}
    extra = cut.sum(0)
    at = at + cut.cumsum(0) - cut.long()
    env = torch.arange(envs, device=device).expand(time, envs)
    columns = {}
    for name in names:
        column = batch[name]
        whole = column.new_zeros(time + 1 + int(extra.max()), *column.shape[1:])
        whole[at, env] = column
        columns[name] = whole
    columns["obs"][at[cut] + 1, env[cut]] = batch["next_obs"][cut]
    columns["obs"][time + extra, env[0]] = batch[BOOTSTRAP]
    return at, columns
