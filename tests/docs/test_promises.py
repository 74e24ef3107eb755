"""The pages of promises and vulnerabilities name tests that exist, and every case has a row."""

import ast
import importlib.util
import re
from functools import cache

import pytest

from tests.reports import PAGES, ROOT, links

ROW = re.compile(r"^\| \[([\w-]+)\]\(", re.MULTILINE)
NUMBER = re.compile(r"-\d$")  # of a later case of one identifier
IDENTIFIER = re.compile(r"(CVE-\d{4}-\d+|GHSA(-\w{4}){3}|[a-z]+(-[a-z]+)*-\d{3,}|openvino-[a-z-]+)")


@cache
def module_of(path):
    """A test file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"named_on_a_page_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def names_in(path):
    """The names of the functions of a test file, which may need a package that is not here."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def identifiers_of(path):
    """The identifiers that cases of a test file go by: names of their parameters, or values."""
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
    """Each paragraph of a promise begins in bold; what is not promised needs no test."""
    promises = (ROOT / PAGES[0]).read_text().partition("## Versions")[0].split("\n**")[1:]
    assert len(promises) > 10
    for promise in promises:
        assert "](../tests/" in promise, promise[:60]


def test_rows_and_cases_are_the_same():
    rows = ROW.findall((ROOT / PAGES[1]).read_text())
    assert len(rows) == len(set(rows))
    folder = ROOT / "tests" / "models"
    cases = set(identifiers_of(folder / "test_advisories.py"))
    cases |= set(identifiers_of(folder / "test_advisory_files.py"))
    elsewhere = {"CVE-2020-15202"}  # needs 2 GiB: in test_two_gib.py
    assert cases | elsewhere == set(rows)


def test_the_count_of_entries_is_right():
    text = (ROOT / PAGES[1]).read_text()
    rows = ROW.findall(text)
    advisories = sum(each.startswith(("CVE", "GHSA")) for each in rows)
    found = re.search(r"- (\d+) entries: (\d+) advisories.*?and (\d+) public", text, re.DOTALL)
    assert found is not None
    numbers = [int(each) for each in found.groups()]
    assert numbers == [len(rows), advisories, len(rows) - advisories]
