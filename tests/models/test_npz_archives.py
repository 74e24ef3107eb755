"""Archives from anyone: damaged, encrypted, twice named, or inflating without end."""

import io
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from ndgather.errors import FileError, NdgatherError
from ndgather.models.tensors import formats, tensor_files

ARRAY = np.arange(12, dtype=np.int16).reshape(3, 4)
OBJECTS = "holds pickled Python objects, which are never loaded (allowed: numbers, booleans, dates"


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archive(place, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(place, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, content in members:
            file.writestr(name, content)
    return place


def refusal(place):
    with pytest.raises(FileError) as caught:
        tensor_files.read(str(place))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "a.npz"


def claiming(shape):
    """Return a .npy file whose header says a shape that its bytes are not enough for."""
    text = f"{{'descr': '<i2', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


REFUSED = {
    "no member": ([], "a.npz: holds no arrays"),
    "a name that stands twice": (
        [("a.npy", npy(ARRAY)), ("a.npy", npy(ARRAY + 1))],
        "a.npz: holds several arrays, name one as a.npz:MEMBER (allowed: a, a)"),
    "a member that is no array": (
        [("a", b"text")], "a.npz:a: is not a complete .npy file: EOF: reading magic string, "
        "expected 8 bytes got 4"),
    "a pickle": ([("a.npy", b"\x80\x04]\x94." + bytes(8))],
                 "a.npz:a: is not a complete .npy file: the magic string is not correct; expected "
                 "b'\\x93NUMPY', got b'\\x80\\x04]\\x94.\\x00'"),
    "an archive within": ([("a.npy", b"PK\x03\x04" + bytes(20))],
                          "a.npz:a: is not a complete .npy file: the magic string is not correct; "
                          "expected b'\\x93NUMPY', got b'PK\\x03\\x04\\x00\\x00'"),
    "2**60 elements": ([("a.npy", claiming("(1152921504606846976,)"))],
                       "a.npz:a: is not a complete .npy file: its header promises "
                       "2305843009213693952 bytes, 0 follow it"),
    "a terabyte": ([("a.npy", claiming("(500000000000,)"))],
                   "a.npz:a: is not a complete .npy file: its header promises 1000000000000 "
                   "bytes, 0 follow it"),
    "an element too few": ([("a.npy", npy(ARRAY)[:-1])],
                           "a.npz:a: is not a complete .npy file: its header promises 24 bytes, 23 "
                           "follow it"),
}  # fmt: skip


def test_a_name_with_another_digit_is_a_misspelling_too(place):
    archive(place, [("field1.npy", npy(ARRAY)), ("other.npy", npy(ARRAY))])
    with pytest.raises(FileError, match="did you mean 'field1'"):
        tensor_files.read(f"{place}:field2")


@pytest.mark.parametrize(("members", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_in_words(place, monkeypatch, members, text):
    monkeypatch.chdir(place.parent)
    archive(place, members)

    assert refusal("a.npz") == text


def test_a_name_that_stands_twice_is_no_name(place):
    archive(place, [("a.npy", npy(ARRAY)), ("a", npy(ARRAY + 1)), ("b.npy", npy(ARRAY))])

    assert refusal(f"{place}:a") == f"{place}: has several members 'a' (allowed: one of each name)"
    np.testing.assert_array_equal(tensor_files.read(f"{place}:b"), ARRAY, strict=True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_numpy_does_not_write_are_refused(place, method):
    archive(place, [("a.npy", npy(ARRAY))], method)

    assert refusal(place) == (
        f"{place}:a: is compressed by method {method} (allowed: 0, stored, and 8, deflated)"
    )


def test_an_encrypted_member_is_refused(place):
    content = bytearray(archive(place, [("a.npy", npy(ARRAY))]).read_bytes())
    content[6] |= 1  # the flags of the member, and of its entry in the directory
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    place.write_bytes(content)

    assert "is encrypted, password required" in refusal(place)


@pytest.mark.parametrize("factor", [1, 2])
def test_a_bomb_is_refused_before_it_inflates(place, monkeypatch, factor):
    monkeypatch.setattr(formats, "LARGEST_INFLATED", 2**20)
    count = factor * 2**20 - len(npy(np.zeros(0, np.uint8)))
    archive(place, [("a.npy", npy(np.zeros(count, np.uint8)))])
    tracemalloc.start()
    try:
        if factor == 1:
            assert tensor_files.read(str(place)).size == count
            return
        assert refusal(place) == (
            f"{place}:a: would take 2097152 bytes in memory (allowed: at most 1048576 out of such "
            f"an archive; a .npy file may be of any size)"
        )
        assert tracemalloc.get_traced_memory()[1] < 2**18
    finally:
        tracemalloc.stop()


def test_what_does_not_shrink_may_be_as_large_as_it_is(place, monkeypatch):
    monkeypatch.setattr(formats, "LARGEST_INFLATED", 100)
    archive(place, [("a.npy", npy(ARRAY))])

    np.testing.assert_array_equal(tensor_files.read(str(place)), ARRAY, strict=True)


@pytest.mark.parametrize(
    "array",
    [ARRAY, np.asfortranarray(ARRAY), np.array(3), np.zeros((0, 2)), ARRAY.astype(">i8"),
     np.array([("a", 1)], dtype=[("name", "U3"), ("count", "i4")])],
    ids=["C", "Fortran", "rank 0", "empty", "big-endian", "records"],
)  # fmt: skip
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(place, save, array):
    save(place, a=array)

    read = tensor_files.read(str(place))
    np.testing.assert_array_equal(read, array, strict=True)
    assert read.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_cut_at_any_byte_is_refused(place, save):
    save(place, a=ARRAY)
    content = place.read_bytes()
    for size in range(len(content)):
        place.write_bytes(content[:size])
        refusal(place)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_with_any_byte_changed_is_read_or_refused(place, save):
    save(place, a=ARRAY)
    content = place.read_bytes()
    read = 0
    for at in range(len(content)):
        for byte in {0, 0xFF, content[at] ^ 1, content[at] ^ 0x80} - {content[at]}:
            place.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
            try:
                array = tensor_files.read(str(place))
            except NdgatherError as error:
                if "\n" in str(error):
                    raise
                continue
            read += 1
            np.testing.assert_array_equal(array, ARRAY)
    assert 0 < read < 4 * len(content)  # bytes that say nothing of the array, as its date
