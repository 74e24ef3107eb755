"""The start page and the guide: all examples run in order, in one folder."""

from __future__ import annotations

import doctest
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import ndgather
from bench import stations
from ndgather.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
# tests/frameworks runs these.
QUESTIONS = sorted((GUIDE.parent / "questions").glob("*.md"))
FRAMEWORKS = (
    GUIDE / "torch.md",
    GUIDE / "torch-on-a-gpu.md",
    GUIDE / "jax.md",
    GUIDE / "rows-of-different-lengths.md",
    GUIDE / "which-index.md",
)
PAGES = [GUIDE.parent / "index.md", *sorted({*GUIDE.rglob("*.md"), *QUESTIONS} - set(FRAMEWORKS))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the guide's commands use, as the working directory."""
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", np.array([[0, 0, 0], [23, 39, 59]]))
    axes = {"time": [0, 1], "lat": [-10.0, 0.0, 10.0], "lon": np.arange(0.0, 360, 90)}
    values = np.arange(24.0).reshape(2, 3, 4)
    xr.Dataset({"sst": (tuple(axes), values)}, axes).to_netcdf("sst.nc", engine="h5netcdf")
    Path("track.csv").write_text("ship,time,lat,lon\nA,0,1,-85\n")
    Path("stations.csv").write_text("name,latitude,longitude\nA,1,85\n")
    stations.write_field(tmp_path / "era5.nc")
    levels = stations.field(2, 10.0).rename(t2m="t").expand_dims(pressure_level=[1000, 850])
    levels["t"] = levels["t"] - xr.DataArray(np.array([0, 10], "f4"), dims="pressure_level")
    levels.to_netcdf("levels.nc", engine="h5netcdf")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_every_example_runs(page, folder):
    run_examples(page)


def run_examples(page):
    text = page.read_text()
    names = {}
    for block in BLOCK.finditer(text):
        language, content = block.groups()
        line = text.count("\n", 0, block.start(2))
        if language == "console":
            shown = re.split(r"^\$ (.*)\n", content, flags=re.MULTILINE)[1:]
            for command, output in zip(shown[::2], shown[1::2], strict=True):
                run_command(command, output)
            continue
        test = doctest.DocTestParser().get_doctest(content, names, page.name, str(page), line)
        told = []
        doctest.DocTestRunner().run(test, out=told.append, clear_globs=False)
        names = test.globs
        assert not told, "".join(told)


def run_command(command, output):
    """Run `ndgather`, or `cat` of a table, which creates the table the first time."""
    program, *words = shlex.split(command)
    if program == "cat":
        path = Path(words[0])
        if path.name not in {"along.csv", "profile.csv", "values.csv"}:
            path.write_text(output)
        assert path.read_text() == output
        return
    assert (program, output) == ("ndgather", ""), command
    assert main(words) == 0, command


@pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("openvino")), reason="it compares these two"
)
def test_shown_comparison_is_printed(folder, capsys):
    page = GUIDE / "compare-runtimes.md"
    run_examples(page)
    shown = re.search(
        r"^\$ ndgather (compare \S+ --inputs hard\.npz)\n(.*?)^```", page.read_text(), re.M | re.S
    )
    capsys.readouterr()
    assert main(shlex.split(shown[1])) == 1
    numbers = re.compile(
        r"-?(\d+\.\d*(e[-+]\d+)?|\bnan\b|\binf\b)"
    )  # memory out of bounds, and versions
    printed, shown = (numbers.sub("N", text) for text in (capsys.readouterr().out, shown[2]))
    assert printed.split() == shown.split()


def test_shown_target_reports_are_printed(folder, capsys):
    page = GUIDE / "restricted-targets.md"
    run_examples(page)
    shown = re.findall(r"^\$ ndgather (convert [^\n]*)\n(.*?)^```", page.read_text(), re.M | re.S)
    assert len(shown) == 2
    for command, text in shown:
        capsys.readouterr()
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == text
        assert max(map(len, text.splitlines())) <= 80


def test_pictures_of_duplicate_indices_have_different_results():
    gallery = (GUIDE.parent / "gallery.md").read_text()
    calls = re.findall(r"^show\.(scatter_nd\(.*\))$", gallery, re.MULTILINE)
    results = [str(eval(f"ndgather.{call}", {"ndgather": ndgather})) for call in calls[:2]]
    assert len(set(results)) == 2


def test_pages_agree_on_jax_derivatives():
    for page in (GUIDE / "torch.md", GUIDE / "jax.md", GUIDE.parent / "guarantees.md"):
        text = " ".join(page.read_text().split())
        assert re.search(r"every reduction|All reductions have derivatives", text), page
        assert "linear reductions" not in text
