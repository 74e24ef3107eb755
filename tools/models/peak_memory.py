"""Child process: the peak memory of loading a model and running it once, in MiB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime

from tools.child_process import serve


def peak_mib(which: str, path: str, inputs: dict[str, Any]) -> float:
    """Return the peak memory of this process: "ndgather" runs the model, or "alone" onnxruntime."""
    if which == "ndgather":
        from ndgather.models import onnx  # noqa: PLC0415 - onnxruntime alone does not need it

        onnx.run(path, inputs, runtime="onnxruntime")
    else:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        session.run(None, inputs)
    # Not ru_maxrss, which starts at the peak of the parent process.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    serve(peak_mib)
