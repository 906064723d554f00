"""From fragments of experience to rows to learn from; torch is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.experience.batch import BOOTSTRAP, STATE

if TYPE_CHECKING:
    import torch

Rows = dict[str, "torch.Tensor"]


def actor_critic_rows(policy: Any, batch: Rows, gamma: float, lam: float) -> Rows:
    """Generalised advantages and value targets of a time-major batch, as flat rows.

    Values of all observations, and of the true next ones, come from one pass over the network.
    Steps that only reset an environment are left out.
    """
    from rillflow.learning import losses

    before, after = _values(policy, batch)
    ended = batch["terminated"] | batch["truncated"]
    valid = batch.get("valid")
    if valid is not None:
        ended = ended | ~valid
    advantages, targets = losses.gae(
        batch["rewards"], before, after, batch["terminated"], ended, gamma, lam
    )
    rows = {
        "obs": batch["obs"],
        "actions": batch["actions"],
        "logp": batch["logp"],
        "values": before,
        "advantages": advantages,
        "targets": targets,
    }
    flat = {name: column.flatten(0, 1) for name, column in rows.items()}
    if valid is None:
        return flat
    chosen = valid.flatten().nonzero().squeeze(1)
    return {name: column[chosen] for name, column in flat.items()}


def evaluate_fragments(policy: Any, batch: Rows) -> tuple[torch.Tensor, ...]:
    """Log-probabilities of the actions, entropies, values, and values of the true next
    observations, each [T, B], from one pass over the network.

    Gradients flow through the first three. A policy that remembers begins with the fragments'
    `state` and forgets at their `starts`.
    """
    at, columns = _timeline(batch)
    obs, actions = columns["obs"], columns["actions"]
    if policy.spec.recurrent:
        results = policy.evaluate_recurrent(obs, actions, batch[STATE], columns["starts"])[:3]
    else:
        results = policy.evaluate(obs, actions)
    logp, entropy, values = (result.gather(0, at) for result in results)
    return logp, entropy, values, results[2].detach().gather(0, at + 1)


def _timeline(batch: Rows) -> tuple[torch.Tensor, Rows]:
    """What each environment showed, in order; and the row [T, B] that each step has in there.

    The true next observation of a step is the row behind it: that of the next step, or the one
    after the fragment. Where an episode was cut and the next one began within the same step, the
    final observation gets a row of its own in between, so that a policy that remembers sees it
    with the memory of its episode. Columns are filled up with zeros at the end.
    """
    import torch

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


def standardized(x: torch.Tensor) -> torch.Tensor:
    """Mean 0, standard deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-8)


def _values(policy: Any, batch: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of each observation and of the true next observation: both [T, B]."""
    import torch

    with torch.no_grad():
        # the next observation of step t is the observation of step t + 1
        whole = policy.values(torch.cat([batch["obs"], batch[BOOTSTRAP][None]]))
        before, after = whole[:-1], whole[1:]
        # unless an episode was cut and the next one began within the same step
        cut = batch["truncated"] & ~batch["terminated"]
        if "next_obs" in batch and cut.any():
            after = after.clone()
            after[cut] = policy.values(batch["next_obs"][cut])
    return before, after
