"""Malicious ONNX models: tensors in other folders, recursive functions, damaged bytes."""

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import FileError, ModelError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models import tensor_files
from ndgather.models.onnx.inference import DEEPEST, MOST_NODES

pytestmark = pytest.mark.runtimes

INT64 = TensorProto.INT64
DATA = np.arange(6)
INPUTS = {"at": np.array([[1], [-1]])}
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]


def model(*initial, nodes=None, functions=()):
    graph = helper.make_graph(
        nodes or [helper.make_node("GatherND", ["data", "at"], ["out"], name="pick")],
        "g",
        [helper.make_tensor_value_info("at", INT64, ["N", 1])],
        [helper.make_tensor_value_info("out", INT64, None)],
        list(initial),
    )
    graph.output[0].type.tensor_type.shape.dim.add().dim_param = "N"
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8, functions=functions)


def external(dims=(6,), data_type=INT64, **entries):
    tensor = TensorProto(
        name="data", data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL
    )
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model folder with tensors in `weights`, next to a secret file."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    (tmp_path / "secret").write_bytes(DATA.tobytes())
    (inside / "weights").write_bytes(DATA.tobytes())
    (inside / "deep").mkdir()
    (inside / "link").symlink_to("../secret")
    (inside / "up").symlink_to("..")
    (inside / "null").symlink_to("/dev/zero")
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe")
    return inside


def save(proto):
    with open("m.onnx", "wb") as file:  # noqa: PTH123 - as short as what it does
        file.write(proto.SerializeToString())


ENTRIES = {
    "run": lambda: onnx_models.run("m.onnx", INPUTS),
    "check": lambda: onnx_models.check("m.onnx"),
    "infer": lambda: onnx_models.infer("m.onnx"),
    "convert": lambda: onnx_models.convert("m.onnx", opset=16),
}

OUTSIDE = {
    "above": "../secret",
    "a parent folder through a subfolder": "deep/../../secret",
    "absolute": "/etc/hostname",
    "a drive": "C:\\secret",
    "a share": "\\\\host\\share\\secret",
    "a link": "link",
    "a link to a folder": "up/secret",
    "a device": "/dev/zero",
    "a link to a device": "null",
    "none": "",
    "the folder": ".",
    "a NUL": "weights\0",
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("location", OUTSIDE.values(), ids=OUTSIDE)
def test_tensors_outside_the_model_folder_are_refused(folder, location, entry):
    save(model(external(location=location)))

    with pytest.raises(FileError) as refusal:
        ENTRIES[entry]()

    link, beside = "", ""
    if location in {"link", "null", "up/secret"}:
        link = f"is a link to {str(Path(location).resolve())!r}, which "
        beside = ", or beside the file that the model links to"
    assert str(refusal.value) == (
        f"m.onnx: constant 'data': location = {location!r} {link}is not inside the folder of the "
        f"model (allowed: a file in that folder{beside})"
    )


UNFIT = {
    "no such file": ({"location": "none"}, "cannot be read: no such file or directory"),
    "a folder": ({"location": "deep"}, "cannot be read: is a directory"),
    "a negative offset": ({"offset": -8}, "offset = '-8' is not a whole number"),
    "an offset that is not a number": ({"offset": "x"}, "offset = 'x' is not a whole number"),
    "an offset beyond the file": ({"offset": 56}, "bytes 56..56 are not in "),
    "an offset beyond 64 bits": ({"offset": 2**70}, "is not a whole number"),
    "a negative length": ({"length": -1}, "length = '-1' is not a whole number"),
    "a length beyond the file": ({"length": 49}, "bytes 0..49 are not in "),
    "an end beyond 64 bits": (
        {"offset": 2**63 - 1, "length": 2**63 - 1}, f"bytes {2**63 - 1}..{2**64 - 2} are not in "),
    "a length that differs from the tensor": (
        {"length": 40}, "has 40 bytes in its file (allowed: 48, by its type and dims)"),
    "a remainder that differs from the tensor": (
        {"offset": 8}, "has 40 bytes in its file (allowed: 48, by its type and dims)"),
    "dims beyond 64 bits": (
        {"dims": (2**62, 2**62)}, f"has 48 bytes in its file (allowed: {2**127}, by its type"),
    "negative dims": ({"dims": (-6,)}, "dims = (-6,) has a negative size"),
    "half of a byte": (
        {"data_type": TensorProto.INT4}, "has 48 bytes in its file (allowed: 3, by its type"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text"), UNFIT.values(), ids=UNFIT)
def test_tensors_not_contained_in_their_file_are_refused(folder, change, text):
    save(model(external(**{"location": "weights", **change})))

    with pytest.raises(FileError) as refusal:
        ENTRIES["run"]()

    assert str(refusal.value).startswith("m.onnx: constant 'data': ")
    assert text in str(refusal.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused_without_blocking(folder):
    save(model(external(location="pipe")))

    with pytest.raises(FileError, match=r"pipe: cannot be read: is not a regular file$"):
        ENTRIES["run"]()


def test_tensors_in_the_model_folder_are_read(folder):
    for location in "weights", "deep/../weights":
        save(model(external(location=location, offset=0, length=48)))
        np.testing.assert_array_equal(ENTRIES["run"]()["out"], np.array([1, 5]), strict=True)


def test_indices_outside_the_model_folder_are_not_read(folder):
    tensor = external(location="../secret")
    tensor.name = "at"
    node = helper.make_node("Constant", [], ["at2"], value=tensor)
    pick = helper.make_node("GatherND", ["data", "at2"], ["out"])
    save(model(numpy_helper.from_array(DATA, "data"), nodes=[node, pick]))

    with pytest.raises(FileError, match=r"constant 'at': location = '../secret' is not inside"):
        onnx_models.check("m.onnx")


def test_models_in_memory_open_no_files(folder):
    proto = model(external(location="weights"))
    text = "constant 'data': cannot be read: it is in another file, and the folder of the model"

    with pytest.raises(FileError) as refusal:
        onnx_models.run(proto, INPUTS)
    assert str(refusal.value).startswith(text)


def test_pb_tensors_cannot_refer_to_other_files(folder):
    (folder / "t.pb").write_bytes(external(location="weights").SerializeToString())

    with pytest.raises(FileError, match="constant 'data': cannot be read: it is in another file"):
        tensor_files.read(Path("t.pb"))


def test_saving_does_not_overwrite_external_tensors(folder):
    save(model(external(location="weights")))
    proto = onnx_models.convert("m.onnx", opset=16)

    with pytest.raises(
        FileError, match=r"^weights: cannot be written: .* contains external tensors of the model$"
    ):
        onnx_models.save(proto, "weights", ".")
    assert (folder / "weights").read_bytes() == DATA.tobytes()


def function(name, *called):
    """Return a function that calls other functions."""
    nodes = [
        helper.make_node(other, [f"v{n}"], [f"v{n + 1}"], domain="" if other == "Identity" else "f")
        for n, other in enumerate(called)
    ]
    return helper.make_function("f", name, ["v0"], [f"v{len(called)}"], nodes, OPSETS)


def calling(*functions):
    nodes = [
        helper.make_node("f0", ["at"], ["at2"], domain="f"),
        helper.make_node("GatherND", ["data", "at2"], ["out"]),
    ]
    return model(numpy_helper.from_array(DATA, "data"), nodes=nodes, functions=functions)


ENDLESS = {
    "each twice": (
        [*(function(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(40)),
         function("f40", "Identity")],
        f"(allowed: at most {MOST_NODES})"),
    "itself": ([function("f0", "f0")], "function f0 calls itself, or functions are nested"),
    "each other": ([function("f0", "f1"), function("f1", "f0")], "function f0 calls itself, or"),
    "one in another": (
        [*(function(f"f{n}", f"f{n + 1}") for n in range(DEEPEST)),
         function(f"f{DEEPEST}", "Identity")],
        f"(allowed: {DEEPEST} levels)"),
}  # fmt: skip


@pytest.mark.parametrize(("functions", "text"), ENDLESS.values(), ids=ENDLESS)
def test_recursive_functions_are_refused(functions, text):
    proto = calling(*functions)

    for call in (onnx_models.infer, onnx_models.convert, lambda proto: onnx_models.run(proto, {})):
        with pytest.raises(ModelError) as refusal:
            call(proto)
        assert text in str(refusal.value)
    assert text in onnx_models.check(proto)[0].what


@pytest.mark.parametrize(("functions", "text"), ENDLESS.values(), ids=ENDLESS)
def test_recursive_functions_are_refused_before_a_runtime_loads_them(
    folder, monkeypatch, functions, text
):
    monkeypatch.syspath_prepend(folder)
    (folder / "given").mkdir()
    (folder / "given" / "runtime.py").write_text("def session(source, options): 1 / 0")
    proto = calling(*functions)
    save(proto)

    calls = (
        lambda model: onnx_models.run(model, INPUTS, runtime="given.runtime"),
        lambda model: onnx_models.load(model, runtime="given.runtime"),
        lambda model: onnx_models.compare(model, INPUTS, runtimes=["given.runtime"]),
        lambda model: onnx_models.search(model, 1, runtimes=["given.runtime"]),
    )
    for call in calls:
        for model in proto, "m.onnx":
            with pytest.raises(ModelError) as refusal:
                call(model)
            assert text in str(refusal.value)


def test_nested_functions_run():
    chain = [function(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(5)]
    proto = calling(function("f5", "Identity"), *reversed(chain))

    np.testing.assert_array_equal(
        onnx_models.run(proto, INPUTS)["out"], np.array([1, 5]), strict=True
    )


def test_deeply_nested_protobuf_is_refused(folder):
    content = b""
    for _ in range(5000):
        for field in 0x32, 0x2A, 0x0A:  # a graph in an attribute in a node
            size, count = len(content), b""
            while size > 0x7F:
                count, size = count + bytes([size & 0x7F | 0x80]), size >> 7
            content = bytes([field]) + count + bytes([size]) + content
    (folder / "m.onnx").write_bytes(b"\x3a\xff\xff\x7f" + content[: 2**21 - 1])

    for call in ENTRIES.values():
        with pytest.raises(ModelError, match=r"^m\.onnx: is not an ONNX model, or is incomplete"):
            call()


def test_files_larger_than_2_gib_are_not_read(folder):
    with (folder / "m.onnx").open("wb") as file:
        file.truncate(2**31)  # a sparse file that needs no disk space

    for call in ENTRIES.values():
        with pytest.raises(FileError, match=r"^m\.onnx: is too large to be read"):
            call()


@pytest.mark.parametrize("suffix", ["json", "textproto", "onnxtxt", "onnx"])
def test_text_files_are_not_models(folder, suffix):
    (folder / f"m.{suffix}").write_text("{" * 100_000)

    with pytest.raises(ModelError, match=f"^m.{suffix}: is not an ONNX model, or is incomplete"):
        onnx_models.check(f"m.{suffix}")


UNKNOWN = {
    "the type of an input": (
        lambda proto: setattr(proto.graph.input[0].type.tensor_type, "elem_type", 77), "run",
        "value 'at': elem_type = 77 is not an ONNX type"),
    "the type of a constant": (
        lambda proto: setattr(proto.graph.initializer[0], "data_type", 99), "run",
        "m.onnx: cannot be run: 99"),
    "impossible sizes": (
        lambda proto: proto.graph.initializer[0].CopyFrom(
            TensorProto(name="data", data_type=7, dims=[0, 2**62, 2**62], raw_data=b"")),
        "run", "array is too big"),
    "a name that is not UTF-8": (
        lambda proto: setattr(proto.graph.node[0], "name", "marked"), "check",
        "m.onnx: cannot be read as an ONNX model: a name is not UTF-8 text"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "entry", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_invalid_fields_are_named_in_the_error(folder, change, entry, text):
    proto = model(numpy_helper.from_array(DATA, "data"))
    change(proto)
    content = proto.SerializeToString().replace(b"marked", b"\xffarked")
    (folder / "m.onnx").write_bytes(content)

    with pytest.raises(NdgatherError) as refusal:
        ENTRIES[entry]()
    assert text in str(refusal.value)


def damage(content):
    """Yield the content truncated at each byte and with each byte changed."""
    for at in range(len(content)):
        yield content[:at]
        for byte in {0, 0xFF, content[at] ^ 1, content[at] ^ 0x80} - {content[at]}:
            yield content[:at] + bytes([byte]) + content[at + 1 :]


def test_damaged_bytes_are_found_or_refused_in_one_line(folder):
    proto = model(numpy_helper.from_array(DATA, "data"))
    answers = 0
    for content in damage(proto.SerializeToString()):
        (folder / "m.onnx").write_bytes(content)
        for call in ENTRIES["run"], ENTRIES["check"]:
            try:
                answer = call()
            except NdgatherError as refused:
                if "\n" in str(refused):
                    raise
                continue
            answers += 1
            if isinstance(answer, dict):
                assert all(type(each) is np.ndarray for each in answer.values())
    assert answers
