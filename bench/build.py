"""Build another revision of this repository, or another source tree, into a folder of its own."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from contextlib import nullcontext
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
_BUILDS = ROOT / "build" / "against"
_SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "bench", "core", "src")


def build(what: str) -> Path:
    """Return a folder with an importable ndgather: of a revision, a source tree, or as given.

    A revision or a source tree is built once; the folder is used again while it stays the same.

    Raises
    ------
    ValueError
        There is no such folder or revision, or it does not build.
    """
    path = Path(what).expanduser().resolve()
    if (path / "ndgather" / "__init__.py").is_file():
        return path
    if (path / "pyproject.toml").is_file():
        return _installed(_digest(path), path)
    if path.is_dir():
        raise ValueError(f"{what}: neither an installed ndgather nor its source tree")
    sha = _git("rev-parse", "--verify", "--quiet", f"{what}^{{commit}}").decode().strip()
    return _installed(sha, None)


def _installed(name: str, source: Path | None) -> Path:
    """Return the folder of a build; a `source` of None stands for the commit `name`."""
    target = _BUILDS / name
    if target.is_dir():
        return target
    print(f"building {source or name[:12]} into {target}", flush=True)
    _BUILDS.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=_BUILDS) as made,
        nullcontext(source) if source else TemporaryDirectory() as tree,
    ):
        if not source:
            with tarfile.open(fileobj=BytesIO(_git("archive", name))) as archive:
                archive.extractall(tree, filter="data")
        build_folder = f"build-dir={made}/build"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        command += [f"{made}/installed", "--config-settings", build_folder, str(tree)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"{source or name[:12]} does not build:\n{done.stderr.strip()}")
        Path(made, "installed").rename(target)
    return target


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise ValueError(
            f"no folder and no revision of {ROOT}: {arguments[-1].removesuffix('^{commit}')}"
        )
    return done.stdout


def _digest(tree: Path) -> str:
    """Return a name for the sources in `tree` that changes whenever one of them does."""
    digest = blake2b(digest_size=20)
    for top in _SOURCES:
        found = sorted((tree / top).rglob("*")) if (tree / top).is_dir() else [tree / top]
        for path in found:
            if path.is_file() and path.suffix not in (".pyc", ".so"):
                digest.update(f"{path.relative_to(tree)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
