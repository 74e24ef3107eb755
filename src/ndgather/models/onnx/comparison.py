"""One model in several runtimes: which gather or scatter node differs, and who is right."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ndgather.errors import NdgatherError, runtime_errors
from ndgather.errors.texts import bearable
from ndgather.models.entry_checks import named_arrays, names, tolerance
from ndgather.models.graph.ports import fit_inputs
from ndgather.models.onnx.compared import Comparison, NodeComparison, NodeRun
from ndgather.models.onnx.exposed_nodes import ExposedNode, exposed
from ndgather.models.onnx.judged_nodes import first_difference, judged
from ndgather.models.onnx.model_files import opened
from ndgather.models.onnx.observed_runs import ObservedRun, Values
from ndgather.models.onnx.onnx_model import model_ports
from ndgather.models.onnx.rulings import ruling
from ndgather.models.onnx.runtime_model import load_runtime
from ndgather.models.onnx.runtime_options import options_by_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.models.onnx.judged_nodes import JudgedNode
    from ndgather.models.onnx.model_files import Source
    from ndgather.models.onnx.op_nodes import OpNode
    from ndgather.models.onnx.runtime_options import ForRuntimes
    from ndgather.show import Picture

Array = NDArray[Any]


def compare(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtimes: Sequence[str] = ("onnxruntime", "openvino"),
    rtol: float = 1e-3,
    atol: float = 1e-5,
    threads: int | None = None,
    providers: ForRuntimes = (),
    libraries: ForRuntimes = (),
) -> Comparison:
    """Run a model in several runtimes and compare every gather and scatter node.

    Each runtime runs in a process of its own. What a node read there is computed again by the
    version of its operator that the model imports, so that it is told apart whether a node goes
    wrong itself or was given other inputs.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file.
    inputs : mapping of str to array_like
        The inputs of the model by their names; see `run` and `random_inputs`.
    runtimes : sequence of str
        ``"onnxruntime"``, ``"openvino"``, ``"reference"``, or modules of your own.
    rtol, atol : float
        How far floats of two runtimes may be apart, as in `numpy.isclose`. Values of gather nodes
        are compared with their specification bit by bit.
    threads
        As in `run`.
    providers, libraries : sequence of str, or mapping of a runtime to a sequence of str
        As in `run`: for every runtime but the reference evaluator, or for those that are named.

    Returns
    -------
    Comparison
        For each node and runtime whether it gave what its specification says, and if not the first
        element, the indices that lead there, the rule that decides and what to write instead.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        The model cannot be read, an input is missing, or a runtime is not known or not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> found = onnx.compare(model, {"data": data, "rows": [[-1]]}, runtimes=["reference"])
    >>> found.same, found.nodes[0].runs[0].status
    (True, 'same')
    """
    runtimes = checked_runtimes("compare", runtimes)
    rtol, atol = tolerance("compare", "rtol", rtol), tolerance("compare", "atol", atol)
    options = options_by_runtime("compare", runtimes, threads, providers, libraries)
    proto, folder = opened(model, "compare")
    copy = type(proto)()
    copy.CopyFrom(proto)
    ports, results = model_ports(copy)
    fitted = fit_inputs(ports, named_arrays("compare", inputs))
    looked = exposed(copy, folder)
    wanted = [port.name for port in results]
    found = [ObservedRun(looked, name, wanted, fitted, options[name]) for name in runtimes]
    base = next((each.values for each in found if each.values is not None), {})
    return Comparison(
        runs=tuple(each.summary() for each in found),
        nodes=tuple(_node(node, found, base, rtol, atol) for node in looked.nodes),
        outputs=tuple(_outputs(wanted, found, base, rtol, atol)),
        left=looked.left,
    )


def checked_runtimes(caller: str, runtimes: object) -> tuple[str, ...]:
    """Return the names of runtimes, which have to be there."""
    found = names(caller, "runtimes", runtimes)
    if not found:
        raise runtime_errors.no_runtimes(caller)
    for name in found:
        load_runtime(name)
    return found


def _node(
    node: ExposedNode,
    found: Sequence[ObservedRun],
    base: Values,
    rtol: float,
    atol: float,
) -> NodeComparison:
    row = node.op_node.operator().row
    runs = []
    for each in found:
        run = _node_run(node, each)
        if run.status != "not run" and each.values is not base:
            run = replace(run, inputs_differ=_inputs_differ(node, each, base, rtol, atol))
        runs.append(run)
    return NodeComparison(
        where=node.op_node.where,
        operator=str(row),
        source=row.source,
        reads=tuple(node.op_node.node.input),
        gives=node.op_node.node.output[0],
        runs=tuple(runs),
    )


def _node_run(node: ExposedNode, run: ObservedRun) -> NodeRun:
    """Return what one runtime made of one node."""
    known = run.values or {}
    stopped = run.stopped_at is node
    has_all = all(name in known for name in node.in_branch)
    inputs = node.inputs(known) if has_all else None
    theirs = known.get(node.gives)
    if inputs is None or (theirs is None and not stopped):
        return NodeRun(runtime=run.runtime, status="not run")
    op_node = node.op_node
    row, attributes = op_node.operator().row, op_node.attributes()
    made = judged(op_node, inputs, None if stopped else theirs)
    if made.same:
        return NodeRun(runtime=run.runtime, status="same", obeys=True)
    if stopped:
        crashed = run.stop.crashed is not None
        text = bearable(run.stop.crashed or run.stop.refused or "")
        allowed = made.refusal is None
        return NodeRun(
            runtime=run.runtime,
            status="crashed" if crashed else "refused",
            obeys=not crashed and not allowed,
            ruling=None if allowed else ruling(row, attributes, made),
            text=text,
            picture=_picture(op_node, made),
        )
    decided = ruling(row, attributes, made)
    place = made.first
    return NodeRun(
        runtime=run.runtime,
        status="differs" if decided.decided else "open",
        obeys=False if decided.decided else None,
        place=place,
        theirs=_shown(made.theirs, place),
        ours="refused" if made.ours is None else _shown(made.ours, place),
        ruling=decided,
        picture=_picture(op_node, made),
    )


def _picture(op_node: OpNode, made: JudgedNode) -> Picture | None:
    with suppress(NdgatherError):
        return op_node.operator().show(*made.inputs, **op_node.attributes())
    return None


def _shown(array: Array | None, place: tuple[int, ...] | None) -> str:
    if array is None:
        return ""
    if place is not None:
        return str(array[place])
    if array.size <= 8:
        return f"{array.dtype} {array.shape}: {array.tolist()}"
    return f"{array.dtype} {array.shape}"


def _inputs_differ(
    node: ExposedNode, run: ObservedRun, base: Values, rtol: float, atol: float
) -> bool:
    for name in node.reads:
        one, other = base.get(name), (run.values or {}).get(name)
        if one is not None and other is not None and values_differ(one, other, rtol, atol):
            return True
    return False


def values_differ(one: Array, other: Array, rtol: float, atol: float) -> bool:
    """Return whether two arrays are not alike, or an element differs by more than is allowed."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    return first_difference(one, other, rtol=rtol, atol=atol) is not None


def _outputs(
    wanted: Sequence[str], found: Sequence[ObservedRun], base: Values, rtol: float, atol: float
) -> list[tuple[str, str]]:
    differing = []
    for run in found:
        if not run.whole or run.values is base or run.values is None:
            continue
        for name in wanted:
            one, other = base.get(name), run.values[name]
            if one is None or not values_differ(one, other, rtol, atol):
                continue
            forms = [runtime_errors.form(each.dtype, each.shape) for each in (other, one)]
            if forms[0] != forms[1]:
                differing.append((name, f"{run.runtime} gives {forms[0]}, not {forms[1]}"))
                continue
            at = first_difference(one, other, rtol=rtol, atol=atol)
            assert at is not None
            where = ", ".join(map(str, at))
            differing.append((name, f"{run.runtime} gives [{where}] = {other[at]}, not {one[at]}"))
    return differing
