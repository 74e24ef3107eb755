"""``python -m tests.reports FOLDER``: what the runs of tests left out, by their reports.

The folder has a JUnit file of each run. A test is left out if every run skipped it. Exit status 1:
one was left out for a reason that is not in ``ALLOWED``, a test that a promise names was not run,
or a run failed.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGES = ("docs/guarantees.md", "docs/security.md")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
OF_A_MODULE = re.compile(r"""Skipped: (.*?)['"]\)$""", re.DOTALL)

# Why a test may be left out where everything is installed: patterns of reasons. What xarray leaves
# out of its own tests is its affair.
ALLOWED = (
    # Parameters that have no such case.
    r"complex numbers have no order|N5 has no such type",
    r"the contrib operator has no batch_dims: .*",
    r"numba measures the machine",
    r"there is no such version|Upsample is deprecated in opset 10",
    # Programs and packages that no dependency group asks for.
    r"(zsh|fish) is not there|it runs the (playground|sketch) by node",
    r"needs (s3fs|ray|mpi4py)\b.*",
    r".* is not installed: its newest wheel needs the newest torch",
    # What machines do not let everybody do.
    r"no GPU|no file system of one's own can be mounted|may not mount a file system here",
)
OF_XARRAY = "tests.xarray_suite."


def links(page):
    """Yield the texts and the files of the links of a page that stay in the repository."""
    for text, target in LINK.findall((ROOT / page).read_text()):
        if not target.startswith(("http:", "https:")):
            yield text, ((ROOT / page).parent / target.partition("#")[0]).resolve()


def outcomes(report):
    """Yield the module, the name and the outcome of each test of a report.

    The outcome is "ran", "failed", or why it was skipped. A module that was skipped has no name.
    """
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.get("classname"), case.get("name")
        skipped = case.find("skipped")
        if not module:
            module, name = name, ""
        if case.find("failure") is not None or case.find("error") is not None:
            yield module, name, "failed"
        elif skipped is None:
            yield module, name, "ran"
        elif skipped.get("type") != "pytest.xfail":
            inner = OF_A_MODULE.search(skipped.text or "")
            yield module, name, skipped.get("message") if name or inner is None else inner[1]


def address(nodeid):
    """Return the module and the name by which a report has the test of a node of pytest."""
    function, bracket, parameters = nodeid.partition("[")
    path, *names = function.split("::")
    module = ".".join([path.removesuffix(".py").replace("/", "."), *names[:-1]])
    return module, "".join([*names[-1:], bracket, parameters])


def is_allowed(why):
    return why is not None and any(re.fullmatch(pattern, why) for pattern in ALLOWED)


def function_of(module, name):
    """Return the name of a test without its class and its parameters."""
    parts = [part for part in module.split(".") if not part.startswith("Test")]
    return f"{'.'.join(parts)}::{name.partition('[')[0]}"


def read(folder):
    """Return the tests that ran, those that failed, and the reasons of those that were left out."""
    ran, failed, skipped = set(), set(), {}
    for report in sorted(Path(folder).glob("*.xml")):
        for module, name, outcome in outcomes(report):
            if outcome == "ran":
                ran |= {(module, name), (module, "")}
            elif outcome == "failed":
                failed.add((module, name))
            elif not module.startswith(OF_XARRAY) and not is_allowed(skipped.get((module, name))):
                skipped[module, name] = outcome
    left_out = {test: why for test, why in skipped.items() if test not in ran}
    return ran, failed, left_out


def not_run(page, ran):
    """Return the tests that a page names, and that no run has run."""
    functions = {function_of(module, name) for module, name in ran}
    named = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}::{text}"
        for text, path in links(page)
        if text.startswith("test_")
    }
    return sorted(named - functions)


def main(folder):
    ran, failed, left_out = read(folder)
    print(f"{sum(bool(name) for _, name in ran)} tests ran, {len(left_out)} were left out:")
    complaints = [f"failed: {module}::{name}" for module, name in sorted(failed)]
    for why, times in Counter(left_out.values()).most_common():
        allowed = is_allowed(why)
        print(f"{times:5} {'' if allowed else 'NOT ALLOWED: '}{why}")
        if not allowed:
            tests = ["::".join(test) for test, each in left_out.items() if each == why]
            complaints.append(f"left out: {tests[0]}, and {len(tests) - 1} more: {why}")
    known = {function_of(*test) for test, why in left_out.items() if is_allowed(why)}
    for page in PAGES:
        for test in not_run(page, ran):
            text = f"{page} names what did not run: {test}"
            print(text) if test in known else complaints.append(text)
    # Python ends with 1 after any text, also after an empty one.
    sys.exit("\n".join(complaints) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
