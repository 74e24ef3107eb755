"""A source tree is built in its own folder, and again only after a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import against

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
from pathlib import Path
from zipfile import ZipFile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "ndgather-1-py3-none-any.whl"
    with ZipFile(Path(folder, name), "w") as wheel:
        wheel.write("src/ndgather/__init__.py", "ndgather/__init__.py")
        about = "Metadata-Version: 2.1\\nName: ndgather\\nVersion: 1\\n"
        wheel.writestr("ndgather-1.dist-info/METADATA", about)
        about = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr("ndgather-1.dist-info/WHEEL", about)
        wheel.writestr("ndgather-1.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(against, "BUILDS", tmp_path / "builds")
    tree = tmp_path / "tree"
    (tree / "src" / "ndgather").mkdir(parents=True)
    (tree / "pyproject.toml").write_text(PROJECT)
    (tree / "backend.py").write_text(BACKEND)
    (tree / "src" / "ndgather" / "__init__.py").write_text("first = 1\n")
    return tree


def test_changed_source_tree_is_built(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = against.build(str(tree))
    assert (first / "ndgather" / "__init__.py").read_text() == "first = 1\n"
    assert against.build(str(tree)) == first
    assert capsys.readouterr().out.count("building") == 1
    (tree / "src" / "ndgather" / "__init__.py").write_text("second = 2\n")
    second = against.build(str(tree))
    assert (second / "ndgather" / "__init__.py").read_text() == "second = 2\n"
    assert (first / "ndgather" / "__init__.py").read_text() == "first = 1\n"


def test_failed_build_is_refused_and_not_kept(tree: Path) -> None:
    (tree / "backend.py").write_text("raise SystemExit('no backend today')\n")
    with pytest.raises(ValueError, match=r"does not build:\n[\s\S]*no backend today"):
        against.build(str(tree))
    assert not list((tree.parent / "builds").iterdir())
