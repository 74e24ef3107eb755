"""The pages of guarantees and vulnerabilities name existing tests, and every case has a row."""

import ast
import importlib.util
import re
from functools import cache

import pytest

from tests.reports import PAGES, ROOT, links

ROW = re.compile(r"^\| \[([\w-]+)\]\(", re.MULTILINE)
NUMBER = re.compile(r"-\d$")  # of a second or later case of an identifier
IDENTIFIER = re.compile(r"(CVE-\d{4}-\d+|GHSA(-\w{4}){3}|[a-z]+(-[a-z]+)*-\d{3,}|openvino-[a-z-]+)")


@cache
def module_of(path):
    """Import a test file as a separate module."""
    spec = importlib.util.spec_from_file_location(f"named_on_a_page_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def names_in(path):
    """Return the function names in a test file, which may need a missing package."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def identifiers_of(path):
    """Yield the identifiers of the cases in a test file: ids or values of parameters."""
    for test in vars(module_of(path)).values():
        for mark in getattr(test, "pytestmark", []):
            for case in mark.args[1] if mark.name == "parametrize" else ():
                name = getattr(case, "id", case)
                if isinstance(name, str) and IDENTIFIER.fullmatch(NUMBER.sub("", name)):
                    yield NUMBER.sub("", name)


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page):
    named = 0
    for text, path in links(page):
        assert path.exists(), path
        if text.startswith("test_"):
            assert text in names_in(path), f"{text} in {path}"
            named += 1
    assert named > 30


def test_every_promise_names_a_test():
    """Each promise is a paragraph that begins in bold; the last sections need no test."""
    promises = (ROOT / PAGES[0]).read_text().partition("## Versions")[0].split("\n**")[1:]
    assert len(promises) > 10
    for promise in promises:
        assert "](../tests/" in promise, promise[:60]


def test_rows_and_cases_agree():
    rows = ROW.findall((ROOT / PAGES[1]).read_text())
    assert len(rows) == len(set(rows))
    folder = ROOT / "tests" / "models"
    cases = set(identifiers_of(folder / "test_advisories.py"))
    cases |= set(identifiers_of(folder / "test_advisory_files.py"))
    elsewhere = {"CVE-2020-15202"}  # needs 2 GiB: in test_two_gib.py
    assert cases | elsewhere == set(rows)


def test_entry_count_is_correct():
    text = (ROOT / PAGES[1]).read_text()
    rows = ROW.findall(text)
    advisories = sum(each.startswith(("CVE", "GHSA")) for each in rows)
    found = re.search(r"- (\d+) entries: (\d+) advisories.*?and (\d+) public", text, re.DOTALL)
    assert found is not None
    numbers = [int(each) for each in found.groups()]
    assert numbers == [len(rows), advisories, len(rows) - advisories]
