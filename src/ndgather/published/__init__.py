"""The published operators: every version as a row of data, and what follows from the rows.

`schema` has the types of rows, and `rows` a module of data for every specification. `inference`
applies a row to types and shapes, `callables` makes operators of rows, and `registry` finds them.
"""

from ndgather.published.callables import Operator
from ndgather.published.registry import operator, operators

__all__ = ["Operator", "operator", "operators"]
