"""Reading and writing tensor files."""

import os
import stat
import sys
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import FileError
from ndgather.models import tensor_files
from ndgather.models.tensor_files import content

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save_tensor(path, array):
    path.write_bytes(numpy_helper.from_array(array).SerializeToString())


@pytest.mark.parametrize(
    "array",
    [
        ARRAY,
        np.asfortranarray(ARRAY),
        ARRAY.astype(">f4"),
        np.array(3),
        np.zeros((0, 2)),
        np.array([("a", 1)], dtype=[("name", "U3"), ("count", "i4")]),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
    ],
    ids=["C", "Fortran", "big-endian", "rank 0", "empty", "records", "dates"],
)
def test_npy_files_are_mapped_read_only(here, array):
    np.save("a.npy", array)

    read = tensor_files.read(Path("a.npy"))

    np.testing.assert_array_equal(read, array, strict=True)
    assert isinstance(read.base, np.memmap)
    assert type(read) is np.ndarray
    assert not read.flags.writeable


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read(here, save):
    save("a.npz", first=ARRAY, second=np.array(1))

    read = tensor_files.read_archive(Path("a.npz"))

    assert list(read) == ["first", "second"]
    np.testing.assert_array_equal(read["first"], ARRAY, strict=True)
    np.testing.assert_array_equal(read["second"], np.array(1), strict=True)


@pytest.mark.parametrize(
    "array",
    [
        ARRAY,
        ARRAY.astype(ml_dtypes.bfloat16),
        ARRAY.astype(ml_dtypes.float8_e5m2),
        np.array([["a", "bé"]], object),
    ],
    ids=lambda array: str(array.dtype),
)
def test_onnx_tensors_keep_their_type(here, array):
    save_tensor(here / "a.pb", array)

    np.testing.assert_array_equal(tensor_files.read(Path("a.pb")), array, strict=True)


UNREADABLE = {
    "none.npy": "none.npy: cannot be read: no such file or directory",
    "none.npz": "none.npz: cannot be read: no such file or directory",
    "none.pb": "none.pb: cannot be read: no such file or directory",
    "folder.npy": "folder.npy: cannot be read: is a directory",
    "notes.txt": "notes.txt: unknown file type (allowed: .npy, .pb)",
    "text.npy": "text.npy: is not a complete .npy file: the magic string is not correct; ",
    "empty.npy": "empty.npy: is not a complete .npy file: EOF: reading magic string, ",
    "short.npy": "short.npy: is not a complete .npy file: mmap length is greater than file size",
    "huge.npy": "huge.npy: is not a complete .npy file: ",
    "objects.npy": "objects.npy: is not a complete .npy file: Array can't be memory-mapped: Python "
    "objects in dtype.",
    "objects.npz": "objects.npz: is not a complete .npz file: Object arrays cannot be loaded when ",
    "text.npz": "text.npz: is not a complete .npz file: ",
    "short.npz": "short.npz: is not a complete .npz file: File is not a zip file",
    "claims.npz": "claims.npz: is not a complete .npz file: ",
    "text.pb": (
        "text.pb: is not a complete TensorProto (.pb) file: Error parsing message with type "
        "'onnx.TensorProto': Wire format was corrupt"
    ),
    "latin.pb": (
        "latin.pb: is not a complete TensorProto (.pb) file: 'utf-8' codec can't decode byte 0xe9 "
        "in position 0: unexpected end of data"
    ),
}


def claiming(shape):
    """Return a .npy file that is too short for the shape in its header."""
    text = f"{{'descr': '<i2', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(("place", "text"), UNREADABLE.items(), ids=UNREADABLE)
def test_unreadable_files_are_refused(here, place, text):
    (here / "folder.npy").mkdir()
    for name in "notes.txt", "text.npy", "text.npz", "text.pb":
        (here / name).write_text("a text that is no array")
    (here / "empty.npy").touch()
    np.save("whole.npy", ARRAY)
    (here / "short.npy").write_bytes((here / "whole.npy").read_bytes()[:-1])
    (here / "huge.npy").write_bytes(claiming("(1152921504606846976,)"))
    np.save("objects.npy", np.array([{}], object))
    np.savez("objects.npz", o=np.array([{}], object))
    np.savez("whole.npz", a=ARRAY)
    (here / "short.npz").write_bytes((here / "whole.npz").read_bytes()[:-1])
    with zipfile.ZipFile("claims.npz", "w") as archive:
        archive.writestr("a.npy", claiming("(500,)"))
    latin = helper.make_tensor("s", TensorProto.STRING, [1], [b"\xe9"])
    (here / "latin.pb").write_bytes(latin.SerializeToString())

    read = tensor_files.read_archive if place.endswith(".npz") else tensor_files.read
    with pytest.raises(FileError) as refusal:
        read(Path(place))
    assert str(refusal.value).startswith(text)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "save", "read"),
    [
        ("a.npy", np.save, tensor_files.read),
        ("a.npz", np.savez, tensor_files.read_archive),
        ("a.npz", np.savez_compressed, tensor_files.read_archive),
    ],
)
def test_truncated_tensor_files_are_refused_in_one_line(here, name, save, read):
    save(name, ARRAY)
    whole = Path(name).read_bytes()
    for size in range(len(whole)):
        Path(name).write_bytes(whole[:size])
        with pytest.raises(FileError) as refusal:
            read(Path(name))
        assert str(refusal.value).startswith(f"{name}: is not a complete {Path(name).suffix} file")
        assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    "array",
    [ARRAY, ARRAY.T, np.array(3), np.zeros((0, 2)), np.array(["a", "bé"], object)],
    ids=["C", "transposed", "rank 0", "empty", "strings"],
)
def test_written_arrays_are_read_back(here, array):
    for name in "a.npy", "a.pb":
        tensor_files.write_all({here / name: array})
        read = tensor_files.read(Path(name))
        np.testing.assert_array_equal(read.astype(array.dtype), array, strict=True)


def test_strings_become_fixed_width(here):
    tensor_files.write_all({here / "a.npy": np.array(["a", "bé"], object)})

    np.testing.assert_array_equal(np.load("a.npy"), np.array(["a", "bé"]), strict=True)


def test_bits_of_types_unknown_to_npy_are_kept(here):
    array = ARRAY.astype(ml_dtypes.bfloat16)

    tensor_files.write_all({here / "a.npy": array})

    read = tensor_files.read(Path("a.npy"))
    assert read.dtype == np.dtype("V2")
    np.testing.assert_array_equal(read.view(ml_dtypes.bfloat16), array, strict=True)


UNWRITABLE = {
    "none/a.npy": (ARRAY, "none/a.npy: cannot be written: there is no folder none"),
    "folder.npy": (ARRAY, "folder.npy: cannot be written: exists and is not a regular file"),
    "a.txt": (ARRAY, "a.txt: unknown file type (allowed: .npy, .pb)"),
    "a.npy": (
        np.array(["ends in NUL\0"], object),
        "a.npy: cannot be written: dtype object with these values cannot be stored in a .npy file",
    ),
    "b.npy": (
        np.array([{}], object),
        "b.npy: cannot be written: dtype object with these values cannot be stored in a .npy file",
    ),
    "a.pb": (
        np.array(["2020-01-01"], "M8[D]"),
        "a.pb: cannot be written: dtype datetime64[D] cannot be stored in a TensorProto (.pb) file",
    ),
}


@pytest.mark.parametrize(("name", "case"), UNWRITABLE.items(), ids=UNWRITABLE)
def test_unwritable_arrays_are_refused(tmp_path, monkeypatch, name, case):
    monkeypatch.chdir(tmp_path)
    array, text = case
    (tmp_path / "folder.npy").mkdir()

    with pytest.raises(FileError) as refusal:
        tensor_files.write_all({Path(name): array})

    assert str(refusal.value) == text
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npy"]


class TestAnUnfinishedFile:
    """The old file is kept until the new file is complete, and temporary files are removed."""

    @pytest.fixture
    def old(self, here):
        np.save("a.npy", ARRAY)
        return here / "a.npy"

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
    def test_is_hidden_and_removed_after_an_error(self, old, error):
        def write(part):
            part.write_bytes(b"half of")
            np.testing.assert_array_equal(np.load(old), ARRAY, strict=True)
            raise error

        with pytest.raises(error):
            tensor_files.replace_file((old, write))

        np.testing.assert_array_equal(np.load(old), ARRAY, strict=True)
        assert [path.name for path in old.parent.iterdir()] == ["a.npy"]

    def test_is_removed_if_the_old_file_cannot_be_replaced(self, old, monkeypatch):
        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tensor_files.Path, "replace", refuse)

        with pytest.raises(FileError, match=r"a\.npy: cannot be written: permission denied$"):
            tensor_files.write_all({old: ARRAY + 1})

        np.testing.assert_array_equal(np.load(old), ARRAY, strict=True)
        assert [path.name for path in old.parent.iterdir()] == ["a.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are of POSIX")
def test_links_are_followed_and_default_modes_are_used(here):
    np.save("target.npy", ARRAY)
    (here / "link.npy").symlink_to("target.npy")

    tensor_files.write_all({here / "link.npy": ARRAY + 1})

    assert (here / "link.npy").is_symlink()
    np.testing.assert_array_equal(np.load("target.npy"), ARRAY + 1, strict=True)
    (here / "plain").touch()
    mode = stat.S_IMODE((here / "plain").stat().st_mode)
    assert stat.S_IMODE((here / "target.npy").stat().st_mode) == mode


GIB = 2**30


def test_short_files_need_little_memory(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"content")
    tracemalloc.start()
    try:
        assert content(path, 2 * GIB) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("most", [6, 7, 8])
def test_files_up_to_the_limit_are_read(tmp_path, most):
    path = tmp_path / "short"
    path.write_bytes(b"content")
    if most >= 7:
        assert content(path, most) == b"content"
    else:
        with pytest.raises(FileError, match="at most 6 bytes"):
            content(path, most)


TEXT = {"a": "old a", "b": "old b"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in TEXT.items():
        Path(name).write_text(text)
    return tmp_path


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def writing(text):
    return lambda part: part.write_text(text)


def test_all_files_are_written_before_any_is_replaced(folder):
    seen = []

    def make(part):
        seen.append(texts(folder))
        part.write_text("new b")

    tensor_files.replace_file((Path("a"), writing("new a")), (Path("b"), make))

    assert [{name: each[name] for name in TEXT} for each in seen] == [TEXT]
    assert texts(folder) == {"a": "new a", "b": "new b"}


@pytest.mark.parametrize("error", [OSError, MemoryError, KeyboardInterrupt])
def test_first_file_is_unchanged_if_the_second_cannot_be_written(folder, error):
    def make(part):
        part.write_text("half of")
        raise error(28, "No space left on device")

    with pytest.raises(FileError if error is OSError else error) as caught:
        tensor_files.replace_file((Path("a"), writing("new a")), (Path("b"), make))

    if error is OSError:
        assert str(caught.value) == "b: cannot be written: no space left on device"
    assert texts(folder) == TEXT


@pytest.mark.skipif(not hasattr(os, "link"), reason="this system has no hard links")
@pytest.mark.parametrize("name", ["a", "new"])
def test_first_file_is_restored_if_the_second_cannot_be_replaced(folder, name):
    Path("folder").mkdir()
    Path("folder/in it").touch()

    with pytest.raises(FileError, match=r"^folder: cannot be written: "):
        tensor_files.replace_file((Path(name), writing("new")), (Path("folder"), writing("new")))

    assert texts(folder) == TEXT
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "folder"]


def test_temporary_files_are_in_the_same_folder_and_removed(folder):
    names = []

    def make(part):
        part.write_text("half of")
        names.append(part.relative_to(folder.resolve()).as_posix())
        raise FileError("the reason")

    with pytest.raises(FileError, match=r"^the reason$"):
        tensor_files.replace_file((Path("a"), make))

    assert names[0].startswith(".ndgather-")
    assert texts(folder) == TEXT


def test_missing_folders_are_named_in_the_error(folder):
    with pytest.raises(FileError, match=r"^none.a: cannot be written: no such file or directory$"):
        tensor_files.replace_file((Path("none/a"), writing("new")))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc takes no files of anyone")
def test_read_only_folders_are_named_in_the_error():
    with pytest.raises(FileError, match=r"^/proc/a: cannot be written: "):
        tensor_files.replace_file((Path("/proc/a"), writing("new")))
