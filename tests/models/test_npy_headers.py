"""Headers of .npy files from anyone: refused in words, and nothing is allocated for them."""

import struct
import tracemalloc

import numpy as np
import pytest

from ndgather.errors import FileError
from ndgather.models.tensors import tensor_files


def npy(header, body=b"", version=(1, 0), length=None):
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
HOSTILE = {
    "2**60 elements": (npy(header("(1152921504606846976,)")),
                       "its header promises 2305843009213693952 bytes, 0 follow it"),
    "2**64 elements": (npy(header("(18446744073709551616,)")),
                       "its header promises 36893488147419103232 bytes, 0 follow it"),
    "a product beyond 2**64": (npy(header("(4294967296, 4294967296, 4294967296)"), bytes(8)),
                               f"its header promises {2**97} bytes, 8 follow it"),
    "a product of 2**64, which is 0 in 64 bits": (
        npy(header("(4294967296, 4294967296)", "'|u1'"), bytes(8)),
        f"its header promises {2**64} bytes, 8 follow it"),
    "one byte too few": (npy(header(), bytes(5)), "its header promises 6 bytes, 5 follow it"),
    "sizes that no array has, and none of them": (
        npy(header("(0, 4294967296, 4294967296)")), "array is too big"),
    "a negative size": (npy(header("(-1,)"), bytes(8)), SHAPE),
    "two negative sizes": (npy(header("(-2, -2)"), bytes(8)), SHAPE),
    "rank 65": (npy(header(f"({'1,' * 65})"), bytes(8)), SHAPE),
    "a size that is a truth value": (npy(header("(True,)"), bytes(8)), SHAPE),
    "a size that is a fraction": (npy(header("(1.5,)"), bytes(8)), PARSED),
    "a shape that is a list": (npy(header("[3]"), bytes(8)), PARSED),
    "more digits than Python reads": (npy(header(f"({'9' * 5000},)")), PARSED),
    "an order that is a text": (npy(header(order="'x'"), bytes(8)),
                                f"{PARSED}fortran_order is not a valid bool: 'x'"),
    "a header of 4 GiB": (npy(header(), version=(2, 0), length=2**32 - 1),
                          "its header has 4294967295 bytes (allowed: at most 40000)"),
    "a header that ends early": (npy(header(), length=200), CUT),
    "a length that ends early": (npy("", version=(2, 0))[:10],
      CUT),
    "an unknown version": (npy(header(), version=(9, 0)),
                           "its version (9, 0) is unknown (allowed: 1.0, 2.0, 3.0)"),
    "letters that are none": (npy("\xff", version=(3, 0)), "'utf-8' codec can't decode"),
    "no literal": (npy("__import__('os').getcwd()"), PARSED),
    "brackets without end": (npy("(" * 9000), PARSED),
    "brackets within brackets": (npy("[" * 3000 + "]" * 3000), PARSED),
    "signs before signs": (npy("-" * 9000 + "1"), PARSED),
    "a text without end": (npy("{'descr': '''"), PARSED),
    "a set of lists": (npy("{[]}"), PARSED),
    "a NUL": (npy("{\0}"), PARSED),
    "a list": (npy("[1]"), f"{PARSED}Header is not a dictionary: [1]"),
    "a key too many": (npy("{'descr': '<i2', 'fortran_order': False, 'shape': (), 'x': 1}"),
                       f"{PARSED}Header does not contain the correct keys: "),
    "a type that is a number": (npy(header(descr="3"), bytes(8)), PARSED),
    "a type that is None": (npy(header(descr="None"), bytes(24)), PARSED),
    "an unknown type": (npy(header(descr="'<q9'"), bytes(8)), PARSED),
    "an escape that is none": (npy(header(descr="'\\\\d'"), bytes(8)), PARSED),
    "a subarray of a negative size": (npy(header(descr="('<i2', (-3,))"), bytes(8)), PARSED),
    "a subarray beyond all sizes": (npy(header(descr="('<i2', (3, 1000000000000))")), PARSED),
    "two fields of one name": (
        npy(header(descr="[('a', '<i2'), ('a', '<i2')]"), bytes(16)), PARSED),
    "elements without bytes": (npy(header("(1000000000000000,)", "'|V0'")),
                               "elements of its dtype |V0 have no bytes"),
    "records without fields": (npy(header(descr="[]")), "elements of its dtype [] have no bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "text"), HOSTILE.values(), ids=HOSTILE)
def test_what_cannot_be_is_refused_in_words(tmp_path, content, text):
    place = tmp_path / "a.npy"
    place.write_bytes(content)

    with pytest.raises(FileError) as refusal:
        tensor_files.read(str(place))

    assert str(refusal.value).startswith(f"{place}: is not a complete .npy file: {text}")
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("descr", ["'|O'", "[('a', '<i2'), ('b', '|O')]", "('|O', (2,))"])
def test_python_objects_are_refused_wherever_they_stand(tmp_path, descr):
    place = tmp_path / "a.npy"
    place.write_bytes(npy(header(descr=descr), b"\x80\x04]\x94." + bytes(100)))

    with pytest.raises(FileError, match="holds pickled Python objects, which are never loaded"):
        tensor_files.read(str(place))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_is_read(tmp_path, version):
    place = tmp_path / "a.npy"
    place.write_bytes(npy(header("(2, 3)", order="True"), bytes([1, 0, 2, 0, 3, 0] * 2), version))

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
    place.write_bytes(npy(header("(3L,)"), bytes([1, 0, 2, 0, 3, 0])))

    expected = np.array([1, 2, 3], "<i2")
    np.testing.assert_array_equal(tensor_files.read(str(place)), expected, strict=True)


def test_bytes_after_the_elements_are_left_alone(tmp_path):
    place = tmp_path / "a.npy"
    place.write_bytes(npy(header("(1,)"), bytes([1, 0, 2, 0])))

    np.testing.assert_array_equal(tensor_files.read(str(place)), np.array([1], "<i2"), strict=True)


def test_a_long_header_is_not_read(tmp_path):
    place = tmp_path / "a.npy"
    with place.open("wb") as file:
        file.write(npy("", version=(2, 0), length=2**30))
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
