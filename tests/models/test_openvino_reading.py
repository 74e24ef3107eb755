"""Malicious, oversized and broken IR files are refused with an error on one line."""

import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("defusedxml")

from ndgather.errors import AttributeValueError, FileError, ModelError, NdgatherError
from ndgather.models.openvino import Model
from ndgather.models.openvino.layers import Constants, declared_shape
from ndgather.models.openvino.reading import Layer, Limits, read

LAYER = '<layer id="1" type="GatherND" version="opset8"><data batch_dims="0"/>{}</layer>'
PORT = '<input><port id="0">{}</port></input>'


def refusal(tmp_path, text, kind=ModelError, limits=None):
    path = tmp_path / "model.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(kind) as caught:
        read(path, limits or Limits())
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


BOMB = """<?xml version="1.0"?>
<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<net name="&b;"/>"""
OUTSIDE = (
    """<!DOCTYPE net [<!ENTITY secret SYSTEM "file:///etc/hostname">]><net name="&secret;"/>"""
)
PARAMETER = """<!DOCTYPE net [<!ENTITY % more SYSTEM "http://localhost/x.dtd"> %more;]><net/>"""


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, PARAMETER, "<!DOCTYPE net><net/>"])
def test_document_types_and_entities_are_refused(tmp_path, text):
    assert refusal(tmp_path, text) == (
        "has a document type or an entity, which can expand without limit or refer to other files "
        "(allowed: elements, attributes and text)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<net",
        "<net></layer>",
        "no xml",
        b"\xff\xfe\x00",
        b'<?xml version="1.0" encoding="no-such"?><net/>',
        "<net>&unknown;</net>",
        b"<net>\x00</net>",
    ],
)
def test_invalid_xml_is_refused(tmp_path, text):
    assert refusal(tmp_path, text).startswith("cannot be read as XML: ")


def test_other_root_elements_are_refused(tmp_path):
    assert refusal(tmp_path, "<html/>") == (
        "is not an OpenVINO IR: its root is 'html' (allowed: net, or a single layer)"
    )
    assert len(refusal(tmp_path, f"<{'x' * 10_000}/>")) < 150


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (Limits(file_bytes=20), "is too large to be read (allowed: at most 20 bytes)"),
        (Limits(depth=3), "its depth exceeds the limit (allowed: at most 3 elements)"),
        (
            Limits(elements=4),
            "its count of elements exceeds the limit (allowed: at most 4)",
        ),
        (Limits(layers=1), "its count of layers exceeds the limit (allowed: at most 1)"),
    ],
)
def test_every_limit_has_an_error_message(tmp_path, limits, what):
    inner = LAYER.format("<input><port id='0'><dim>1</dim></port></input>")
    text = f"<net><layers>{inner}{inner}</layers></net>"
    assert refusal(tmp_path, text, NdgatherError, limits) == what
    (tmp_path / "model.xml").write_text(text)
    assert len(read(tmp_path / "model.xml").layers) == 2


def test_excessive_depth_is_refused_while_parsing(tmp_path):
    assert "its depth" in refusal(tmp_path, "<net>" + "<a>" * 1_000_000)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PORT.format("<dim>-2</dim>"), "layer 1 port 0: dim = '-2' is not a valid value"),
        (PORT.format("<dim>1.5</dim>"), "layer 1 port 0: dim = '1.5' is not a valid value"),
        (PORT.format("<dim/>"), "layer 1 port 0: dim = '' is not a valid value"),
        (PORT.format("<dim>9223372036854775808</dim>"), "layer 1 port 0: dim = '92233720368547"),
        (PORT.format(f"<dim>{'9' * 10_000}</dim>"), "layer 1 port 0: dim = '99999999"),
        (PORT.format("<dim>٣</dim>"), "layer 1 port 0: dim = '٣' is not a valid value"),
        (PORT.format("<dim>1</dim>" * 65), "the rank of layer 1 port 0 exceeds the limit"),
        ('<input><port id="x"/></input>', "layer 1 port x: id = 'x' is not a valid value"),
        ("<input><port/></input>", "layer 1 port : id = '' is not a valid value"),
        ('<input><port id="&#10;"/></input>', r"layer 1 port '\n': id = '\n' is not a valid value"),
    ],
)
def test_invalid_ports_are_refused(tmp_path, text, what):
    message = refusal(tmp_path, LAYER.format(text))
    assert message.startswith(what)
    assert len(message) < 200


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            '<layer type="GatherND"/>',
            "layer : id = '' is not a valid value (allowed: a non-negative integer)",
        ),
        (
            '<layer id="1"/>',
            "layer 1: type = '' is not a valid value (allowed: the name of an operation)",
        ),
        (
            '<net><edges><edge from-layer="0"/></edges></net>',
            "edge: from-port = '' is not a valid value (allowed: a non-negative integer)",
        ),
    ],
)
def test_incomplete_elements_are_refused(tmp_path, text, what):
    assert refusal(tmp_path, text) == what


def test_unreadable_files_raise_errors_with_the_reason(tmp_path):
    with pytest.raises(FileError, match=r"absent\.xml: cannot be read: no such file"):
        read(tmp_path / "absent.xml")
    with pytest.raises(FileError, match="is a directory"):
        read(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe.xml")
    with pytest.raises(FileError, match="is not a regular file"):
        read(tmp_path / "pipe.xml")


def test_tensor_names_are_a_list_with_escaped_commas(tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(
        '<layer id="0" type="X"><output><port id="0" names="a,b\\,c, d"/></output></layer>'
    )
    (port,) = read(path).layers[0].outputs
    assert port.names == ("a", "b,c", "d")


def test_layers_of_bodies_are_read(tmp_path):
    path = tmp_path / "model.xml"
    body = f"<layers>{LAYER.format('')}</layers><edges/>"
    path.write_text(
        f'<net><layers><layer id="0" type="If"><then_body>{body}</then_body></layer></layers></net>'
    )
    (outer,) = read(path).layers
    assert [body.name for body in outer.bodies] == ["then_body"]
    assert outer.bodies[0].layers[0].type == "GatherND"


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("", ()),
        ("2, 3", ((2, 2), (3, 3))),
        ("?,-1,1..5,..7,2..", ((0, None), (0, None), (1, 5), (0, 7), (2, None))),
        ("...", None),
    ],
)
def test_declared_shapes_are_parsed(text, bounds):
    assert declared_shape(text) == bounds


@pytest.mark.parametrize("text", ["a", "1,,2", "-3", "5..1", "1..x", "9223372036854775808", "٣"])
def test_invalid_shapes_are_refused(text):
    with pytest.raises(ValueError, match=r"^"):
        declared_shape(text)


CONST = Layer(
    id=4,
    name="table",
    type="Const",
    version="opset1",
    attributes={"element_type": "i32", "shape": "2, 3", "offset": "4", "size": "24"},
    inputs=(),
    outputs=(),
)


@pytest.fixture
def constants(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"\0" * 4 + np.arange(6, dtype="<i4").tobytes())
    return Constants(path=path)


def test_constants_are_read_at_their_offset(constants):
    np.testing.assert_array_equal(
        constants.read(CONST), np.arange(6, dtype=np.int32).reshape(2, 3), strict=True
    )


@pytest.mark.parametrize(
    ("changes", "kind", "what"),
    [
        ({"offset": "5"}, ModelError, "extend past the end of"),
        ({"offset": "9223372036854775807"}, ModelError, "extend past the end of"),
        ({"offset": "-4"}, AttributeValueError, "offset = '-4' is unknown"),
        (
            {"size": "25"},
            ModelError,
            "size = 25 is not the size in bytes of i32 (2, 3) (allowed: 24)",
        ),
        (
            {"shape": "2, 4"},
            ModelError,
            "size = 24 is not the size in bytes of i32 (2, 4) (allowed: 32)",
        ),
        (
            {"shape": "4611686018427387904, 4611686018427387904"},
            ModelError,
            "size = 24 is not the size in bytes of i32",
        ),
        ({"shape": "2, ?"}, AttributeValueError, "shape = '2, ?' is unknown"),
        ({"element_type": "i33"}, AttributeValueError, "element_type = 'i33' is unknown"),
        ({"element_type": "string", "size": "24"}, NdgatherError, "string"),
        (
            {"shape": ",".join(["0"] + ["9223372036854775807"] * 3), "size": "0"},
            NdgatherError,
            "exceeds the largest possible array",
        ),
    ],
)
def test_constants_must_lie_within_their_file(constants, changes, kind, what):
    layer = replace(CONST, attributes={**CONST.attributes, **changes})
    with pytest.raises(kind) as caught:
        constants.read(layer)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_constants_file_is_opened_lazily(tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(LAYER.format(""))
    assert len(Model.load(path).network.layers) == 1
    with pytest.raises(FileError, match=r"absent\.bin: cannot be read: no such file"):
        Constants(path=tmp_path / "absent.bin").read(CONST)


@pytest.mark.parametrize(
    ("element", "content", "expected"),
    [
        ("boolean", b"\x00\x01\x02", np.array([False, True, True])),
        ("u4", b"\x21\x03", np.array([1, 2, 3])),
        ("i4", b"\xf7\x08", np.array([7, -1, -8])),
        ("u2", b"\x39", np.array([1, 2, 3])),
        *(
            (f"{kind[0]}{8 * int(kind[1])}", np.array(row, f"<{kind}").tobytes(), np.array(row))
            for kinds, row in {"i1 i2 i4 i8 u1 u2 u4": [1, 2, 3], "f2 f4 f8": [1, -2, 0.5]}.items()
            for kind in kinds.split()
        ),
        ("bf16", b"\x80\x3f\x00\xc0\x00\x3f", np.array([1, -2, 0.5])),
        ("f8e4m3", b"\x38\xc0\x30", np.array([1, -2, 0.5])),
        ("u64", np.array([1, 2, 2**64 - 1], "<u8").tobytes(), np.array([1, 2, 2**64 - 1], "u8")),
    ],
)
def test_constants_of_every_element_type(tmp_path, element, content, expected):
    pytest.importorskip("ml_dtypes")
    (tmp_path / "model.bin").write_bytes(content)
    attributes = {"element_type": element, "shape": "3", "offset": "0", "size": str(len(content))}
    array = Constants(path=tmp_path / "model.bin").read(replace(CONST, attributes=attributes))
    np.testing.assert_array_equal(array.astype(expected.dtype), expected, strict=True)
    if element == "boolean":  # every byte is a value
        assert array.tobytes() == b"\0\1\1"


@pytest.mark.parametrize("element", ["nf4", "u1", "u3", "u6", "string"])
def test_unsupported_element_types_are_named_in_the_error(tmp_path, element):
    (tmp_path / "model.bin").write_bytes(b"\0" * 8)
    bits = {"nf4": 4, "u1": 1, "u3": 3, "u6": 6, "string": 8}[element]
    attributes = {"element_type": element, "shape": "8", "offset": "0", "size": str(bits)}
    with pytest.raises(NdgatherError, match=f"element_type = {element} is not"):
        Constants(path=tmp_path / "model.bin").read(replace(CONST, attributes=attributes))
