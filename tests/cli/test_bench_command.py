"""``ndgather bench``: the benchmark as it is installed with the package."""

import sys


def test_answers_are_compared_without_times(ndgather):
    outcome = ndgather("bench --quick --case call-nd-4x4 --peer numpy")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "call-nd-4x4                  agree: ndgather numpy",
        "1 cases, 0 failed",
    ]


def test_cases_are_listed(ndgather):
    outcome = ndgather("bench --list --case station-* --case palette")

    assert (outcome.status, outcome.err) == (0, "")
    names = [line.split()[0] for line in outcome.out.splitlines()]
    assert names == ["station-samples", "station-series", "palette"]


def test_a_missing_library_that_is_asked_for_is_named(ndgather, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    outcome = ndgather("bench --case call-nd-4x4 --peer torch")

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        "ndgather bench: error: --peer torch: not installed: pip install torch\n"
    )


def test_other_missing_libraries_are_left_out_and_named(ndgather, monkeypatch):
    for name in ("torch", "onnxruntime", "openvino", "jax", "numba"):
        monkeypatch.setitem(sys.modules, name, None)

    outcome = ndgather("bench --quick --case call-nd-4x4")

    assert outcome.status == 0
    assert outcome.out.splitlines()[:2] == [
        "left out, as they are not installed: torch, onnxruntime, openvino, jax, numba",
        "call-nd-4x4                  agree: ndgather numpy reference",
    ]


def test_a_page_without_what_draws_it_is_refused_before_measuring(ndgather, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    outcome = ndgather("bench --case call-nd-4x4 --page")

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        "ndgather bench: error: --page draws charts: pip install 'ndgather[viz]'\n"
    )


def test_its_arguments_are_its_own(ndgather):
    outcome = ndgather("bench --mode wrap")

    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines()[0].startswith("usage: ndgather bench ")
    assert outcome.err.endswith("ndgather bench: error: unrecognized arguments: --mode wrap\n")
