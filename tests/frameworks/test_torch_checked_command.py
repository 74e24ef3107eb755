"""``ndgather checked``: a program runs as usual until an index is out of bounds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")  # child processes

PROGRAM = """\
import atexit
import inspect
import os
import signal
import sys
import weakref
import torch
import beside

class Kept:
    def __del__(self):  # after the functions that are called at exit
        self.embed(self.indices)

def main(what):
    kept.embed = embed = torch.nn.Embedding(50, 8)
    print(what, __name__, __file__, beside.NAME, sys.argv, torch.__file__ != __file__)
    os.chdir("/")
    print(inspect.getsource(Kept))
    kept.indices = torch.tensor([3, 49])
    embed(kept.indices)
    if what == "bad":
        embed(torch.tensor([[3, 49], [50, 7]]))
    if what == "exit":
        sys.exit(7)
    if what == "text":
        sys.exit("a text")
    if what == "error":
        raise FileNotFoundError("its own")
    if what == "interrupt":
        signal.raise_signal(signal.SIGINT)
    if what == "ours":
        import ndgather
        ndgather.gather([1, 2], [7])

if __name__ == "__main__":
    kept = Kept()
    weakref.finalize(kept, print, "finalized")
    atexit.register(print, "at exit")
    main(sys.argv[1])
"""
# A small part of torch, because importing all of it takes seconds.
FEW_LINES = """\
class nn:
    class Embedding:
        def __init__(self, rows, columns):
            pass

        def __call__(self, indices):
            pass

tensor = list
"""
FACTS = """\
import sys
print(__name__, __file__, sys.argv, sys.path, sys.flags, __spec__ and __spec__.name)
print(sorted({*sys.modules} - {"sitecustomize"}), len(sys.meta_path))
"""
SETTINGS = """\
import os
os.environ["OMP_NUM_THREADS"] = "1"
import torch
print(torch.get_num_threads())
torch.ones(3)[torch.tensor([7])]
"""
THREADS = """\
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
import torch

embed = torch.nn.Embedding(5, 2)

def look_up(row):
    try:
        return tuple(embed(torch.tensor([1, row])).shape)
    except IndexError as error:
        return str(error).splitlines()[0]

class Looking(threading.Thread):
    def run(self):
        print(look_up(12))
        inner = threading.Timer(0, lambda: print(look_up(13)))
        inner.start()
        inner.join()

def fail():
    raise ValueError("its own")

with ThreadPoolExecutor(2) as pool:
    print(*pool.map(look_up, [4, 10]))
for thread in threading.Thread(target=lambda: print(look_up(11))), Looking():
    thread.start()
    thread.join()
threading.Thread(target=fail, name="failing").start()
"""
CHILDREN = """\
import multiprocessing
import subprocess
import sys
import torch

def look_up(row):
    try:
        return tuple(torch.nn.Embedding(5, 2)(torch.tensor([1, row])).shape)
    except IndexError as error:
        return str(error).splitlines()[0]

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(look_up(4), look_up(9))
    else:
        subprocess.run([sys.executable, __file__, "child"], check=True)
        for how in ("spawn", "forkserver", "fork"):
            with multiprocessing.get_context(how).Pool(1) as pool:
                print(*pool.map(look_up, [4, 9]), flush=True)
"""
IN_TURN = """\
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 3)))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(3):
    loss = net(torch.tensor([step, 2 + rank, 9])).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0:
    print(loss.item().hex(), [each.sum().item().hex() for each in net.parameters()], flush=True)
dist.barrier()
if len(sys.argv) > 1 and rank == 1:
    net(torch.tensor([3, 3, 10]))
dist.barrier()  # gloo fails in a process whose peer has gone
dist.destroy_process_group()
"""
ALONE = """\
import subprocess
import sys
import threading

started, done = threading.Event(), threading.Event()
threading.Thread(target=lambda: (started.set(), done.wait()), name="early").start()
started.wait()
import torch
torch.ones(3)[torch.tensor([2])]
done.set()
for _ in range(2):
    subprocess.run([sys.executable, "-I", "-c", "print('isolated')"], check=True)
    subprocess.run([sys.executable, "-c", "print('apart')"], env={"PYTHONPATH": ""}, check=True)
options = "-Werror::ImportWarning", "-Xint_max_str_digits=0"
subprocess.run([sys.executable, *options, "-c", "print('checked', 'SEI')"], check=True)
"""
TRACED = """\
import hashlib
import io
import sys
import warnings
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 5)

    def forward(self, tokens, rows):
        rest = self.embed(tokens)[torch.arange(2), rows]
        return self.out(self.embed(tokens)), rest.index_select(0, rows)

torch.manual_seed(0)
net, file, tokens = Net().eval(), io.BytesIO(), torch.zeros(2, 3, dtype=torch.long)
scripted, rows = torch.jit.script(net), torch.tensor([0, 1])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.onnx.export(net, (tokens, rows), file, dynamo=False)
print(hashlib.sha256(file.getvalue()).hexdigest())
torch.ones(3).T
torch.nn.functional.softmax(torch.ones(3))
print("torch._dynamo" in sys.modules)
if len(sys.argv) > 1:
    print(scripted(tokens + 50, rows))
"""
TEST = """\
import torch

def test_rows():
    torch.nn.Embedding(5, 2)(torch.tensor([1, 9]))
"""


def run(folder, *command, path=None):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | ({} if path is None else {"PYTHONPATH": f"{path}"}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    for name, text in {
        "sub/train.py": PROGRAM,
        "sub/beside.py": "NAME = 'beside'\n",
        "sub/wrong.py": "x = (\n",
        "few/torch.py": FEW_LINES,
        "facts.py": FACTS,
        "settings.py": SETTINGS,
        "threads.py": THREADS,
        "children.py": CHILDREN,
        "in_turn.py": IN_TURN,
        "alone.py": ALONE,
        "traced.py": TRACED,
        "test_rows.py": TEST,
        "hidden/sitecustomize.py": "print('sitecustomize of the environment')\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("what", ["good", "exit", "text", "error", "interrupt", "ours"])
def test_output_status_and_traceback_equal_the_program(folder, what):
    words = ["sub/train.py", what, "--epochs", "1", "--", "--help"]
    expected = run(folder, *words, path=folder / "few")
    found = run(folder, "-m", "ndgather", "checked", *words)
    assert "finalized" in expected.stdout
    assert (found.stdout, found.returncode) == (expected.stdout, expected.returncode)
    assert found.stderr == expected.stderr


def test_modules_run_as_with_python(folder):
    words = ["-m", "train", "good", "-x"]
    expected = run(folder / "sub", *words, path=folder / "few")
    found = run(folder / "sub", "-m", "ndgather", "checked", *words)
    assert (found.stdout, found.stderr) == (expected.stdout, "")


@pytest.mark.parametrize("options", [[], ["-u", "-X", "utf8"], ["-OB"]], ids=" ".join)
@pytest.mark.parametrize("program", [["facts.py"], ["-m", "facts"]], ids=" ".join)
def test_program_without_torch_runs_as_with_python(folder, options, program):
    expected = run(folder, *options, *program, "-v")
    found = run(folder, *options, "-m", "ndgather", "checked", *program, "-v")
    lines = found.stdout.splitlines()
    count = len(lines[-1]) - 1
    assert expected.stdout.splitlines()[0] == lines[0]
    assert expected.stdout.splitlines()[1][:count] == lines[1][:count]
    assert found.stderr == ""


def test_sitecustomize_of_the_environment_still_runs(folder):
    found = run(folder, "-m", "ndgather", "checked", "facts.py", path=folder / "hidden")
    expected = run(folder, "facts.py", path=folder / "hidden")
    assert found.stdout.splitlines()[1:2] == expected.stdout.splitlines()[:1]
    assert found.stdout.splitlines()[2] == expected.stdout.splitlines()[1]


def test_bad_index_is_named(folder):
    found = run(folder, "-m", "ndgather", "checked", "sub/train.py", "bad")
    assert found.returncode == 1
    assert found.stderr.startswith('Traceback (most recent call last):\n  File "')
    assert "ndgather/cli" not in found.stderr
    assert "runpy" not in found.stderr
    assert (
        "ndgather.errors.IndexOutOfBoundsError: embedding: indices[1, 0] = 50 is outside axis 0 of "
        "weight, which has size 50 (allowed: 0..49)\n"
    ) in found.stderr
    assert "/sub/train.py:22: embed(torch.tensor([[3, 49], [50, 7]]))\n" in found.stderr


def test_settings_before_the_import_of_torch_apply(folder):
    found = run(folder, "-m", "ndgather", "checked", "settings.py")
    assert (found.stdout, found.returncode) == ("1\n", 1)
    assert "IndexOutOfBoundsError: index: indices[0][0] = 7 " in found.stderr


def outside(row):
    return (
        f"embedding: indices[1] = {row} is outside axis 0 of weight, which has size 5 "
        f"(allowed: 0..4)"
    )


def test_threads_are_checked(folder):
    expected = run(folder, "threads.py")
    found = run(folder, "-m", "ndgather", "checked", "threads.py")
    first = f"(2, 2) {outside(10)}"
    assert found.stdout.splitlines() == [first, outside(11), outside(12), outside(13)]
    assert found.stderr == expected.stderr  # a thread that fails on its own


def test_child_processes_are_checked(folder):
    found = run(folder, "-m", "ndgather", "checked", "children.py")
    assert (found.stdout, found.stderr) == (4 * f"(2, 2) {outside(9)}\n", "")


LAUNCHED = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]


def test_torchrun_processes_compute_the_same_bits_and_exit(folder):
    expected = run(folder, *LAUNCHED, "in_turn.py")
    assert expected.stdout
    found = run(folder, *LAUNCHED, "-m", "ndgather", "checked", "in_turn.py")
    assert (found.stdout, found.returncode) == (expected.stdout, 0), found.stderr
    found = run(folder, "-m", "ndgather", "checked", *LAUNCHED, "in_turn.py", "bad")
    assert (found.stdout, found.returncode) == (expected.stdout, 1), found.stderr
    assert "embedding: indices[2] = 10 is outside axis 0 of weight" in found.stderr


def test_exported_graphs_and_warnings_equal_the_program(folder):
    expected = run(folder, "traced.py")
    found = run(folder, "-m", "ndgather", "checked", "traced.py")
    assert "traced.py:" in expected.stderr
    assert (found.stdout, found.stderr) == (expected.stdout, expected.stderr)


def test_error_in_torchscript_has_the_text(folder):
    found = run(folder, "-m", "ndgather", "checked", "traced.py", "bad")
    assert found.returncode == 1
    assert "embedding: indices[0, 0] = 50 is outside axis 0 of weight" in found.stderr


def test_unchecked_parts_are_reported_once(folder):
    found = run(folder, "-m", "ndgather", "checked", "alone.py")
    assert found.stdout == 2 * "isolated\napart\n" + "checked SEI\n"
    assert found.returncode == 0
    first, second, third = found.stderr.splitlines()
    assert first.startswith("ndgather checked: thread 'early' is not checked: it started before")
    assert second.endswith("is not checked: Python does not import the start-up hook under -I")
    assert third.endswith("is not checked: its PYTHONPATH differs from the one of this process")


def test_python_without_ndgather_is_reported(folder):
    python = Path(sys.base_prefix, "bin", "python3")
    if not python.exists():
        pytest.skip("the interpreter of the environment is somewhere else")
    (folder / "start.py").write_text(
        "import subprocess\n"
        f"subprocess.run([{os.fspath(python)!r}, '-c', 'import torch; print(torch.tensor)'])\n"
    )
    found = run(folder, "-m", "ndgather", "checked", "start.py", path=folder / "few")
    assert found.stdout == "<class 'list'>\n"
    assert found.stderr.startswith(f"ndgather checked: {python} is not checked: No module named")


def test_pytest_reports_the_index(folder):
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rows.py"]
    found = run(folder, "-m", "ndgather", "checked", *words)
    assert found.returncode == 1
    assert outside(9) in found.stdout
    assert "test_rows.py:4" in found.stdout


def test_program_with_a_syntax_error(folder):
    found = run(folder, "-m", "ndgather", "checked", "sub/wrong.py")
    assert found.returncode == 1
    assert "SyntaxError: " in found.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("sub/trian.py --epochs 1", "; did you mean 'sub/train.py'?"),
        ("python sub/train.py good", "; write ndgather checked sub/train.py good"),
        ("python3 -m train good", "; write ndgather checked -m train good"),
        ("python -u train.py", "; write python OPTIONS -m ndgather checked SCRIPT"),
        ("pytest -q test_rows.py", "; write ndgather checked -m pytest -q test_rows.py"),
        ("-m pytst", "; did you mean 'pytest'?"),
        ("zzz.py", "(allowed: a script, or -m and a module name)"),
    ],
)
def test_wrong_command_line_has_a_hint(folder, words, hint):
    found = run(folder, "-X", "importtime", "-m", "ndgather", "checked", *words.split())
    assert found.returncode == 1
    assert found.stderr.endswith(f"{hint}\n")
    assert "| torch\n" not in found.stderr


def test_commands_written_in_python_are_run_by_path(folder, monkeypatch):
    (folder / "bin").mkdir()
    command = folder / "bin" / "launch"
    command.write_text(f"#!{sys.executable}\nprint('launched')\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    found = run(folder, "-m", "ndgather", "checked", "launch", "train.py")
    hint = f"ndgather checked {command} train.py"
    assert found.stderr.endswith(f"; write {hint}\n")
    assert run(folder, "-m", *hint.split()).stdout == "launched\n"


def test_python_that_ignores_the_hook_is_refused(folder):
    found = run(folder, "-E", "-m", "ndgather", "checked", "facts.py")
    assert found.returncode == 1
    assert found.stderr.startswith("ndgather checked: error: Python was started with -E, -I or -S")


def test_missing_torch_error_says_what_to_install(folder):
    code = "import sys; sys.modules['torch'] = None; from ndgather.cli import main; "
    found = run(folder, "-c", f"{code}sys.exit(main(['checked', 'sub/train.py']))")
    assert found.returncode == 1
    assert found.stderr.startswith("ndgather checked: error: this needs the package torch")
