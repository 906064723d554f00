"""A trained policy as one ONNX file, for programs that know nothing of rillflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.arguments import path_ending_in
from rillflow.files import to_json, whole_file
from rillflow.policies.saved import spec_to_data
from rillflow.results import onnx_builtin_networks
from rillflow.results.onnx_parity import check_parity
from rillflow.results.optional_libraries import needs
from rillflow.results.player import algorithm_name, env_name
from rillflow.results.policy_of import HasPolicy, policy_of

if TYPE_CHECKING:
    from rillflow.results.trained import Trained


def export_onnx(trained: Trained | HasPolicy, path: str | Path) -> Path:
    """Write the acting network: `export_onnx(trained, "pole.onnx")`.

    A program that runs it needs onnxruntime alone:

        session = onnxruntime.InferenceSession("pole.onnx")
        action, logits = session.run(None, {"observation": observations})

    Inputs and outputs have the batch as their first axis, of any size:

    - `observation`: float32, or uint8 for images, as the policy was trained on; of several parts
      each is an input, such as `observation.camera` or `observation.arm.0`, with discrete values as
      zeros and a one;
    - `action_mask`: which actions are allowed, as truth values, if the environment says it;
    - `state` and `start`, for a policy that remembers: what it returned as `next_state` (zeros at
      first), and true where an episode begins;
    - `action`: the most likely one; a continuous one is clipped to the bounds of its space;
    - `logits`, `mean` or `q_values`: what it was chosen by; `outputs`, of a policy that squeezes
      actions into their bounds: means, then logarithms of standard deviations if it draws;
    - `next_state`, for a policy that remembers.

    The file tells in its metadata what it was trained with and what it takes. It is run before it
    is given its name: if it does not act as the policy does, nothing is written.
    """
    path = path_ending_in(path, (".onnx",), "an exported policy")
    policy: Trained = policy_of(trained)
    onnx = needs("onnx", "onnx", "an export")
    if isinstance(policy.spec.model, str) and not policy.spec.packed:
        model = onnx_builtin_networks.build(policy.spec, policy.weights)
    else:
        from rillflow.results.onnx_own_networks import trace

        model = trace(policy.spec, policy.weights)
    describe(onnx, model, policy)
    with whole_file(path) as part:
        onnx.checker.check_model(model, full_check=True)
        onnx.save_model(model, str(part))
        check_parity(part, policy.spec, policy.weights)
    return path


def describe(onnx: Any, model: Any, trained: Trained) -> None:
    """Write into a model where it comes from and what it takes."""
    from rillflow import __version__

    spec = trained.spec
    data = spec_to_data(spec)
    model.producer_name, model.producer_version = "rillflow", __version__
    model.doc_string = f"{algorithm_name(trained)} trained on {env_name(trained)}, greedy actions"
    facts = {
        "algorithm": algorithm_name(trained),
        "env": env_name(trained),
        "env_config": json.dumps(trained.config.env_config, default=repr),
        "preprocessing": json.dumps(vars(trained.config.preprocessing)),
        "observation_space": to_json(data["observation_space"]),
        "action_space": to_json(data["action_space"]),
        "model": spec.model if isinstance(spec.model, str) else str(data["model"]["own"]),
        "memory": spec.memory or "none",
        "head": spec.head,
        "recurrent": json.dumps(bool(spec.recurrent)),
    }
    onnx.helper.set_model_props(model, facts)
