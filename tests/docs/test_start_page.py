"""The README, which the start page includes, agrees with the numbers of the pages."""

import re
from pathlib import Path

import numpy as np
import xarray as xr

from ndgather.cli import main
from tools import versions

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "docs/index.md", "docs/install.md")
README, INDEX, INSTALL = ((ROOT / name).read_text() for name in NAMES)
TEXT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    *(page for page in (ROOT / "docs").rglob("*.md") if "benchmarks" not in page.name),
    *(ROOT / "examples").glob("*.py"),
    ROOT / "README.md",
    ROOT / "examples" / "tour.ipynb",
]


def found(page, pattern):
    return re.search(pattern, (ROOT / "docs" / page).read_text()).groups()


def sentences_about_numbers():
    """Return the README's sentences with the numbers of the pages that report them."""
    cases, ratio = found("benchmarks.md", r"- (\d+) cases; .* takes ([\d.]+) times as long")
    right, total = found("conformance.md", r"Right, .*: ndgather (\d+) of (\d+)")
    (others,) = found("conformance.md", r"Right, .*: ndgather \d+ of \d+, (.*)\.\n")
    shares = [int(a) / int(b) for a, b in re.findall(r"(\d+) of (\d+)", others)]
    (bugs,) = found("security.md", r"- (\d+) entries: ")
    return (
        f"On average over {cases} benchmarks, ndgather is **{ratio} times as fast** as",
        f"ndgather passes **{right} of {total}** cases of a public",
        f"Other libraries pass {min(shares):.0%} to {max(shares):.0%} of the cases",
        f"the inputs of **{bugs}** [published bugs]",
    )


def test_station_list_gives_the_shown_values(tmp_path, monkeypatch, capsys):
    """The grid has the longitudes of ERA5, from 0 to 359.75, and a value per place."""
    block = next(block for block in TEXT.findall(README) if "cat stations.csv" in block)
    shown = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    before, command, after = zip(shown[::2], shown[1::2], strict=True)
    monkeypatch.chdir(tmp_path)
    Path("stations.csv").write_text(before[1].strip() + "\n")
    latitudes, longitudes = np.arange(90, -90.1, -0.25), np.arange(0, 360, 0.25)
    along = 5 * np.sin(np.deg2rad(longitudes))
    kelvin = 288 + 10 * np.cos(np.deg2rad(latitudes))[:, None] + along
    axes = {
        "latitude": ("latitude", latitudes, {"units": "degrees_north"}),
        "longitude": ("longitude", longitudes, {"units": "degrees_east"}),
    }
    field = xr.DataArray(kelvin.round(1).astype("f4"), axes, ("latitude", "longitude"), "t2m")
    field.to_netcdf("t2m.nc", engine="h5netcdf")
    program, *arguments = command[0].split()
    assert (before[0], program, after[0]) == ("cat stations.csv", "ndgather", "cat values.csv")
    assert main(arguments) == 0
    assert capsys.readouterr().err == ""
    assert Path("values.csv").read_text() == after[1]


def test_station_list_is_on_the_first_screen():
    """The start page includes the README."""
    screen = "\n".join(README[README.index("# ndgather") :].splitlines()[:32])
    assert "ndgather sel" in screen
    assert "stations.csv" in screen


def test_start_page_includes_parts_of_the_readme():
    ends = re.findall(r'^:(?:start-after|end-before): "(.*)"$', INDEX, re.MULTILINE)
    assert len(ends) == 4
    assert [README.index(text) for text in ends] == sorted(map(README.index, ends))


def test_numbers_agree_with_the_pages():
    for sentence in sentences_about_numbers():
        assert sentence in README


def test_install_texts_agree():
    blocks = [block for text in (README, INDEX, INSTALL) for block in TEXT.findall(text)]
    installs = [block for block in blocks if "pip install ." in block]
    assert len(installs) == 3
    assert len(set(installs)) == 1


def test_pages_install_from_a_clone():
    """Only installed packages and errors use the name on the package index."""
    errors = ROOT / "docs" / "guide" / "errors.md"
    written = [page for page in PAGES if page.parent.name not in ("commands", "generated")]
    named = [page for page in written if "pip install 'ndgather[" in page.read_text()]
    assert named == [errors]
    assert not any("git clone REPOSITORY" in page.read_text() for page in PAGES)


def test_every_extra_on_the_page_exists():
    pyproject = (ROOT / "pyproject.toml").read_text()
    extras = INSTALL.partition("## If it does not install")[0]
    rows = re.findall(r"^\| (`.*?) \|", extras, re.MULTILINE)
    for extra in re.findall(r"`(\w+)`", " ".join(rows)):
        assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), extra


def test_version_table_has_every_package_of_the_extras():
    """Its oldest versions are the lowest that the bounds in pyproject.toml allow."""
    rows = re.findall(r"^\| ([\w-]+) \| (\d\S*) \| (\d\S*) \|$", INSTALL, re.MULTILINE)
    asked, pins = versions.requirements(), versions.pinned(versions.OLDEST.read_text())
    assert [versions.plain_name(name) for name, _, _ in rows] == [*asked]
    for name, oldest, newest in rows:
        bound = versions.order(asked[versions.plain_name(name)].partition(">=")[2].split(";")[0])
        assert pins[versions.plain_name(name)] == oldest
        assert versions.order(oldest)[: len(bound)] == bound, name
        assert versions.order(newest) >= versions.order(oldest), name


def test_vulnerability_page_has_the_number_of_its_rows():
    rows = re.findall(r"^\| \[[\w-]+\]\(", (ROOT / "docs/security.md").read_text(), re.MULTILINE)
    assert found("security.md", r"- (\d+) entries: ") == (str(len(rows)),)
