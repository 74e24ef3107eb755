"""Hints of commands, followed literally, do what the user meant."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import PICKED

LAT, LON = [10.0, 20.0, 30.0], [1.0, 2.0, 3.0, 4.0]
FIELD = np.arange(12.0).reshape(3, 4)
HINT = re.compile(r"(?:; |, |: )write (?P<text>.*?)(?: for .*|, a target.*|, or .*)?$")


def follow(ndgather, line, meant=None):
    """Run a command that fails, and then the command that its error recommends.

    `meant` has the user's values for placeholders such as FILE.
    """
    refused = ndgather(line)
    assert refused.status != 0, line
    error = refused.err.strip().splitlines()[-1]
    similar = re.search(r"(?:did you mean|the newest is) '([^']*)'\??$", error)
    hint = HINT.search(error)
    assert hint or similar, error
    if similar:
        wrong = re.search(r"'([^']*)' is|no \w+ '([^']*)'|: (\w+) is no", error)
        wrong = next(filter(None, wrong.groups()))
        return ndgather(re.sub(rf"(?<![\w.]){re.escape(wrong)}(?![\w.])", similar[1], line))
    text = hint["text"]
    for word, instead in (meant or {}).items():
        text = text.replace(word, instead)
    words = shlex.split(text)
    if not text.startswith("--"):
        return ndgather(line.replace(line.split()[1], words[0], 1))
    typed = line.split()
    given = [*typed]
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--target" and "--runtime" in given:  # a target is not a runtime
            given[given.index("--runtime")] = "--target"
        elif option == "--rename" and option in typed:
            given[given.index(option) + 1] = value
        else:
            given += [option, value]
    return ndgather(given)


@pytest.fixture
def grid(folder):
    xr = pytest.importorskip("xarray")
    coords = {
        "lat": ("lat", LAT, {"units": "degrees_north"}),
        "lon": ("lon", LON, {"units": "degrees_east"}),
    }
    xr.Dataset({"t": (("lat", "lon"), FIELD)}, coords).to_netcdf("grid.nc", engine="h5netcdf")
    return folder


NEAREST = [FIELD[0, 0], FIELD[1, 2]]
TABLES = {
    "exact labels": ("lat,lon\n11,1\n20,3\n", "", NEAREST),
    "labels outside": ("lat,lon\n80,1\n20,3\n", "--method nearest", [np.nan, FIELD[1, 2]]),
    "names": ("lati,lon\n10,1\n20,3\n", "", NEAREST),
    "a semicolon": ("lat;lon\n10;1\n20;3\n", "", NEAREST),
    "a tab": ("lat\tlon\n10\t1\n20\t3\n", "", NEAREST),
    "a bar": ("lat|lon\n10|1\n20|3\n", "", NEAREST),
    "a semicolon in rows with commas": ("lat;lon\n10,0;1,0\n20,0;3,0\n", "--decimal ,", NEAREST),
    "a decimal comma": ("lat;lon\n10,0;1,0\n20,0;3,0\n", "--separator ;", NEAREST),
    "swapped axes": ("lat,lon\n1,10\n3,20\n", "", NEAREST),
    "a number for missing values": (
        *("lat,lon\n-9999,1\n20,3\n", "--method nearest"),
        [np.nan, FIELD[1, 2]],
    ),
    "a variable": ("lat,lon\n10,1\n20,3\n", "--variable T", NEAREST),
    "a name that is the wrong way round": ("y2,lon\n10,1\n20,3\n", "--rename lat=y2", NEAREST),
}


@pytest.mark.parametrize(("table", "options", "wanted"), TABLES.values(), ids=TABLES)
def test_hints_of_sel_work(ndgather, grid, table, options, wanted):
    Path("points.csv").write_text(table)
    outcome = follow(ndgather, f"sel grid.nc points.csv -o out.csv {options}")
    assert outcome.status == 0, outcome.err
    lines = Path("out.csv").read_text().splitlines()[1:]
    separators = "[;\t|]" if re.search("[;\t|]", lines[0]) else ","
    found = [re.split(separators, line)[-1].replace(",", ".") for line in lines]
    np.testing.assert_array_equal([float(each or "nan") for each in found], wanted)


def test_hints_about_groups_work(ndgather, folder):
    xr = pytest.importorskip("xarray")
    coords = {"lat": LAT, "lon": LON}
    field = xr.Dataset({"t": (("lat", "lon"), FIELD)}, coords)
    xr.DataTree.from_dict({"/one": field}).to_netcdf("grid.nc", engine="h5netcdf")
    Path("points.csv").write_text("lat,lon\n10,1\n20,3\n")
    assert follow(ndgather, "sel grid.nc points.csv -o out.csv").status == 0
    assert Path("out.csv").read_text().splitlines()[1:] == ["10,1,0.0", "20,3,6.0"]


BOTH = "--input data=data.npy --input indices=indices.npy"
FILE = {"NAME=FILE": "indices=indices.npy", ", --inputs PLACE, --random": ""}
MODELS = {
    "a missing input": ("run model.onnx --input data=data.npy --output picked=out.npy", FILE),
    "an unknown input": (
        "run model.onnx --input daat=data.npy --input indices=indices.npy --output picked=out.npy",
        None,
    ),
    "an unknown runtime": (
        f"run model.onnx {BOTH} --runtime referenc --output picked=out.npy",
        None,
    ),
    "an unknown output": (f"run model.onnx {BOTH} --output pickd=out.npy", None),
}


@pytest.mark.parametrize(("line", "meant"), MODELS.values(), ids=MODELS)
def test_hints_of_run_work(ndgather, line, meant):
    outcome = follow(ndgather, line, meant)
    assert outcome.status == 0, outcome.err
    np.testing.assert_array_equal(np.load("out.npy"), PICKED)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("check model.onnx --runtime onnxrntime", ""),
        ("check model.onnx --runtime coreml", ""),
        ("check model.onnx --target tensorrt", ""),
        ("infer model.onnx --size h=7", "(7, 4)"),
        ("convert model.onnx -o out.onnx --target tensorrt --partial", "out.onnx"),
        ("convert model.onnx -o out.onnx --target tensort-8 --partial", "out.onnx"),
        ("convert model.onnx -o out.onnx --operator GatherN", "out.onnx"),
        ("infr model.onnx", "(H, 4)"),
        ("run model.onnx --random --size h=7", "picked"),
        ("compare model.onnx --random --runtime referenc --size H=7", "ran"),
    ],
)
def test_hints_of_model_commands_work(ndgather, line, text):
    outcome = follow(ndgather, line)
    assert outcome.err == ""
    assert text in outcome.out
