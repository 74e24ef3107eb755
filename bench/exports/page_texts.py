"""What the page about exporters says around its tables."""

LEAD = """\
# What exporters write

A line of Python that gathers or scatters becomes nodes of ONNX, which have rules of their own. This
page shows which nodes each exporter writes for which line, and what becomes of indices that are
negative, past the end or repeated: in the framework itself, by the specification of ONNX, and in
each runtime. `make exports-page` exports every line, runs the models and writes this page.

"""
OTHER_VALUES = """\
## Where the export gives another value

Here the framework gives a value, and the nodes that are written for it come to another value, or
are an error, by the specification of ONNX itself: no runtime can put that right. In the framework,
make indices positive before the line (`i % n`), and indices of sums unique; or write the line so
that another operator is exported.
"""
WRITTEN = """\
## Which nodes are written

By their versions, with what differs from the defaults in brackets. Gathers of sizes are left out;
where a model has no node of indices, its other nodes stand here.
"""
CASES = {
    "negative": """\
## Negative indices

The last entries count from the end, as -1 does for the last row. Gather, GatherElements, GatherND,
ScatterElements and ScatterND of ONNX take that since version 11; frameworks do not at every line.
""",
    "outside": """\
## Indices past the end

One entry is the size of its axis. The specification of ONNX makes that an error. A runtime that
gives a value has read or written something else: zeros, another element, or memory that is not the
tensor's. OpenVINO with one thread (`INFERENCE_NUM_THREADS`) loses the refusals that it has with
more.
""",
    "repeated": """\
## Repeated indices

All entries are 1. Gathers read an element as often as asked. With a reduction every update
counts; without one the specification leaves open which update stays.
""",
    "valid": """\
## Valid indices

Indices within their axes; for scikit-learn, what its models predict for rows that they have not
seen. Values are the same if they are within 1e-4 of the largest one. OpenVINO finds
no conversion rule for the operators of ai.onnx.ml and the functions that skl2onnx writes.
""",
}
KEY = """\
*Same* is the value that the framework itself gives, *another value* is not that, and *a value* is
given where the framework refuses. *Specification* is what the nodes come to by the operators of
ndgather; what differs from that is bold. *Reference* is the evaluator of the onnx package.
"""
PARTS = """\
## Where a node parts from its specification

What `ndgather compare` says of these models. The page of an operator, which `ndgather doc` prints
too, has its rules; [models that misbehave](guide/models-that-misbehave.md) says what to do.
"""
