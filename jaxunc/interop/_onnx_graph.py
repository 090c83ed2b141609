"""An ONNX graph in the making: nodes, each named by what it gives, and constants, each once."""

from typing import Any

import numpy as np

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 3}
"""Versions of the operators: the oldest that have what is needed, so that old runtimes read the model."""
IR_VERSION = 8
TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11}
"""ONNX's numbers of types that the graph computes with."""
LARGEST = 2**31 - 2**20
"""Bytes that a file of protocol buffers may have, less some for what is around the nodes."""


class Graph:
    """Nodes and constants of a graph. Values are known by their names."""

    def __init__(self) -> None:
        import onnx  # pyright: ignore[reportMissingImports]

        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._names = 0
        self.properties: dict[str, str] = {}
        """What the model's metadata say beside what `model` is given."""

    def node(
        self, op: str, *inputs: str, domain: str = "", output: str | None = None, unnamed: int = 0, **attributes: Any
    ) -> str:
        """Add a node; return the name of its first output, behind which are so many that nobody asks for."""
        outputs = [output or self._name(), *(self._name() for _ in range(unnamed))]
        self._nodes.append(self._onnx.helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, values: Any) -> str:
        """Return the name of an array; texts are an array of them."""
        array = np.asarray(values)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            array = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = self._onnx.numpy_helper.from_array(array, self._name())
        return self._constants[key].name

    def tensor(self, array: np.ndarray) -> Any:
        """Return an array as the value of an attribute."""
        return self._onnx.numpy_helper.from_array(np.ascontiguousarray(array))

    def cast(self, name: str, dtype: Any) -> str:
        """Return the name of the values in another type."""
        return self.node("Cast", name, to=TYPES[np.dtype(dtype).name])

    def rows(self, name: str) -> str:
        """Return the name of the number of rows of a tensor, ``[1]``."""
        return self.node("Shape", name, start=0, end=1)

    def model(
        self,
        given: tuple[str, Any, int],
        outputs: dict[str, tuple[Any, tuple[Any, ...]]],
        properties: dict[str, str],
        version: str,
    ) -> Any:
        """Return the ``ModelProto``: input as name, type and columns, outputs with type and shape behind the rows."""
        helper, (name, dtype, n_columns) = self._onnx.helper, given
        kinds = {**TYPES, "str": 8}

        def info(name: str, dtype: Any, shape: tuple[Any, ...]) -> Any:
            return helper.make_tensor_value_info(name, kinds[dtype], ["instances", *shape])

        nodes, constants = self._reaching(outputs)
        graph = helper.make_graph(
            nodes,
            "jaxunc",
            [info(name, dtype, (n_columns,))],
            [info(output, dtype, shape) for output, (dtype, shape) in outputs.items()],
            constants,
        )
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="jaxunc")
        model.producer_version = version
        helper.set_model_props(model, properties | self.properties)
        return model

    def _reaching(self, outputs: Any) -> tuple[list[Any], list[Any]]:
        """The nodes and constants that outputs are made of."""
        wanted, nodes = set(outputs), []
        for node in reversed(self._nodes):
            if wanted & set(node.output):
                nodes.append(node)
                wanted |= set(node.input)
        return nodes[::-1], [one for one in self._constants.values() if one.name in wanted]

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"
