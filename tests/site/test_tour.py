"""The tour in Jupyter."""

from __future__ import annotations

from pathlib import Path

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


def test_tour_runs_in_a_notebook(tmp_path):
    import nbclient  # noqa: PLC0415 - the links need no notebook
    import nbformat  # noqa: PLC0415

    notebook = nbformat.read(TOUR, as_version=4)

    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    outputs = [each for cell in notebook.cells if cell.cell_type == "code" for each in cell.outputs]
    assert [each.ename for each in outputs if each.output_type == "error"] == [
        "IndexOutOfBoundsError"
    ]
    pictures = [each for each in outputs if "<figure" in each.get("data", {}).get("text/html", "")]
    assert len(pictures) >= 8
