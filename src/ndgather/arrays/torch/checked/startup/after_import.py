"""A function that is called when a module has been imported. This imports what the hook may."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AfterImport:
    """Call a function when a module has been imported; a finder in `sys.meta_path`.

    The block opens when torch has been imported. Before that, the program can set what torch reads
    while it is imported, such as OMP_NUM_THREADS.
    """

    def __init__(self, name: str, function: "Any") -> None:
        self._name, self._function = name, function
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the spec that other finders find, whose loader then calls the function."""
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
        """Watch imports no longer; return whether the module was still to come."""
        watched = self in sys.meta_path
        if watched:
            sys.meta_path.remove(self)
        return watched
