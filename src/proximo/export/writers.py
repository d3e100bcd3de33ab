"""The two files that a graph can become: ONNX, and PyTorch's own program (``.pt2``)."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from proximo.data import Array
from proximo.errors import ExportError, MissingExtraError
from proximo.export.graph import first_words
from proximo.export.interface import Interface

TALKATIVE = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")
METADATA_FILE = "policy.json"  # in a .pt2


class Format(Protocol):
    """How a file is made, and how it is run to be compared."""

    runtime: str  # what runs it, for people

    def write(
        self, program: torch.export.ExportedProgram, interface: Interface, metadata: Mapping[str, Any]
    ) -> bytes: ...

    def load(self, data: bytes) -> None: ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...


class OnnxFile:
    """ONNX: one file, run here and checked by ONNX Runtime."""

    def __init__(self) -> None:
        try:
            import onnx  # noqa: F401
            import onnxruntime
            import onnxscript  # noqa: F401
        except ImportError as error:
            missing = error.name or "onnx"
            raise MissingExtraError(missing.partition(".")[0], "export", "writing an ONNX file") from error
        self.runtime = f"ONNX Runtime {onnxruntime.__version__}"
        self._session: Any = None

    def write(self, program: torch.export.ExportedProgram, interface: Interface, metadata: Mapping[str, Any]) -> bytes:
        import onnx

        names: dict[str, Any] = {
            "input_names": [port.name for port in interface.inputs],
            "output_names": [port.name for port in interface.outputs],
        }
        try:
            with _quietly():
                converted: Any = torch.onnx.export(program, **names, external_data=False, verbose=False)
        except Exception as error:
            raise ExportError(
                f"PyTorch cannot write this network as ONNX: {first_words(error)}\n"
                "A file that ends with .pt2 holds it as PyTorch's own program"
            ) from error
        model: onnx.ModelProto = converted.model_proto
        _tidy(model.graph)
        model.producer_name, model.producer_version = "proximo", metadata["versions"]["proximo"]
        onnx.helper.set_model_props(model, {name: json.dumps(value) for name, value in metadata.items()})
        return model.SerializeToString()

    def load(self, data: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors; of a policy there is nothing to warn about
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))


class TorchFile:
    """``torch.export``'s file: a program for PyTorch, in Python or C++, without the code it came from."""

    def __init__(self) -> None:
        self.runtime = f"PyTorch {torch.__version__}"
        self._module: Any = None

    def write(self, program: torch.export.ExportedProgram, interface: Interface, metadata: Mapping[str, Any]) -> bytes:
        stream = io.BytesIO()
        with _quietly():
            torch.export.save(program, stream, extra_files={METADATA_FILE: json.dumps(metadata)})
        return stream.getvalue()

    def load(self, data: bytes) -> None:
        with _quietly():
            self._module = torch.export.load(io.BytesIO(data)).module()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            outputs = self._module({name: torch.as_tensor(value) for name, value in inputs.items()})
        return {name: np.asarray(value) for name, value in outputs.items()}


FORMATS: Mapping[str, type[Format]] = {".onnx": OnnxFile, ".pt2": TorchFile}


def format_of(ending: str) -> Format:
    """By the ending of the file's name."""
    if ending not in FORMATS:
        came = f"the ending {ending!r}" if ending else "no ending"
        raise ExportError(f"the file's name has {came}; expected one of {', '.join(FORMATS)}, such as policy.onnx")
    return FORMATS[ending]()


def _tidy(graph: Any) -> None:
    """Leave out names and notes of the tracing: source files of this machine among them."""
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.ClearField("metadata_props")
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.HasField("dim_param"):
                dimension.dim_param = "batch"
    for node in graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    graph.ClearField("metadata_props")
    graph.ClearField("doc_string")


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's remarks on packages that it could use, and on its own deprecated calls."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
