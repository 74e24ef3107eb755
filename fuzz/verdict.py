"""The allowed outcomes for any bytes: an answer, or a one-line error of the package.

Never another exception, more than `SECONDS` of work, more than `BYTES` of memory, or access to a
file outside the folder of the model.
"""

from __future__ import annotations

import resource
import shutil
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.errors import NdgatherError

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 5.0
BYTES = 2**30
LONGEST_LINE = 10_000

# Most types are tensors; as int64, their numbers can be indices.
WEIGHTS = b"".join((place % 3 - 1).to_bytes(8, "little", signed=True) for place in range(32))
OUTSIDE = b"what stands outside of the folder of the model. " * 8

# The folders of Python and its packages; a model is not responsible for imports from them.
_OWN = tuple(
    str(Path(place).resolve())
    for place in {
        sys.prefix,
        sys.base_prefix,
        *sysconfig.get_paths().values(),
        *filter(Path.is_absolute, map(Path, sys.path)),
        "/usr/lib",
        "/usr/share",
        "/proc",
        "/dev",
        "/sys",
    }
)


class BrokenPromiseError(AssertionError):
    """Bytes had an outcome that is not allowed."""


class Desk:
    """A folder with one model, next to a file that no model may read."""

    def __init__(self) -> None:
        self._holder = tempfile.TemporaryDirectory(prefix="ndgather-fuzz-")
        self._root = Path(self._holder.name).resolve()
        self.folder = self._root / "model"
        self._watched = False
        self._strays: list[str] = []
        (self._root / "outside.bin").write_bytes(OUTSIDE)
        sys.addaudithook(self._look)

    def clear(self) -> None:
        """Delete everything in the folder except the weights that models may name."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        (self.folder / "inner").mkdir(parents=True)
        (self.folder / "weights.bin").write_bytes(WEIGHTS)
        (self.folder / "inner" / "weights.bin").write_bytes(WEIGHTS)

    def _look(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._watched or event not in {"open", "os.remove", "os.rename", "os.mkdir"}:
            return
        if not isinstance(arguments[0], str | bytes):
            return
        path = Path(arguments[0] if isinstance(arguments[0], str) else arguments[0].decode())
        place = str(path if event == "open" and not path.exists() else path.resolve())
        inside = place == str(self.folder) or place.startswith(f"{self.folder}/")
        if not inside and not place.startswith(_OWN):
            self._strays.append(f"{event} {place}")

    @contextmanager
    def judged(self, *, may_lack_memory: bool = False) -> Iterator[None]:
        """Hold what is done within to the promise.

        Raises
        ------
        BrokenPromiseError
            It was broken. Other exceptions, which break it too, pass as they are.
        """
        start = time.process_time()
        self._strays.clear()
        self._watched = True
        try:
            yield
        except NdgatherError as refusal:
            text = str(refusal)
            if "\n" in text or len(text) > LONGEST_LINE:
                raise BrokenPromiseError(f"a refusal of {len(text)} characters") from refusal
        except MemoryError:
            if not may_lack_memory:
                raise
        finally:
            self._watched = False
        if self._strays:
            raise BrokenPromiseError(f"touched: {self._strays}")
        spent = time.process_time() - start
        if spent > SECONDS:
            raise BrokenPromiseError(f"took {spent:.1f} s")
        for path in self.folder.rglob("*"):
            if path.is_file() and OUTSIDE[:40] in path.read_bytes():
                raise BrokenPromiseError(f"{path.name} holds what stands outside")
        if sorted(each.name for each in self._root.iterdir()) != ["model", "outside.bin"]:
            raise BrokenPromiseError("wrote outside of the folder")


def limit_memory() -> None:
    """Make allocations beyond `BYTES` fail from now on."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
