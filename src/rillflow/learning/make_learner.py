"""The learner that fits: in NumPy for small networks on the processor, in torch for all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.spec import PolicySpec

if TYPE_CHECKING:
    from rillflow.learning.learner import Learner
    from rillflow.learning.numpy_learner import NumpyLearner

AnyLearner: TypeAlias = "Learner | NumpyLearner"
Twin = tuple[Callable[..., Any], Callable[..., Any]]
"""`numpy_postprocess` and `numpy_loss`"""


def make_learner(
    spec: PolicySpec, config: AlgorithmConfig, seed: int, devices: Sequence[str] | None = None
) -> AnyLearner:
    """A learner for this policy and these settings; see `config.framework`."""
    twin = numpy_twin(spec, config)
    if twin is not None:
        from rillflow.learning.numpy_learner import NumpyLearner

        return NumpyLearner(spec, config, seed, *twin)
    from rillflow.learning.learner import Learner  # torch is imported where it is needed

    return Learner(spec, config, seed, devices)


def numpy_twin(spec: PolicySpec, config: AlgorithmConfig) -> Twin | None:
    """The algorithm's functions for learning in NumPy; None: torch it is."""
    if config.framework == "torch":
        return None
    twin, hindrance = _twin(spec, config)
    if twin is None and config.framework == "numpy":
        raise BuildError(
            f"framework='numpy' learns small fully connected networks on the processor, but "
            f"{hindrance}; use framework='torch', or 'auto', which picks what fits."
        )
    return twin


def _twin(spec: PolicySpec, config: AlgorithmConfig) -> tuple[Twin | None, str]:
    """The functions, or what stands against them."""
    if spec.model != "mlp":
        return None, f"the network is {spec.model!r}"
    if config.num_gpus:
        return None, f"num_gpus={config.num_gpus}"
    for cls in type(config).__mro__:
        module = sys.modules.get(cls.__module__)
        own = [getattr(module, name, None) for name in ("postprocess", "loss")]
        if callable(own[1]):
            return _beside(module, own, config)
    return None, "the algorithm has no loss"


def _beside(module: Any, own: list[Any], config: AlgorithmConfig) -> tuple[Twin | None, str]:
    """The twins that stand in the module beside a loss and a postprocessor, if these are used."""
    if [config.postprocess, config.loss] != own:
        return None, "loss or postprocess are your own"
    postprocess = getattr(module, "numpy_postprocess", None)
    loss = getattr(module, "numpy_loss", None)
    if postprocess is None or loss is None:
        return None, f"{module.__name__} has no `numpy_postprocess` and `numpy_loss`"
    return (postprocess, loss), ""
