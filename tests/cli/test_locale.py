"""Commands read and write numbers and words in the same way in every locale.

German has a decimal comma (1,5), and Turkish has a dotless i, whose capital is I. The tests compile
these locales because few machines have them.
"""

import locale
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

# Prints the results of several calls and commands in two locales.
SCRIPT = '''
import contextlib, io, locale, sys
from pathlib import Path
import numpy as np
import onnx
import pandas as pd
import xarray as xr
from onnx.parser import parse_model

locale.setlocale(locale.LC_ALL, "")  # from the environment, which modules may read
import ndgather
import ndgather.show
from ndgather.cli import main

MODEL = """<ir_version: 8, opset_import: ["" : 16]>
    same (float[N] x) => (float[N] y) { y = Identity(x) }"""

def run(line):
    streams = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            status = main(line.split())
        except SystemExit as end:
            status = end.code
    for text in (stream.getvalue() for stream in streams):
        for word in (" us", " ms", " s", "/s"):  # times differ from run to run
            text = "\\n".join(part for part in text.split("\\n") if word not in part)
        print(status, line, repr(text))

def shown(call):
    try:
        print(repr(call()))
    except Exception as error:
        print(type(error).__name__, error)

def everything():
    data, indices = np.arange(12.0).reshape(3, 4) / 8, np.array([[0, 1], [9, 9]])
    for value in (1.5, 1e-3, -0.25, float("nan")):
        drawn = ndgather.show.gather_nd(data, indices, mode="fill", fill_value=value)
        print(drawn.to_text(80), drawn.to_svg())
    run("inquire data.npy")
    run("INFER model.onnx")
    numbers = parse_model(MODEL)
    onnx.save(numbers, "numbers.onnx")
    for value in ("1.5", "1,5", "1e-3", "-.25", "NaN", "[1.5,2]", "1_000"):
        Path("y.npy").unlink(missing_ok=True)
        run(f"run numbers.onnx --runtime reference --input x={value} --output y=y.npy")
        print(np.load("y.npy").tolist() if Path("y.npy").exists() else None)
    for memory in ("1.5 MiB", "1,5 MiB", "1.5 mib", "1.5 MIB", "1.5 MB"):
        shown(lambda: ndgather.gather([1.5], [0], memory=memory))
    for mode in ("fill", "FILL", "clip", "CLIP", "W\\u0131ndows"):
        shown(lambda: ndgather.gather([1.5], [3], mode=mode, fill_value=0.5))
    shown(lambda: ndgather.scatter_nd([1.5], [[0]], [2.25], reduction="MIN"))

    times = pd.date_range("2010-05-01", periods=4, freq="12h")
    data = xr.DataArray(
        np.arange(8.0).reshape(4, 2) / 16, {"time": times, "lat": [0.5, 1.5]}, ["time", "lat"], "IT"
    )
    data.to_dataset().to_netcdf("a.nc", engine="h5netcdf")
    Path("points.csv").write_text("time,lat\\n2010-05-01T12:00,1.5\\n2010-05-02,0.75\\n")
    Path("comma.csv").write_text("time;lat\\n01.05.2010 12:00;1,5\\n02.05.2010 00:00;0,75\\n")
    Path("wrong.csv").write_text("time;lat\\n2010-05-01;1,5\\n")
    for line in (
        "points.csv -o out.csv --method nearest --tolerance lat=0.25 --add-labels",
        "points.csv -o out.csv --method nearest --tolerance lat=0,25",
        "points.csv -o out.csv --method linear",
        "comma.csv -o out.csv --separator ; --decimal , --method pad --date-format %d.%m.%Y_%H:%M",
        "wrong.csv -o out.csv --separator ; --method nearest",
        "points.csv -o out.csv --method LINEAR",
    ):
        Path("out.csv").unlink(missing_ok=True)
        if "%d" in line:
            Path("comma.csv").write_text(Path("comma.csv").read_text("utf-8").replace(" ", "_"))
        run(f"sel a.nc {line}")
        print(Path("out.csv").read_text("utf-8") if Path("out.csv").exists() else None)

def answers(name):
    locale.setlocale(locale.LC_ALL, name)
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        everything()
    return stream.getvalue()

of_machine = answers("")
print(locale.format_string("%.2f", 1.25), len(of_machine))
assert "[1.5, 2.0]" in of_machine
assert "2010-05-01T12:00,1.5" in of_machine
for one, other in zip(answers("C").splitlines(), of_machine.splitlines(), strict=True):
    assert one == other, (one, other)
'''


# Turkish letters, German numbers and times; compiling a collation order takes too long.
SOURCE = "".join(
    f'LC_{category}\ncopy "{name}"\nEND LC_{category}\n'
    for category, name in {
        "CTYPE": "tr_TR",
        "NUMERIC": "de_DE",
        "TIME": "de_DE",
        "MONETARY": "de_DE",
        "COLLATE": "POSIX",
        "MESSAGES": "POSIX",
    }.items()
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a locale and its name, or C.UTF-8 if the locale cannot be compiled."""
    folder = tmp_path_factory.mktemp("locales")
    (folder / "source").write_text(SOURCE)
    command = ["localedef", "--no-archive", "-c", "-i", folder / "source", "-f", "UTF-8"]
    with suppress(OSError):
        subprocess.run(
            [*command, folder / "xx.UTF-8"], capture_output=True, check=False, timeout=99
        )
    exists = (folder / "xx.UTF-8" / "LC_NUMERIC").exists()
    return folder, "xx.UTF-8" if exists else "C.UTF-8"


def test_output_does_not_depend_on_the_locale(made, tmp_path):
    folder, name = made
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))},
        "LC_ALL": name,
        "LOCPATH": str(folder),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    number, length = done.stdout.split()
    assert number == ("1,25" if name == "xx.UTF-8" else "1.25")
    assert int(length) > 5000


def test_the_locale_may_change_at_run_time(made, monkeypatch, ndgather):
    folder, name = made
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    model = parse_model(f"{head} same (float[N] x) => (float[N] y) {{ y = Identity(x) }}")
    onnx.save(model, "numbers.onnx")
    line = "run numbers.onnx --runtime reference --quiet --input x={} --output y={}.npy"

    def outcomes():
        found = [ndgather(line.format(value, n)) for n, value in enumerate(("1.5", "1,5", "1e-3"))]
        return [(each.status, each.err) for each in found], Path("0.npy").read_bytes()

    before = locale.setlocale(locale.LC_ALL)
    expected = outcomes()
    monkeypatch.setenv("LOCPATH", str(folder))
    try:
        locale.setlocale(locale.LC_ALL, name)
        assert outcomes() == expected
    finally:
        locale.setlocale(locale.LC_ALL, before)
