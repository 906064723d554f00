"""The learner that fits: in NumPy for small networks on the processor, in torch for all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.spec import PolicySpec

if TYPE_CHECKING:
    from rillflow.learning.numpy_learner import NumpyLearner
    from rillflow.learning.torch_learner import TorchLearner

AnyLearner: TypeAlias = "TorchLearner | NumpyLearner"


def make_learner(
    spec: PolicySpec, config: AlgorithmConfig, seed: int, devices: Sequence[str] | None = None
) -> AnyLearner:
    """A learner for this policy and these settings; see `config.framework`."""
    if learns_in_numpy(spec, config):
        from rillflow.learning.numpy_learner import NumpyLearner

        return NumpyLearner(spec, config, seed)
    if config.num_learners > 1 and devices is None:  # of a worker's own learner there is one
        from rillflow.learning.torch_together import FirstLearner

        return FirstLearner(spec, config, seed)
    from rillflow.learning.torch_learner import TorchLearner  # torch is imported where it is needed

    return TorchLearner(spec, config, seed, devices)


def learns_in_numpy(spec: PolicySpec, config: AlgorithmConfig) -> bool:
    """Whether NumPy learns this policy with these settings; otherwise torch does."""
    if config.framework == "torch":
        return False
    why = _hindrance(spec, config)
    if why is not None and config.framework == "numpy":
        raise BuildError(
            f"framework='numpy' learns small fully connected networks on the processor, but {why}; "
            "use framework='torch', or 'auto', which picks what fits."
        )
    return why is None


def framework_and_reason(spec: PolicySpec, config: AlgorithmConfig) -> tuple[str, str]:
    """What learns, and why it does."""
    if config.framework == "torch":
        return "torch", "framework='torch'"
    if learns_in_numpy(spec, config):
        return "numpy", "small networks on the processor, and an update that NumPy differentiates"
    return "torch", str(_hindrance(spec, config))


def _hindrance(spec: PolicySpec, config: AlgorithmConfig) -> str | None:
    # imported here: a worker, which learns nothing, starts without the networks that learn
    from rillflow.learning.try_update import numpy_hindrance

    return numpy_hindrance(spec, config)
