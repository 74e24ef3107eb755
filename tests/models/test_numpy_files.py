"""Files of NumPy from anyone, .npy and .npz: damaged, encrypted, or inflating without end."""

import io
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from ndgather.errors import FileError, NdgatherError
from ndgather.models.tensors import formats, tensor_files


def npy_file(header, body=b"", version=(1, 0), length=None):
    """Write a file by hand, with any header and any claim of its length."""
    content = header.encode("latin1")
    form = "<H" if version == (1, 0) else "<I"
    count = struct.pack(form, len(content) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + count + content + body


def header(shape="(3,)", descr="'<i2'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


SHAPE = "its shape is not a tuple of at most 64 sizes"
PARSED = "its header cannot be parsed: "
CUT = "its header is cut off"
HEADERS = {
    "2**60 elements": (npy_file(header("(1152921504606846976,)")),
                       "its header promises 2305843009213693952 bytes, 0 follow it"),
    "2**64 elements": (npy_file(header("(18446744073709551616,)")),
                       "its header promises 36893488147419103232 bytes, 0 follow it"),
    "a product beyond 2**64": (npy_file(header("(4294967296, 4294967296, 4294967296)"), bytes(8)),
                               f"its header promises {2**97} bytes, 8 follow it"),
    "a product of 2**64, which is 0 in 64 bits": (
        npy_file(header("(4294967296, 4294967296)", "'|u1'"), bytes(8)),
        f"its header promises {2**64} bytes, 8 follow it"),
    "one byte too few": (npy_file(header(), bytes(5)), "its header promises 6 bytes, 5 follow it"),
    "sizes that no array has, and none of them": (
        npy_file(header("(0, 4294967296, 4294967296)")), "array is too big"),
    "a negative size": (npy_file(header("(-1,)"), bytes(8)), SHAPE),
    "two negative sizes": (npy_file(header("(-2, -2)"), bytes(8)), SHAPE),
    "rank 65": (npy_file(header(f"({'1,' * 65})"), bytes(8)), SHAPE),
    "a size that is a truth value": (npy_file(header("(True,)"), bytes(8)), SHAPE),
    "a size that is a fraction": (npy_file(header("(1.5,)"), bytes(8)), PARSED),
    "a shape that is a list": (npy_file(header("[3]"), bytes(8)), PARSED),
    "more digits than Python reads": (npy_file(header(f"({'9' * 5000},)")), PARSED),
    "an order that is a text": (npy_file(header(order="'x'"), bytes(8)),
                                f"{PARSED}fortran_order is not a valid bool: 'x'"),
    "a header of 4 GiB": (npy_file(header(), version=(2, 0), length=2**32 - 1),
                          "its header has 4294967295 bytes (allowed: at most 40000)"),
    "a header that ends early": (npy_file(header(), length=200), CUT),
    "a length that ends early": (npy_file("", version=(2, 0))[:10],
      CUT),
    "an unknown version": (npy_file(header(), version=(9, 0)),
                           "its version (9, 0) is unknown (allowed: 1.0, 2.0, 3.0)"),
    "letters that are none": (npy_file("\xff", version=(3, 0)), "'utf-8' codec can't decode"),
    "no literal": (npy_file("__import__('os').getcwd()"), PARSED),
    "brackets without end": (npy_file("(" * 9000), PARSED),
    "brackets within brackets": (npy_file("[" * 3000 + "]" * 3000), PARSED),
    "signs before signs": (npy_file("-" * 9000 + "1"), PARSED),
    "a text without end": (npy_file("{'descr': '''"), PARSED),
    "a set of lists": (npy_file("{[]}"), PARSED),
    "a NUL": (npy_file("{\0}"), PARSED),
    "a list": (npy_file("[1]"), f"{PARSED}Header is not a dictionary: [1]"),
    "a key too many": (npy_file("{'descr': '<i2', 'fortran_order': False, 'shape': (), 'x': 1}"),
                       f"{PARSED}Header does not contain the correct keys: "),
    "a type that is a number": (npy_file(header(descr="3"), bytes(8)), PARSED),
    "a type that is None": (npy_file(header(descr="None"), bytes(24)), PARSED),
    "an unknown type": (npy_file(header(descr="'<q9'"), bytes(8)), PARSED),
    "an escape that is none": (npy_file(header(descr="'\\\\d'"), bytes(8)), PARSED),
    "a subarray of a negative size": (npy_file(header(descr="('<i2', (-3,))"), bytes(8)), PARSED),
    "a subarray beyond all sizes": (npy_file(header(descr="('<i2', (3, 1000000000000))")), PARSED),
    "two fields of one name": (
        npy_file(header(descr="[('a', '<i2'), ('a', '<i2')]"), bytes(16)), PARSED),
    "elements without bytes": (npy_file(header("(1000000000000000,)", "'|V0'")),
                               "elements of its dtype |V0 have no bytes"),
    "records without fields": (
        npy_file(header(descr="[]")), "elements of its dtype [] have no bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "text"), HEADERS.values(), ids=HEADERS)
def test_a_header_that_cannot_be_is_refused(tmp_path, content, text):
    place = tmp_path / "a.npy"
    place.write_bytes(content)

    with pytest.raises(FileError) as refusal:
        tensor_files.read(str(place))

    assert str(refusal.value).startswith(f"{place}: is not a complete .npy file: {text}")
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("descr", ["'|O'", "[('a', '<i2'), ('b', '|O')]", "('|O', (2,))"])
def test_python_objects_are_refused_wherever_they_stand(tmp_path, descr):
    place = tmp_path / "a.npy"
    place.write_bytes(npy_file(header(descr=descr), b"\x80\x04]\x94." + bytes(100)))

    with pytest.raises(FileError, match="holds pickled Python objects, which are never loaded"):
        tensor_files.read(str(place))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_is_read(tmp_path, version):
    place = tmp_path / "a.npy"
    place.write_bytes(
        npy_file(header("(2, 3)", order="True"), bytes([1, 0, 2, 0, 3, 0] * 2), version)
    )

    expected = np.array([[1, 3, 2], [2, 1, 3]], "<i2")
    np.testing.assert_array_equal(tensor_files.read(str(place)), expected, strict=True)


@pytest.mark.parametrize("name", ["é", "温度", "\N{GRINNING FACE}", r"\u0041", "a'b\"c"])
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
def test_names_of_fields_in_any_script_are_read(tmp_path, name):
    array = np.array([(1,), (2,)], [(name, "<i2")])
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", array)

    for file in ("a.npy", "a.npz"):
        read = tensor_files.read(str(tmp_path / file))
        np.testing.assert_array_equal(read, array, strict=True)


def test_sizes_that_python_2_wrote_are_read(tmp_path):
    place = tmp_path / "a.npy"
    place.write_bytes(npy_file(header("(3L,)"), bytes([1, 0, 2, 0, 3, 0])))

    expected = np.array([1, 2, 3], "<i2")
    np.testing.assert_array_equal(tensor_files.read(str(place)), expected, strict=True)


def test_bytes_after_the_elements_are_left_alone(tmp_path):
    place = tmp_path / "a.npy"
    place.write_bytes(npy_file(header("(1,)"), bytes([1, 0, 2, 0])))

    np.testing.assert_array_equal(tensor_files.read(str(place)), np.array([1], "<i2"), strict=True)


def test_a_long_header_is_not_read(tmp_path):
    place = tmp_path / "a.npy"
    with place.open("wb") as file:
        file.write(npy_file("", version=(2, 0), length=2**30))
        file.truncate(2**30 + 12)  # sparse: it takes no place on the disk
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="its header has 1073741824 bytes"):
            tensor_files.read(str(place))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_cut_at_any_byte_is_refused_in_one_line(tmp_path):
    np.save(tmp_path / "whole.npy", np.arange(3, dtype=np.int16))
    content = (tmp_path / "whole.npy").read_bytes()
    place = tmp_path / "cut.npy"
    for size in range(len(content)):
        place.write_bytes(content[:size])
        with pytest.raises(FileError) as refusal:
            tensor_files.read(str(place))
        assert str(refusal.value).startswith(f"{place}: is not a complete .npy file: ")
        assert len(str(refusal.value).splitlines()) == 1


ARRAY = np.arange(12, dtype=np.int16).reshape(3, 4)
OBJECTS = "holds pickled Python objects, which are never loaded (allowed: numbers, booleans, dates"


def npy_bytes(array):
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


ARCHIVES = {
    "no member": ([], "a.npz: holds no arrays"),
    "a name that stands twice": (
        [("a.npy", npy_bytes(ARRAY)), ("a.npy", npy_bytes(ARRAY + 1))],
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
    "an element too few": ([("a.npy", npy_bytes(ARRAY)[:-1])],
                           "a.npz:a: is not a complete .npy file: its header promises 24 bytes, 23 "
                           "follow it"),
}  # fmt: skip


def test_a_name_with_another_digit_is_a_misspelling_too(place):
    archive(place, [("field1.npy", npy_bytes(ARRAY)), ("other.npy", npy_bytes(ARRAY))])
    with pytest.raises(FileError, match="did you mean 'field1'"):
        tensor_files.read(f"{place}:field2")


@pytest.mark.parametrize(("members", "text"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_cannot_be_is_refused(place, monkeypatch, members, text):
    monkeypatch.chdir(place.parent)
    archive(place, members)

    assert refusal("a.npz") == text


def test_a_name_that_stands_twice_is_no_name(place):
    archive(
        place,
        [("a.npy", npy_bytes(ARRAY)), ("a", npy_bytes(ARRAY + 1)), ("b.npy", npy_bytes(ARRAY))],
    )

    assert refusal(f"{place}:a") == f"{place}: has several members 'a' (allowed: one of each name)"
    np.testing.assert_array_equal(tensor_files.read(f"{place}:b"), ARRAY, strict=True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_numpy_does_not_write_are_refused(place, method):
    archive(place, [("a.npy", npy_bytes(ARRAY))], method)

    assert refusal(place) == (
        f"{place}:a: is compressed by method {method} (allowed: 0, stored, and 8, deflated)"
    )


def test_an_encrypted_member_is_refused(place):
    content = bytearray(archive(place, [("a.npy", npy_bytes(ARRAY))]).read_bytes())
    content[6] |= 1  # the flags of the member, and of its entry in the directory
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    place.write_bytes(content)

    assert "is encrypted, password required" in refusal(place)


@pytest.mark.parametrize("factor", [1, 2])
def test_a_bomb_is_refused_before_it_inflates(place, monkeypatch, factor):
    monkeypatch.setattr(formats, "LARGEST_INFLATED", 2**20)
    count = factor * 2**20 - len(npy_bytes(np.zeros(0, np.uint8)))
    archive(place, [("a.npy", npy_bytes(np.zeros(count, np.uint8)))])
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
    archive(place, [("a.npy", npy_bytes(ARRAY))])

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
