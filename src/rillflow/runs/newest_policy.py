"""The newest policy of a run that goes on, was killed or failed: that of its newest checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError, RunError

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.policies.spec import PolicySpec
    from rillflow.results.trained import Trained, TrainedAgents

_LOOKS = 100
"""at checkpoints that the run has replaced by newer ones before they could be read"""
_UNNEEDED = ("update", "prepare", "source")
"""settings that only training needs: their code is not imported to act"""


def newest_step(run: Path) -> int:
    """Steps of the newest checkpoint of a run, from its manifest alone; -1 if it has none."""
    from rillflow.checkpoint.search import checkpoints_in

    for _ in range(_LOOKS):
        passed: dict[Path, Exception] = {}
        try:
            found = checkpoints_in(run / "checkpoints", passed.__setitem__)
        except OSError:  # there is no such folder
            return -1
        if found:
            return found[0][1].step
        if all(path.exists() for path in passed):  # they are damaged, not gone
            break
    return -1


def settings_to_act(about: Mapping[str, Any], env: str | None, model: str | None) -> dict[str, Any]:
    """The settings in a run.json, as far as they matter to act.

    Args:
        about: what the file says.
        env: another environment, which the user has named.
        model: the network, if the user has named it.
    """
    config = about.get("config")
    settings = dict(config) if isinstance(config, Mapping) else {}
    for name, given in {"env": env, "model": model}.items():
        if given is not None:
            settings[name] = given
    return {name: value for name, value in settings.items() if name not in _UNNEEDED}


def from_checkpoint(
    checkpoint: Checkpoint, about: Mapping[str, Any], settings: Mapping[str, Any]
) -> Trained | TrainedAgents:
    """What a run had learned when it was saved.

    The code that its settings name is imported: ask the user before.

    Args:
        checkpoint: of the run.
        about: its run.json.
        settings: those of it that matter to act.
    """
    from rillflow.learning.results import DEFAULT_POLICY
    from rillflow.results.trained import Trained, TrainedAgents
    from rillflow.runs.find_algorithm import find_algorithm
    from rillflow.runs.saved_job import settings_from

    config = settings_from(find_algorithm(about["algorithm"]).Config, settings)
    agents = about.get("agents")
    if agents is not None and not isinstance(agents, dict):
        raise BuildError(f"run.json says of its agents {str(agents)[:60]!r}, which we never write.")
    specs = _specs(config, agents) if agents else {DEFAULT_POLICY: _spec(config)}
    rows = [{"steps": float(checkpoint.step)}]
    policies = {
        name: Trained(config, spec, weights_in(checkpoint, name, spec), rows)
        for name, spec in specs.items()
    }
    return TrainedAgents(policies, agents, rows) if agents else policies[DEFAULT_POLICY]


def weights_in(checkpoint: Checkpoint, policy: str, spec: PolicySpec) -> dict[str, Any]:
    """The weights that a run had published last, as its checkpoint has them."""
    from rillflow.policies.fitting import check_fit

    try:
        shared = checkpoint.state["run"]["shared"]
        key = next(key for key in shared if _is_weights(key, policy))
        weights = dict(shared[key]["weights"])
    except (KeyError, TypeError, StopIteration):
        raise RunError(f"{checkpoint.path} holds no weights of a policy {policy!r}.") from None
    check_fit(spec, weights)
    return weights


def _is_weights(key: str, policy: str) -> bool:
    """Whether published weights are saved under this key: `weights <worker> default`."""
    return key.startswith("weights <") and key.endswith(f"> {policy}")


def _spec(config: AlgorithmConfig) -> PolicySpec:
    """The policy's shape, from the spaces of one environment that is closed at once."""
    from rillflow.envs.make import make_envs

    envs = make_envs(config.env, 1, **config.env_settings)
    try:
        return config.policy_spec(envs.observation_space, envs.action_space)
    finally:
        envs.close()


def _specs(config: AlgorithmConfig, agents: Mapping[str, str]) -> dict[str, PolicySpec]:
    """The same for each policy of several agents."""
    from rillflow.envs.multiagent_mapping import make_multi_agent_envs

    envs = make_multi_agent_envs(config.env, 1, agents, **config.env_settings)
    envs.close()
    return {
        name: config.policy_spec(group.observation_space, group.action_space)
        for name, group in envs.groups.items()
    }
