"""The pages of restricted targets are short and show the output of the commands."""

from __future__ import annotations

import re
import shlex
import shutil
from importlib.util import find_spec

import pytest
from target_pages import MODELS, TARGETS, target_page

from ndgather.cli import main


@pytest.mark.parametrize("page", TARGETS)
def test_pages_are_short_and_all_nodes_are_rewritten(page):
    """`target_page` itself checks that both models return the same bytes."""
    text = target_page(page)

    words = [word for word in text.split() if re.search(r"\w", word)]
    assert len(words) < 300
    assert re.search(r"\b0\s+stay;", text)
    before, after = map(int, re.search(r"^\| all \| (\d+) \| (\d+) \|$", text, re.M).groups())
    assert before < after or page in {"rknn", "coreml"}  # Shape and Expand become constants there


@pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("openvino")), reason="it compares these two"
)
def test_commands_print_the_shown_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "ranking.onnx", tmp_path)
    (block,) = re.findall(r"^```text\n(.*?)^```", target_page("tensorrt"), re.M | re.S)
    commands = re.split(r"^\$ ndgather (.*)\n", block, flags=re.M)[1:]
    assert len(commands) == 2 * 3
    for command, shown in zip(commands[::2], commands[1::2], strict=True):
        assert main(shlex.split(command)) == 0
        printed = capsys.readouterr().out
        versions = re.compile(r"\d+(\.\d+)+")
        assert versions.sub("N", printed).split() == versions.sub("N", shown).split()
