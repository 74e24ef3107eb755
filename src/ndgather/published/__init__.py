"""The published operators: what each version says, as data, and what follows from it.

`schema` has the types, `rows` a module of data for each specification. From a row follow the types
and shapes of a call (`inference`), which index values are refused (`index_check`), how two versions
differ (`diff`), and an operator to call (`callables`).
"""

from ndgather.published.callables import Operator
from ndgather.published.table import operator, operators

__all__ = ["Operator", "operator", "operators"]
