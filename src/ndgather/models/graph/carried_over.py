"""What of the attributes of a node another version of an operator says too.

Both converters ask here: that of graphs, which have no nodes but the package's own, and that of
ONNX models, which can put nodes of ONNX before one whose new version lacks an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.published.schema import OperatorVersion

Value = TypeVar("Value")

_SILENT = {"axis": 0, "batch_dims": 0, "reduction": "none", "use_init_val": True}
"""What a version without an attribute does: the same as others do with this value of it."""


def carried_over(
    attributes: Mapping[str, Value], target: OperatorVersion
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return the attributes that `target` has too, and those that it lacks although they matter."""
    kept = {name: each for name, each in attributes.items() if target.attribute(name) is not None}
    lost = {
        name: each
        for name, each in attributes.items()
        if name not in kept and (name not in _SILENT or each != _SILENT[name])
    }
    return kept, lost
