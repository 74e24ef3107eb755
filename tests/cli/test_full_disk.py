"""On a full disk, all existing files survive unchanged, and no other file is left.

A limit on the file size stands in for the disk, because writes beyond it fail in the same place. If
Linux user namespaces allow mounting a small disk, the tests fill that disk as well.
"""

import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
import xarray
from onnx import TensorProto, helper, numpy_helper

resource = pytest.importorskip("resource")

LIMIT = 4096
LIMITED = f"""
import resource, sys
from pathlib import Path
from ndgather.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
contents = lambda: {{path.name: path.read_bytes() for path in Path(".").iterdir()}}
before = contents()
for line in sys.argv[1:]:
    assert main(line.split()) == 1, line
    assert contents() == before, line
"""
OLD = "what was there"
LARGE = np.arange(4 * LIMIT, dtype=np.int64)


@pytest.fixture
def files(folder):
    """Models with a large constant, their inputs, and existing files at the output paths."""
    graph = helper.make_graph(
        [
            helper.make_node("GatherND", ["large", "few"], ["small"], name="few"),
            helper.make_node("GatherND", ["large", "many"], ["big"], name="many"),
        ],
        "g",
        [
            helper.make_tensor_value_info("few", TensorProto.INT64, ["N", 1]),
            helper.make_tensor_value_info("many", TensorProto.INT64, ["M", 1]),
        ],
        [
            helper.make_tensor_value_info("small", TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("big", TensorProto.INT64, ["M"]),
        ],
        [numpy_helper.from_array(LARGE, "large")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(proto, "large.onnx")
    np.save("few.npy", np.array([[1]]))
    np.save("many.npy", LARGE[:, None])
    lat = np.arange(2.0 * LIMIT)
    xarray.Dataset({"v": ("lat", lat)}, {"lat": lat}).to_netcdf("d.nc", engine="h5netcdf")
    (folder / "p.csv").write_text("lat\n" + "".join(f"{label}\n" for label in lat))
    tables = ("out.csv", "out.csv.gz", "out.parquet", "out.nc")
    for name in ("out.npy", "out.pb", "out.onnx", "small.npy", "big.npy", *tables):
        (folder / name).write_text(OLD)
    return folder


RUN = "run large.onnx --input few=few.npy --input many=many.npy"
# Command lines and the files that their errors name.
LINES = [
    (f"{RUN} --output big=out.npy", "out.npy"),
    (f"{RUN} --output big=out.pb", "out.pb"),
    (f"{RUN} --output small=small.npy --output big=big.npy", "big.npy"),
    (f"{RUN} --output-dir .", "big.npy"),
    ("convert large.onnx --opset 14 -o out.onnx", "out.onnx"),
    *(
        (f"sel d.nc p.csv -o {name}", name)
        for name in ("out.csv", "out.csv.gz", "out.parquet", "out.nc")
    ),
]


def errors_of(words, lines):
    """Run a program with command lines; return the error that it prints for each."""
    done = subprocess.run([*words, *lines], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    errors = done.stderr.splitlines()
    assert len(errors) == len(lines)
    return errors


@pytest.mark.usefixtures("files")
def test_existing_files_survive_a_failed_write():
    lines = [line for line, _ in LINES]
    for error, (line, named) in zip(
        errors_of([sys.executable, "-c", LIMITED], lines), LINES, strict=True
    ):
        assert error == (
            f"ndgather {line.split()[0]}: error: {named}: cannot be written: file too large"
        )


ON_A_FULL_DISK = """
import errno, os, subprocess, sys
from pathlib import Path
from shutil import copytree
from ndgather.cli import main

files, disk, *lines = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
copytree(files, disk, dirs_exist_ok=True)
os.chdir(disk)
try:
    with open("filler", "wb", buffering=0) as filler:
        while filler.write(bytes(1024)) == 1024:
            pass
except OSError as error:
    assert error.errno == errno.ENOSPC
contents = lambda: {path.name: path.read_bytes() for path in Path(".").iterdir()}
before = contents()
for line in lines:
    assert main(line.split()) == 1, line
    assert contents() == before, line
"""
OF_OWN = ["unshare", "--user", "--map-root-user", "--mount"]


def can_have_a_disk(folder):
    mount = [*OF_OWN, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    try:
        return subprocess.run(mount, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def test_existing_files_survive_a_full_disk(files, tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    if not can_have_a_disk(disk):
        pytest.skip("no file system of one's own can be mounted")
    words = [*OF_OWN, sys.executable, "-c", ON_A_FULL_DISK, str(files), str(disk)]
    for error in errors_of(words, [line for line, _ in LINES]):
        assert re.fullmatch(
            r"ndgather [\w-]+: error: [\w.]+: cannot be written: no space left on device", error
        )


def test_all_files_are_replaced_without_the_limit(files, ndgather):
    for line, named in LINES:
        assert ndgather(line).status == 0
        assert (files / named).read_bytes() != OLD.encode()
    np.testing.assert_array_equal(np.load("big.npy"), LARGE, strict=True)
    np.testing.assert_array_equal(np.load("small.npy"), LARGE[1:2], strict=True)


def test_two_outputs_in_one_file_are_an_error(files, ndgather):
    refused = ndgather(f"{RUN} --output small=out.npy --output big=./../{files.name}/out.npy")

    assert refused.status == 1
    assert "output 'big' and another output would both be written there" in refused.err
    assert (files / "out.npy").read_text() == OLD
