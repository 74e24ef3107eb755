"""Files take their places whole, and together: where one cannot, none has."""

import os
import sys
from pathlib import Path

import pytest

from ndgather.errors import FileError
from ndgather.models.tensors import tensor_files

TEXT = {"a": "old a", "b": "old b"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in TEXT.items():
        Path(name).write_text(text)
    return tmp_path


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def writing(text):
    return lambda part: part.write_text(text)


def test_all_files_are_made_before_one_takes_its_place(here):
    seen = []

    def make(part):
        seen.append(texts(here))
        part.write_text("new b")

    tensor_files.replace_file((Path("a"), writing("new a")), (Path("b"), make))

    assert [{name: each[name] for name in TEXT} for each in seen] == [TEXT]
    assert texts(here) == {"a": "new a", "b": "new b"}


@pytest.mark.parametrize("error", [OSError, MemoryError, KeyboardInterrupt])
def test_where_the_second_cannot_be_made_the_first_stays(here, error):
    def make(part):
        part.write_text("half of")
        raise error(28, "No space left on device")

    with pytest.raises(FileError if error is OSError else error) as caught:
        tensor_files.replace_file((Path("a"), writing("new a")), (Path("b"), make))

    if error is OSError:
        assert str(caught.value) == "b: cannot be written: no space left on device"
    assert texts(here) == TEXT


@pytest.mark.skipif(not hasattr(os, "link"), reason="this system has no hard links")
@pytest.mark.parametrize("name", ["a", "new"])
def test_where_the_second_cannot_take_its_place_the_first_is_taken_back(here, name):
    Path("folder").mkdir()
    Path("folder/in it").touch()

    with pytest.raises(FileError, match=r"^folder: cannot be written: "):
        tensor_files.replace_file((Path(name), writing("new")), (Path("folder"), writing("new")))

    assert texts(here) == TEXT
    assert sorted(path.name for path in here.iterdir()) == ["a", "b", "folder"]


def test_an_unfinished_file_is_beside_its_place_and_goes(here):
    names = []

    def make(part):
        part.write_text("half of")
        names.append(part.relative_to(here.resolve()).as_posix())
        raise FileError("the reason")

    with pytest.raises(FileError, match=r"^the reason$"):
        tensor_files.replace_file((Path("a"), make))

    assert names[0].startswith(".ndgather-")
    assert texts(here) == TEXT


def test_a_folder_that_is_not_there_is_named(here):
    with pytest.raises(FileError, match=r"^none.a: cannot be written: no such file or directory$"):
        tensor_files.replace_file((Path("none/a"), writing("new")))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc takes no files of anyone")
def test_a_folder_that_takes_no_files_is_named():
    with pytest.raises(FileError, match=r"^/proc/a: cannot be written: "):
        tensor_files.replace_file((Path("/proc/a"), writing("new")))
