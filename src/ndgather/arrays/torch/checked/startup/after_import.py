"""A finder that calls a function after an import. This module imports only `sys`."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AfterImport:
    """A finder in `sys.meta_path` that calls a function after a module has been imported.

    The start-up hook opens its block after the program has imported torch, because the program may
    first set environment variables that torch reads when it is imported, such as OMP_NUM_THREADS.
    """

    def __init__(self, name: str, function: "Any") -> None:
        self._name, self._function = name, function
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the spec of another finder, with a loader that also calls the function."""
        if name != self._name:
            return None
        others = [finder.find_spec for finder in sys.meta_path if finder is not self]
        specs = (find_spec(name, path, target) for find_spec in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._call_after(spec.loader)
        return spec

    def _call_after(self, loader: "Any") -> None:
        load = loader.exec_module

        def exec_module(module: object) -> None:
            del loader.exec_module
            load(module)
            if self.stop():
                self._function()

        loader.exec_module = exec_module

    def stop(self) -> bool:
        """Stop watching imports; return whether the finder was still waiting for the module."""
        watched = self in sys.meta_path
        if watched:
            sys.meta_path.remove(self)
        return watched
