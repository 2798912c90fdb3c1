"""Writes the graph of a sentence encoder for onnxruntime: python scripts/encoder_graph.py FOLDER --out GRAPH

FOLDER holds an encoder of the BERT architecture in the transformers layout; its ``config.json`` and the shapes in its
``model.safetensors`` are all that is read. The graph takes the word pieces of one text and gives the last layer, shape
(pieces, hidden size). It holds no weights: each has the name, the shape and the layout that it has in
``model.safetensors`` and is handed over when a session is made. Needs the package ``onnx``; what ships was written
with onnx 1.23.2. The default encoder's graph:

    python scripts/encoder_graph.py --out src/sottovoce/data/embedded/graph.onnx
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open

from sottovoce.models.embedded.sentence_encoder import encoder_folder

OPSET, IR_VERSION = 20, 9
ARCHITECTURE = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}


class Graph:
    """Nodes in the order of their computation, and the weights that they name."""

    def __init__(self, shapes: dict[str, list[int]]) -> None:
        self._shapes = shapes
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node and returns the name of its output."""
        output = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def weight(self, name: str) -> str:
        """Names a weight of the file, which is handed over with the session."""
        if name not in self._initializers:
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=self._shapes[name])
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="handed over")
            self._initializers[name] = tensor
        return name

    def whole(self, name: str, *numbers: int) -> str:
        """A small list of whole numbers, such as a shape."""
        self._initializers[name] = numpy_helper.from_array(np.array(numbers, np.int64), name)
        return name

    def number(self, name: str, value: float) -> str:
        self._initializers[name] = numpy_helper.from_array(np.array(value, np.float32), name)
        return name

    def linear(self, part: str, values: str) -> str:
        """A linear layer; its matrix stays as it lies in the file, (outputs, inputs)."""
        return self.add("Gemm", values, self.weight(f"{part}.weight"), self.weight(f"{part}.bias"), transB=1)

    def normalised(self, part: str, values: str, epsilon: float) -> str:
        scale, shift = self.weight(f"{part}.weight"), self.weight(f"{part}.bias")
        return self.add("LayerNormalization", values, scale, shift, axis=-1, epsilon=epsilon)

    def model(self, output: str, hidden: int) -> Any:
        """The graph from ``ids`` to ``last``."""
        self._nodes.append(helper.make_node("Identity", [output], ["last"]))
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["pieces"])
        last = helper.make_tensor_value_info("last", TensorProto.FLOAT, ["pieces", hidden])
        graph = helper.make_graph(self._nodes, "encoder", [ids], [last], list(self._initializers.values()))
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="sottovoce"
        )


def encoder_graph(config: dict[str, Any], shapes: dict[str, list[int]]) -> Any:
    """The encoder as an ONNX model without weights.

    Args:
        config: Of the encoder, as in ``config.json``.
        shapes: Of the weights, by name.
    """
    graph, hidden, epsilon = Graph(shapes), config["hidden_size"], config["layer_norm_eps"]
    graph.whole("zero", 0)
    graph.whole("one", 1)
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "ids")
    length = graph.add("Shape", "ids")
    places = graph.add("Slice", graph.weight("embeddings.position_embeddings.weight"), "zero", length, "zero")
    kind = graph.add("Slice", graph.weight("embeddings.token_type_embeddings.weight"), "zero", "one", "zero")
    values = graph.add("Add", graph.add("Add", words, kind), places)
    values = graph.normalised("embeddings.LayerNorm", values, epsilon)
    heads = config["num_attention_heads"]
    graph.whole("heads", -1, heads, hidden // heads)
    graph.whole("joined", -1, hidden)
    graph.number("scale", (hidden // heads) ** -0.5)
    for layer in range(config["num_hidden_layers"]):
        part = f"encoder.layer.{layer}"
        heard = graph.linear(f"{part}.attention.output.dense", attended(graph, f"{part}.attention.self", values))
        values = graph.normalised(f"{part}.attention.output.LayerNorm", graph.add("Add", heard, values), epsilon)
        wide = graph.add("Gelu", graph.linear(f"{part}.intermediate.dense", values), approximate="none")
        narrow = graph.linear(f"{part}.output.dense", wide)
        values = graph.normalised(f"{part}.output.LayerNorm", graph.add("Add", narrow, values), epsilon)
    return graph.model(values, hidden)


def attended(graph: Graph, part: str, values: str) -> str:
    """Self-attention over the pieces, its heads side by side again: shape (pieces, hidden size)."""

    def split(name: str, order: list[int]) -> str:
        return graph.add("Transpose", graph.add("Reshape", graph.linear(f"{part}.{name}", values), "heads"), perm=order)

    queries, keys, contents = split("query", [1, 0, 2]), split("key", [1, 2, 0]), split("value", [1, 0, 2])
    weights = graph.add("Softmax", graph.add("Mul", graph.add("MatMul", queries, keys), "scale"), axis=-1)
    heard = graph.add("Transpose", graph.add("MatMul", weights, contents), perm=[1, 0, 2])
    return graph.add("Reshape", heard, "joined")


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the graph of a sentence encoder for onnxruntime.")
    parser.add_argument("folder", nargs="?", help="the encoder's folder; the default encoder's if left out")
    parser.add_argument("--out", type=Path, required=True, help="the graph to write, GRAPH.onnx")
    arguments = parser.parse_args()
    folder = encoder_folder(arguments.folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for key, value in ARCHITECTURE.items():
        if config.get(key, value) != value:
            print(f"{folder / 'config.json'}: {key} is {config[key]!r}; only {value!r} is known.", file=sys.stderr)
            return 2
    with safe_open(folder / "model.safetensors", "np") as stored:
        shapes = {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
    model = encoder_graph(config, shapes)
    content = model.SerializeToString(deterministic=True)
    arguments.out.write_bytes(content)
    print(f"{arguments.out.name}: {len(content)} bytes, onnx {onnx.__version__}")
    print(f"SHA-256 {hashlib.sha256(content).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
