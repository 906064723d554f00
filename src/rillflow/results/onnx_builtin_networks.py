"""The built-in networks as ONNX graphs, written node by node from their weights.

A network of ours is a handful of layers. Written by hand its graph has the names of the weights,
is the same for every version of torch, and needs neither torch nor a tracer to be made; that it
computes what the policy computes is checked by running it (`onnx_parity`). What `torch.onnx` takes
for the same is in docs/decisions/0012-onnx-graphs-by-hand.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.envs.layout import MASK, named
from rillflow.policies.action_masks import RULED_OUT
from rillflow.policies.action_units import bounds_of
from rillflow.policies.image_scale import PixelScale, pixel_scale
from rillflow.policies.normalizer import CLIP, Normalizer, moments_in
from rillflow.policies.spec import PolicySpec
from rillflow.results.optional_libraries import needs

Weights = Mapping[str, NDArray[Any]]

_ENDS = {"seen_low": -CLIP, "seen_high": CLIP}
"""of normalised observations"""
OPSET = 17
IR_VERSION = 8
"""old enough for runtimes of 2022, new enough for all that is used here"""


def output_name(spec: PolicySpec) -> str:
    """What the numbers behind the action are."""
    if spec.head == "q":
        return "q_values"
    if spec.bounded:
        return "outputs"
    names = {"continuous": "mean", "mixed": "logits_and_mean"}
    return names.get(spec.actions.kind, "logits")


def bounds(spec: PolicySpec) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest of the continuous numbers of an action, [*shape]."""
    return bounds_of(spec.action_space)


def build(spec: PolicySpec, weights: Weights) -> Any:
    """The acting half of a built-in network as an ONNX model.

    Inputs are `observation`, or its parts and `action_mask`, and, for a policy that remembers,
    `state` and `start`; outputs are `action`, what it was chosen by (`logits`, `mean`, `q_values`
    or `outputs`), and `next_state`.
    """
    return _Graph(spec, weights).model()


class _Graph:
    """Nodes and constants, added in the order in which they are computed."""

    def __init__(self, spec: PolicySpec, weights: Weights) -> None:
        self.onnx = needs("onnx", "onnx", "an export")
        self.helper = self.onnx.helper
        self.spec, self.weights = spec, weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def model(self) -> Any:
        spec, kinds = self.spec, self.onnx.TensorProto
        inputs = self._inputs()
        outputs = [
            self.tensor("action", self._action_kind(), *spec.actions.shape),
            self.tensor(output_name(spec), kinds.FLOAT, spec.width),
        ]
        features = self._image() if spec.image else self._vector()
        if spec.state_shape is not None:
            inputs += [
                self.tensor("state", kinds.FLOAT, *spec.state_shape),
                self.tensor("start", kinds.BOOL),
            ]
            outputs.append(self.tensor("next_state", kinds.FLOAT, *spec.state_shape))
            features = self._lstm(features) if spec.memory == "lstm" else self._gru(features)
        self._heads(features)
        self._action()
        graph = self.helper.make_graph(
            self.nodes, "policy", inputs, outputs, list(self.constants.values())
        )
        opset = [self.helper.make_opsetid("", OPSET)]
        return self.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)

    def _inputs(self) -> list[Any]:
        """The observation, or its parts and the mask."""
        spec, kinds = self.spec, self.onnx.TensorProto
        if spec.layout is None:
            kind = kinds.UINT8 if spec.observation_space.dtype == np.uint8 else kinds.FLOAT
            return [self.tensor("observation", kind, *spec.observation_shape)]
        parts = spec.layout.vectors.items()
        inputs = [self.tensor(named(path), kinds.FLOAT, *part.shape) for path, part in parts]
        if spec.masked:
            inputs.append(self.tensor(MASK, kinds.BOOL, sum(spec.actions.choices)))
        return inputs

    # layers

    def _flat(self) -> str:
        """All numbers side by side."""
        if self.spec.layout is None:
            return self.node("Flatten", self._floats(), axis=1)
        flat = [self.node("Flatten", named(path), axis=1) for path in self.spec.layout.vectors]
        return self.node("Concat", *flat, axis=1) if len(flat) > 1 else flat[0]

    def _vector(self) -> str:
        x = self._flat()
        if self.spec.normalize_observations:
            x = self._normalized(x)
        if self.spec.observation_scale is not None:
            middle, factor = self.spec.observation_scale
            x = self.node("Sub", x, self.constant("middle", middle))
            x = self.node("Mul", x, self.constant("factor", factor))
        activation = {"tanh": "Tanh", "relu": "Relu"}[self.spec.activation]
        for index in range(len(self.spec.hidden)):
            x = self.node(activation, self.linear(x, f"trunk.{index}"))
        return x

    def _normalized(self, x: str) -> str:
        seen = Normalizer(moments_in(self.weights), self.spec.loosely)
        size = self.spec.observation_size  # behind the numbers there may be a mask
        x = self.node("Sub", x, self.constant("seen_mean", seen.middle[:size]))
        x = self.node("Mul", x, self.constant("seen_factor", seen.factor[:size]))
        ends = (self.constant(name, np.float32(end)) for name, end in _ENDS.items())
        return self.node("Clip", x, *ends)

    def _floats(self) -> str:
        if self.spec.observation_space.dtype != np.uint8:
            return "observation"
        return self.node("Cast", "observation", to=self.onnx.TensorProto.FLOAT)

    def _image(self) -> str:
        image, plan = self.spec.image, self.spec.convolutions
        assert image is not None
        x = self._floats()
        if image.order == "last":
            x = self.node("Transpose", x, perm=[0, 3, 1, 2])
        elif image.order == "none":
            x = self.node("Unsqueeze", x, self.constant("channel_axis", np.array([1])))
        if plan.pool > 1:
            sides = [plan.pool, plan.pool]
            x = self.node("AveragePool", x, kernel_shape=sides, strides=sides)
        x = self._scaled(x, pixel_scale(self.spec.observation_space, image))
        for number, layer in enumerate(plan.layers, start=1):
            name = f"trunk.conv{number}"
            given = (x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
            pads = [*layer.padding, *layer.padding]
            seen = self.node("Conv", *given, strides=[*layer.stride], pads=pads)
            x = self.node("Relu", seen)
        return self.node("Relu", self.linear(self.node("Flatten", x, axis=1), "trunk.dense"))

    def _scaled(self, x: str, scale: PixelScale) -> str:
        if scale.white is not None:
            return self.node("Div", x, self.constant("white", np.float32(scale.white)))
        low, factor = (numbers[:, None, None] for numbers in (scale.low, scale.factor))
        x = self.node("Sub", x, self.constant("darkest", low))
        return self.node("Mul", x, self.constant("brightness", factor))

    def _lstm(self, features: str) -> str:
        """One step; the state [B, 2, size] is hidden on top of cell."""
        axis = self.constant("first_axis", np.array([0]))
        last = self.constant("later_axes", np.array([1, 2]))
        start = self.node("Unsqueeze", "start", last)
        state = self.node("Where", start, self.constant("nothing", np.float32(0)), "state")
        state = self.node("Transpose", state, perm=[1, 0, 2])
        hidden, cell = self.split(state, [1, 1], axis=0)
        none = ""  # no lengths of sequences: there is one step
        # torch has the gates as input, forget, cell, output; ONNX input, output, forget, cell
        weights = self._cell_weights("lstm", (0, 3, 1, 2))
        given = [self.node("Unsqueeze", features, axis), *weights, none, hidden, cell]
        _, hidden, cell = self.several("LSTM", 3, *given, hidden_size=self.spec.memory_size)
        both = self.node("Concat", hidden, cell, axis=0)
        self.node("Transpose", both, name="next_state", perm=[1, 0, 2])
        return self.node("Squeeze", hidden, axis)

    def _gru(self, features: str) -> str:
        """One step; the state [B, size] is what the heads see too."""
        axis = self.constant("first_axis", np.array([0]))
        start = self.node("Unsqueeze", "start", self.constant("last_axis", np.array([1])))
        state = self.node("Where", start, self.constant("nothing", np.float32(0)), "state")
        # torch has the gates as reset, update, new; ONNX update, reset, new
        weights = self._cell_weights("gru", (1, 0, 2))
        before = self.node("Unsqueeze", state, axis)
        given = [self.node("Unsqueeze", features, axis), *weights, "", before]
        sizes = {"hidden_size": self.spec.memory_size, "linear_before_reset": 1}  # as torch does it
        _, hidden = self.several("GRU", 2, *given, **sizes)
        return self.node("Squeeze", hidden, axis, name="next_state")

    def _cell_weights(self, kind: str, order: tuple[int, ...]) -> list[str]:
        """Weights of a memory, with its gates in the order of ONNX."""

        def ordered(name: str) -> NDArray[Any]:
            gates = np.split(self.weights[f"{kind}.{name}"], len(order))
            return np.concatenate([gates[index] for index in order])[None]

        bias = np.concatenate([ordered("bias_ih_l0"), ordered("bias_hh_l0")], axis=1)
        arrays = {"W": ordered("weight_ih_l0"), "R": ordered("weight_hh_l0"), "B": bias}
        return [self.constant(f"{kind}.{name}", array) for name, array in arrays.items()]

    def _heads(self, features: str) -> None:
        outputs = output_name(self.spec)
        if not self.spec.masked:
            self._head(features, outputs)
            return
        self._head(features, f"{outputs}_of_all")
        ruled_out = self.constant("ruled_out", RULED_OUT)
        if self.spec.actions.kind != "mixed":
            self.node("Where", MASK, f"{outputs}_of_all", ruled_out, name=outputs)
            return
        logits, means = self._choices_and_numbers(f"{outputs}_of_all")
        self.node(
            "Concat", self.node("Where", MASK, logits, ruled_out), means, name=outputs, axis=1
        )

    def _head(self, features: str, name: str) -> None:
        if self.spec.num_atoms > 1:
            self._mean_return(features, name)
            return
        if self.spec.mean_units is not None:
            names = ("mean_middle", "mean_half")
            middle, half = map(self.constant, names, self.spec.mean_units)
            scaled = self.node("Mul", self.linear(features, "action_head"), half)
            self.node("Add", scaled, middle, name=name)
            return
        if not self.spec.dueling:
            self.linear(features, "action_head", name=name)
            return
        advantages = self.linear(features, "action_head")
        value = self.linear(features, "value_head")
        average = self.node("ReduceMean", advantages, axes=[1], keepdims=1)
        self.node("Add", value, self.node("Sub", advantages, average), name=name)

    def _mean_return(self, features: str, name: str) -> None:
        """Distributions of returns over atoms, by their means."""
        width, atoms = self.spec.width, self.spec.num_atoms
        shape = self.constant("actions_and_atoms", np.array([-1, width, atoms]))
        logits = self.node("Reshape", self.linear(features, "action_head"), shape)
        if self.spec.dueling:
            axis = self.constant("action_axis", np.array([1]))
            value = self.node("Unsqueeze", self.linear(features, "value_head"), axis)
            average = self.node("ReduceMean", logits, axes=[1], keepdims=1)
            logits = self.node("Add", value, self.node("Sub", logits, average))
        chances = self.node("Softmax", logits, axis=2)
        self.node("MatMul", chances, self.constant("atoms", self.spec.atoms), name=name)

    def _action(self) -> None:
        actions, outputs = self.spec.actions, output_name(self.spec)
        if actions.kind == "discrete":
            self.node("ArgMax", outputs, name="action", axis=1, keepdims=0)
            return
        if actions.kind == "mixed":
            logits, means = self._choices_and_numbers(outputs)
            indices = self.node("Cast", self._best(logits), to=self.onnx.TensorProto.FLOAT)
            self.node("Concat", indices, self._clipped(means), name="action", axis=1)
            return
        shape = self.constant("action_shape", np.array([-1, *actions.shape]))
        if actions.kind == "multidiscrete":
            self.node("Reshape", self._best(outputs), shape, name="action")
            return
        if self.spec.bounded:
            self._within(outputs, shape)
            return
        self._clipped(self.node("Reshape", outputs, shape), name="action")

    def _choices_and_numbers(self, outputs: str) -> list[str]:
        """Logits, and what is behind them."""
        actions = self.spec.actions
        return self.split(outputs, [sum(actions.choices), actions.numbers], axis=1)

    def _best(self, logits: str) -> str:
        """Of each part the choice with the highest logit, [N, parts]."""
        parts = self.split(logits, list(self.spec.actions.choices), axis=1)
        best = [self.node("ArgMax", part, axis=1, keepdims=1) for part in parts]
        return self.node("Concat", *best, axis=1)

    def _clipped(self, means: str, name: str | None = None) -> str:
        """Within the bounds: an environment clips actions, whoever deploys them has to do it."""
        low, high = (self.constant(*pair) for pair in zip(("low", "high"), bounds(self.spec),
                                                          strict=True))  # fmt: skip
        return self.node("Min", self.node("Max", means, low), high, name=name)

    def _within(self, outputs: str, shape: str) -> None:
        """The middle action, squeezed into its bounds."""
        width = self.spec.actions.width
        if self.spec.width > width:
            outputs = self.split(outputs, [width, width], axis=1)[0]
        names = ("action_middle", "action_half")
        middle, half = map(self.constant, names, self.spec.action_scale)
        squeezed = self.node("Mul", self.node("Tanh", outputs), half)
        self.node("Reshape", self.node("Add", squeezed, middle), shape, name="action")

    # pieces

    def tensor(self, name: str, kind: int, *shape: int) -> Any:
        return self.helper.make_tensor_value_info(name, kind, ["batch", *shape])

    def _action_kind(self) -> int:
        kinds = self.onnx.TensorProto
        return int(kinds.FLOAT if self.spec.actions.numbers else kinds.INT64)

    def constant(self, name: str, array: NDArray[Any] | np.generic) -> str:
        # from_array keeps a shape without axes, which ascontiguousarray would not
        self.constants[name] = self.onnx.numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name].astype(np.float32))

    def linear(self, x: str, layer: str, name: str | None = None) -> str:
        given = (x, self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias"))
        return self.node("Gemm", *given, name=name, transB=1)

    def split(self, x: str, sizes: list[int], axis: int) -> list[str]:
        lengths = self.constant(f"{x}_sizes", np.array(sizes))
        return self.several("Split", len(sizes), x, lengths, axis=axis)

    def node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        output = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def several(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        base = f"{kind.lower()}_{len(self.nodes)}"
        outputs = [f"{base}_{index}" for index in range(count)]
        self.nodes.append(self.helper.make_node(kind, inputs, outputs, base, **attributes))
        return outputs
