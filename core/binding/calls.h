// calls.h - one call from its arguments to its result, or to the reason why it is refused.
#pragma once

#include "arguments.h"

namespace ndgather {

// Carries out a call. Returns the result, a new reference; or what refused() returns; or null, with an
// exception set. `given` holds kArgumentCount objects.
PyObject* run(Kind kind, PyObject* const* given);

// Sorts the points of a gather whose data is elsewhere: only the shape of the given data counts. `steps` says where the
// axes are cut that indices address: the length of chunks, or an array of the cuts. From position `begin` on, as many
// as `positions` has room for. Returns the numbers of the touched chunks and where the points of each begin; else as
// run() does.
PyObject* sort_points(Kind kind, PyObject* const* given, PyObject* steps, Size begin, PyArrayObject* places,
                      PyArrayObject* positions);

// A tuple that says why a call is refused: (rule, facts, data.shape, indices.shape, shape of the slices,
// updates.shape). Takes over the references; null where one of them is, with an exception set.
PyObject* refused(const Refusal& refusal, PyObject* facts, PyObject* data, PyObject* indices,
                  const Shape& slices, PyObject* updates);

// A tuple that says that a call is for Python, whatever its arguments are.
PyObject* refused_for_python();

// The shape of the slices that indices name: of the result of a gather, of the updates of a scatter. A
// refusal where the shapes do not fit; options are brought into the range from 0 on.
Refusal slices_shape(Kind kind, const Array& data, const Array& indices, Size& axis, Size& batch_dims,
                     Shape& slices);

// Plans the call of a kind; `indexed` is what index values address, `dense` the other side.
void plan_slices(Plan& plan, Kind kind, const Array& indexed, const Array& indices, const Array& dense, Size axis,
                 Size batch_dims);

// The first entry of indices that is out of bounds, in terms of the arguments of a call.
struct BadEntry {
  Size position[kMaxRank];  // in indices
  int column;               // which index of its tuple it is
  Size axis, size;          // of data
  Size total;               // entries of indices
};
BadEntry locate(const Outside& bad, const Plan& plan, const Array& data, const Array& indices, Size axis,
                Size batch_dims);

// The two numbers of a refusal, as a tuple.
PyObject* facts_of(const Refusal& refusal);

}  // namespace ndgather
