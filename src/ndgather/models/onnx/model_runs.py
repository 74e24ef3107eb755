"""Models run by name of a runtime: the one door for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from numpy.typing import NDArray

from ndgather.errors import runtime_errors
from ndgather.errors.runtime_errors import NotLoadedError
from ndgather.log import LOGGER
from ndgather.models.entry_checks import instance, names, whole_number
from ndgather.models.onnx.onnx_model import Model
from ndgather.models.onnx.runtime_model import REFERENCE, RuntimeModel, default_runtime
from ndgather.runtimes.whole_model import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.models.onnx.model_files import Source

Array = NDArray[Any]


def load(
    model: Source,
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    profile: bool = False,
    in_place: bool = False,
) -> Model | RuntimeModel:
    """Load a model to be run many times; the arguments are those of `run`.

    With `profile`, `Run.nodes` of the first run has the time of each node of onnxruntime. With
    `in_place`, onnxruntime maps the large tensors of a model file where they are, which takes less
    than half of the memory, and time; nobody may then write into the file while the model is used.

    Returns
    -------
    Model or RuntimeModel
        What it declares as its `inputs` and `outputs`, and its method `run`.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        As in `run`.
    """
    if runtime is not None:
        instance("load", "runtime", runtime, str, "the name of a runtime")
    if threads is not None:
        threads = whole_number("load", "threads", threads, 1)
    providers = names("load", "providers", providers)
    libraries = names("load", "libraries", libraries)
    why = ""
    options = LoadOptions(
        threads=threads, providers=providers, libraries=libraries, profile=profile
    )
    if (runtime or default_runtime()) != REFERENCE:
        try:
            return RuntimeModel(
                model,
                runtime or default_runtime(),
                options,
                accept=accept_runtime,
                in_place=in_place,
            )
        except NotLoadedError as error:
            if runtime is not None or providers or libraries:
                raise
            why = str(error)
            LOGGER.warning("%s; it runs in %s", why, REFERENCE)
    elif providers or libraries:
        raise runtime_errors.nothing_to_load(REFERENCE, [*providers, *libraries])
    ready = Model(model) if isinstance(model, onnx.ModelProto) else Model._load(model, "run")
    ready.not_loaded = why
    return ready


def run(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> dict[str, Array]:
    """Run an ONNX model and return its outputs by name.

    In the runtime ``"reference"``, nodes of gather and scatter operators run in ndgather, all
    others in the reference evaluator of the `onnx` package. In any other runtime all nodes run
    there; each gather and scatter node is then computed again by ndgather from what it read, and
    the two values are compared: copies bit by bit, sums of floats up to the order of additions.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.
    inputs : mapping of str to array_like
        The inputs of the model by their names, of the dtypes and shapes that it declares. Inputs
        with a default in the model may be left out.
    runtime : str or None, default "reference"
        ``"reference"``, ``"onnxruntime"``, ``"openvino"``, or a module of your own; None stands for
        onnxruntime where it is installed and loads the model, and for the reference evaluator
        otherwise (but not where providers or libraries are named), as on the command line. It
        is not the default here, since a runtime works in the process of the caller, which it may
        end for a hostile model; a command has a process of its own for it.
    accept_runtime : bool, default False
        Go on where a node of the runtime gives another value than its specification.
    threads : int, optional
        How many threads an operator of the runtime may use.
    providers : sequence of str
        Execution providers of onnxruntime, or the device of OpenVINO. Default: the CPU.
    libraries : sequence of str
        Paths of libraries of custom operators that the runtime is to load.

    Returns
    -------
    dict of str to array
        The outputs, in the order of the model. Of a runtime, a sequence of maps from classes to
        numbers, as classifiers give it, becomes a matrix with a column for each class.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        It is not a valid ONNX model, an input is missing or unknown, a node failed, or it gave
        another value in the runtime than its specification; the text names the node.
    ExtraMissingError
        The runtime is not installed.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input, or what a node was given, does not fit; the text names it.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> onnx.run(model, {"data": data, "rows": [[1], [-2]]})
    {'picked': array([[20., 21.],
           [10., 11.]], dtype=float32)}
    >>> onnx.run(model, {"data": data, "rows": [[2]]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: node GatherND of 'picked': ...
    """
    ready = load(
        model,
        runtime=runtime,
        accept_runtime=accept_runtime,
        threads=threads,
        providers=providers,
        libraries=libraries,
        in_place=True,
    )
    return {output.name: output.array for output in ready.run(inputs).outputs}
