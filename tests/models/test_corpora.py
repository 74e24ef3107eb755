"""Inputs from fuzzing corpora give a result or a package error."""

import zipfile
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("defusedxml")
pytest.importorskip("resource", reason="limits memory")

from fuzz import ir_models, onnx_models
from fuzz.verdict import OUTSIDE, BrokenPromiseError, Desk
from ndgather.errors import ModelError, ShapeError

CORPORA = Path(__file__).parents[2] / "fuzz" / "corpus"


@pytest.mark.parametrize(("name", "reader"), [("onnx", onnx_models), ("ir", ir_models)])
def test_corpus_inputs_give_results_or_package_errors(name, reader):
    with zipfile.ZipFile(CORPORA / f"{name}.zip") as corpus:
        assert len(corpus.namelist()) > 100
        for each in corpus.namelist():
            try:
                reader.one_input(corpus.read(each))
            except Exception as error:
                error.add_note(f"of the input {each} in fuzz/corpus/{name}.zip")
                raise


@pytest.fixture
def desk():
    made = Desk()
    made.clear()
    return made


@pytest.mark.parametrize(
    ("error", "caught"),
    [
        (KeyError("x"), KeyError),
        (MemoryError(), MemoryError),
        (ShapeError("two\nlines"), BrokenPromiseError),
        (ModelError("x" * 10_001), BrokenPromiseError),
    ],
)
def test_other_errors_fail_the_fuzz_target(desk, error, caught):
    with pytest.raises(caught), desk.judged():
        raise error


def test_package_errors_pass_the_fuzz_target(desk):
    with desk.judged():
        raise ModelError("one line")
    with desk.judged(may_lack_memory=True):
        raise MemoryError


def test_reading_files_outside_the_folder_fails_the_fuzz_target(desk):
    outside = desk.folder.parent / "outside.bin"
    with pytest.raises(BrokenPromiseError, match="touched"), desk.judged():
        outside.read_bytes()
    with pytest.raises(BrokenPromiseError, match="touched"), desk.judged():
        (desk.folder / ".." / "outside.bin").read_bytes()
    with pytest.raises(BrokenPromiseError, match="holds what stands outside"), desk.judged():
        (desk.folder / "copy.bin").write_bytes(OUTSIDE)
    desk.clear()
    with desk.judged():
        (desk.folder / "weights.bin").read_bytes()
