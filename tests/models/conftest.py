"""Fixtures for tests of models."""

from types import SimpleNamespace

import pytest

from ndgather.cli import main


@pytest.fixture
def ndgather_in(monkeypatch, capsys):
    def run(folder, line):
        monkeypatch.chdir(folder)
        try:
            status = main(line.split())
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err)

    return run
