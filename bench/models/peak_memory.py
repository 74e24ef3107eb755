"""The peak memory of a process that loads a model and runs it once, in MiB.

``python -m bench.models.peak_memory onnxruntime|ndgather MODEL INPUTS``, inputs as pickled.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnxruntime


def peaks_mib(path: str, feeds: dict[str, Any]) -> list[float]:
    """Return the peak memory of our run and of onnxruntime's, each in a new process."""
    with TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs"
        inputs.write_bytes(pickle.dumps(feeds))
        peaks = []
        for which in ("ndgather", "onnxruntime"):
            command = [sys.executable, "-m", "bench.models.peak_memory", which, path, str(inputs)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            peaks.append(float(done.stdout) if done.returncode == 0 else float("nan"))
    return peaks


def main(which: str, path: str, inputs: str) -> None:
    feeds = pickle.loads(Path(inputs).read_bytes())
    if which == "ndgather":
        from ndgather.models import onnx  # noqa: PLC0415 - not what onnxruntime alone needs

        onnx.run(path, feeds, runtime="onnxruntime")
    else:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        session.run(None, feeds)
    # Not ru_maxrss, which begins at the peak of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
