// plan.cpp - checking shapes, and planning and simplifying each kind of operator.
#include "plan.h"

#include <cstdlib>
#include <utility>

namespace ndgather {
namespace {

// Makes a negative axis non-negative. Returns false if the axis is outside [-count, count).
bool normalise(Size& axis, Size count) {
  if (axis < -count || axis >= count) return false;
  if (axis < 0) axis += count;
  return true;
}

Refusal batch_sizes(const Array& data, const Array& indices, Size batch_dims) {
  for (Size d = 0; d < batch_dims; ++d) {
    if (data.shape[d] != indices.shape[d]) return {Rule::batch_size, d};
  }
  return {};
}

void set_column(Plan& plan, int c, const Array& indexed, Size axis) {
  plan.column[c] = {indexed.shape[axis], indexed.shape[axis], indexed.strides[axis]};
}

// Sets the slice dims: the axes of the indexed array from `first` on, and of the dense array from `dense_first` on.
void set_slice(Plan& plan, const Array& indexed, Size first, const Array& dense, Size dense_first) {
  for (Size d = first; d < indexed.rank; ++d) {
    plan.slice[plan.slice_rank++] = {indexed.shape[d], 0, indexed.strides[d], dense.strides[dense_first + d - first]};
  }
}

void count_positions(Plan& plan) {
  plan.positions = 1;
  for (int d = 0; d < plan.loop_rank; ++d) plan.positions *= plan.loop[d].size;
}

void set_arrays(Plan& plan, const Array& indexed, const char* indices, const Array& dense) {
  plan.indexed = indexed.bytes;
  plan.dense = dense.bytes;
  plan.indices = indices;
  count_positions(plan);
}

bool is_contiguous(const Array& array, Size element) {
  Size stride = element;
  for (int d = array.rank - 1; d >= 0; --d) {
    if (array.shape[d] != 1 && array.strides[d] != stride) return false;
    stride *= array.shape[d];
  }
  return true;
}

// Drops slice dims of size 1. Unless the two arrays disagree, makes strides positive and sorts the dims by stride. For
// example, strides of 4 and 40 in both arrays become 40 and 4, which can then be merged.
void order_slice(Plan& plan) {
  const auto compare = [](Size outer, Size inner) {
    return (std::abs(outer) > std::abs(inner)) - (std::abs(outer) < std::abs(inner));
  };
  int rank = 0;
  for (int d = 0; d < plan.slice_rank; ++d) {
    Dim dim = plan.slice[d];
    if (dim.size == 1) continue;
    if (dim.indexed < 0 && dim.dense < 0) {
      plan.indexed += (dim.size - 1) * dim.indexed;
      plan.dense += (dim.size - 1) * dim.dense;
      dim = {dim.size, 0, -dim.indexed, -dim.dense};
    }
    int e = rank++;
    plan.slice[e] = dim;
    for (; e > 0; --e) {
      Dim &outer = plan.slice[e - 1], &inner = plan.slice[e];
      if (compare(outer.indexed, inner.indexed) + compare(outer.dense, inner.dense) >= 0) break;
      std::swap(outer, inner);
    }
  }
  plan.slice_rank = rank;
}

// Merges neighboring dims if their strides allow it, and drops dims of size 1. Returns the number of remaining dims.
int merge(Dim* dims, int count) {
  int rank = 0;
  for (int d = 0; d < count; ++d) {
    const Dim inner = dims[d];
    if (inner.size == 1) continue;
    if (rank > 0) {
      Dim& outer = dims[rank - 1];
      if (outer.index == inner.size * inner.index && outer.indexed == inner.size * inner.indexed &&
          outer.dense == inner.size * inner.dense) {
        outer = {outer.size * inner.size, inner.index, inner.indexed, inner.dense};
        continue;
      }
    }
    dims[rank++] = inner;
  }
  return rank;
}

void merge_loops(Plan& plan) {
  plan.loop_rank = merge(plan.loop, plan.loop_rank);
  if (plan.loop_rank == 0) plan.loop[plan.loop_rank++] = {1, 0, 0, 0};
  plan.dense_linear = true;
  for (int d = 0; d + 1 < plan.loop_rank; ++d) {
    plan.dense_linear &= plan.loop[d].dense == plan.loop[d + 1].size * plan.loop[d + 1].dense;
  }
}

void merge_slice(Plan& plan) {
  order_slice(plan);
  int rank = merge(plan.slice, plan.slice_rank);
  if (rank > 0 && plan.slice[rank - 1].indexed == plan.width && plan.slice[rank - 1].dense == plan.width) {
    plan.width *= plan.slice[--rank].size;
  }
  plan.slice_rank = rank;
}

Refusal shape_tuples(const Array& data, const Array& indices, const Options& options, bool windows, Shape& result) {
  const Size batch_dims = options.batch_dims;
  if (indices.rank < 1) return {Rule::index_rank, 1};
  const Size most = std::min<Size>(indices.rank - 1, data.rank);
  if (batch_dims < 0 || batch_dims > most) return {Rule::batch_dims, 0, most};
  if (auto refusal = batch_sizes(data, indices, batch_dims)) return refusal;
  const Size depth = indices.shape[indices.rank - 1];
  if (windows && depth != options.window_rank) return {Rule::window_rank};
  if (depth > data.rank - batch_dims) return {windows ? Rule::window_rank : Rule::depth};
  result.append(indices.shape, indices.rank - 1);
  if (windows) result.append(options.window, depth);
  const Size first = batch_dims + depth;
  result.append(data.shape + first, data.rank - first);
  return {};
}

Refusal shape_elements(const Array& data, const Array& indices, Size& axis, Shape& result) {
  if (data.rank < 1) return {Rule::data_rank, 1};
  if (data.rank != indices.rank) return {Rule::ranks_differ};
  if (!normalise(axis, data.rank)) return {Rule::axis, -data.rank, data.rank - 1};
  for (int d = 0; d < data.rank; ++d) {
    if (d != axis && indices.shape[d] > data.shape[d]) return {Rule::off_axis, d, axis};
  }
  result.append(indices.shape, indices.rank);
  return {};
}

Refusal shape_along_axis(const Array& data, const Array& indices, Size& axis, Size& batch_dims, Shape& result) {
  if (data.rank < 1) return {Rule::data_rank, 1};
  if (!normalise(axis, data.rank)) return {Rule::axis, -data.rank, data.rank - 1};
  const Size most = std::min<Size>(axis, indices.rank);
  const Size lowest = -std::min<Size>(data.rank, indices.rank);
  const Size asked = batch_dims;
  if (batch_dims < 0) batch_dims += indices.rank;
  if (asked < lowest || batch_dims > most) return {Rule::batch_dims, asked < 0 ? lowest : 0, most};
  if (auto refusal = batch_sizes(data, indices, batch_dims)) return refusal;
  result.append(data.shape, axis);
  result.append(indices.shape + batch_dims, indices.rank - batch_dims);
  result.append(data.shape + axis + 1, data.rank - axis - 1);
  return {};
}

// Plans a gather by index tuples. A window extends along the axes that an index tuple addresses, so fewer indices are valid:
// 40 - 16 + 1 = 25 for windows of 16 on an axis of 40.
void plan_tuples(Plan& plan, const Array& indexed, const Array& indices, const Array& dense, const Options& options,
                 bool windows) {
  const Size batch_dims = options.batch_dims;
  plan.tuples = true;
  plan.loop_rank = indices.rank - 1;
  for (int d = 0; d < plan.loop_rank; ++d) {
    plan.loop[d] = {indices.shape[d], indices.strides[d], d < batch_dims ? indexed.strides[d] : 0, dense.strides[d]};
  }
  plan.column_count = static_cast<int>(indices.shape[plan.loop_rank]);
  plan.column_stride = indices.strides[plan.loop_rank];
  set_slice(plan, indexed, batch_dims + (windows ? 0 : plan.column_count), dense, plan.loop_rank);
  for (int c = 0; c < plan.column_count; ++c) {
    set_column(plan, c, indexed, batch_dims + c);
    if (!windows) continue;
    plan.slice[c].size = options.window[c];
    IndexColumn& column = plan.column[c];
    column.extent = std::max<Size>(std::min(column.extent - options.window[c], PTRDIFF_MAX - 1) + 1, 0);
  }
  if (windows) plan.refuse_negative();
  set_arrays(plan, indexed, indices.bytes, dense);
}

// Plans gather_elements and scatter_elements. If indices are the same along all axes after the gathered one, for example
// because they were expanded, these axes become a slice: the first index then applies to the whole row.
void plan_elements(Plan& plan, const Array& indexed, const Array& indices, const Array& dense, Size axis) {
  plan.any_order = true;
  plan.loop_rank = indices.rank;
  while (plan.loop_rank > axis + 1 && indices.strides[plan.loop_rank - 1] == 0) --plan.loop_rank;
  for (int d = 0; d < plan.loop_rank; ++d) {
    plan.loop[d] = {indices.shape[d], indices.strides[d], d == axis ? 0 : indexed.strides[d], dense.strides[d]};
  }
  plan.column_count = 1;
  set_column(plan, 0, indexed, axis);
  for (int d = plan.loop_rank; d < indices.rank; ++d) {
    plan.slice[plan.slice_rank++] = {indices.shape[d], 0, indexed.strides[d], dense.strides[d]};
  }
  set_arrays(plan, indexed, indices.bytes, dense);
}

void plan_along_axis(Plan& plan, const Array& indexed, const Array& indices, const Array& dense, Size axis, Size batch_dims) {
  int rank = 0;
  for (Size d = 0; d < axis; ++d, ++rank) {
    plan.loop[rank] = {indexed.shape[d], d < batch_dims ? indices.strides[d] : 0, indexed.strides[d], dense.strides[rank]};
  }
  for (Size d = batch_dims; d < indices.rank; ++d, ++rank) {
    plan.loop[rank] = {indices.shape[d], indices.strides[d], 0, dense.strides[rank]};
  }
  plan.loop_rank = rank;
  plan.column_count = 1;
  set_column(plan, 0, indexed, axis);
  set_slice(plan, indexed, axis + 1, dense, rank);
  set_arrays(plan, indexed, indices.bytes, dense);
}

}  // namespace

Refusal slices_shape(Kind kind, const Array& data, const Array& indices, Options& options, Shape& slices) {
  Refusal refusal;
  switch (kind) {
    case Kind::gather_nd:
    case Kind::scatter_nd:
    case Kind::gather_windows: refusal = shape_tuples(data, indices, options, kind == Kind::gather_windows, slices); break;
    case Kind::gather_elements:
    case Kind::scatter_elements: refusal = shape_elements(data, indices, options.axis, slices); break;
    case Kind::gather: refusal = shape_along_axis(data, indices, options.axis, options.batch_dims, slices); break;
  }
  if (!refusal && slices.rank > kMaxRank) return {Rule::result_rank, slices.rank, kMaxRank};
  return refusal;
}

void plan_slices(Plan& plan, Kind kind, const Array& indexed, const Array& indices, const Array& dense,
                 const Options& options) {
  switch (kind) {
    case Kind::gather_nd:
    case Kind::scatter_nd:
    case Kind::gather_windows: return plan_tuples(plan, indexed, indices, dense, options, kind == Kind::gather_windows);
    case Kind::gather_elements:
    case Kind::scatter_elements: return plan_elements(plan, indexed, indices, dense, options.axis);
    case Kind::gather: return plan_along_axis(plan, indexed, indices, dense, options.axis, options.batch_dims);
  }
}

void plan_copy(Plan& plan, const Array& from, const Array& to, Size element) {
  plan.element = plan.width = element;
  if (is_contiguous(from, element) && is_contiguous(to, element)) {
    for (int d = 0; d < from.rank; ++d) plan.width *= from.shape[d];
  } else {
    const int last = from.rank > 1 ? from.rank - 1 : from.rank;
    plan.loop_rank = last;
    for (int d = 0; d < last; ++d) plan.loop[d] = {from.shape[d], 0, from.strides[d], to.strides[d]};
    set_slice(plan, from, last, to, last);
  }
  set_arrays(plan, from, nullptr, to);
}

void plan_check(Plan& check, const Plan& plan, const Array& indices) {
  check.tuples = plan.tuples;
  check.loop_rank = plan.tuples ? indices.rank - 1 : indices.rank;
  for (int d = 0; d < check.loop_rank; ++d) check.loop[d] = {indices.shape[d], indices.strides[d], 0, 0};
  count_positions(check);
  check.indices = plan.indices;
  check.column_count = plan.column_count;
  check.column_stride = plan.column_stride;
  std::copy_n(plan.column, plan.column_count, check.column);
  check.index_type = plan.index_type;
  check.mode = plan.mode;
}

void simplify(Plan& plan) {
  merge_loops(plan);
  merge_slice(plan);
}

void join_runs(Plan& plan, Size most) {
  if (plan.loop_rank < 2 || plan.joined.run > 0) return;
  const Dim inner = plan.inner();
  Dim& outer = plan.loop[plan.loop_rank - 2];
  if (inner.size > most || outer.dense != inner.size * inner.dense) return;
  bool repeated = inner.index != 0;
  for (int d = 0; d + 1 < plan.loop_rank; ++d) repeated &= plan.loop[d].index == 0;
  if (!repeated && outer.index != inner.size * inner.index) return;
  plan.joined = {inner.size, inner.indexed, outer.indexed, repeated ? inner.index : 0};
  outer = {outer.size * inner.size, repeated ? 0 : inner.index, 0, inner.dense};
  --plan.loop_rank;
}

void loop_over_slices(Plan& plan, int left) {
  if (plan.slice_rank <= left) return;
  int rank = 0;
  for (int d = 0; d < plan.slice_rank; ++d) {
    if (d >= plan.slice_rank - left) {
      plan.slice[rank++] = plan.slice[d];
      continue;
    }
    plan.loop[plan.loop_rank++] = plan.slice[d];
    plan.positions *= plan.slice[d].size;
  }
  plan.slice_rank = rank;
  merge_loops(plan);
}

void keep_range(Plan& plan, int d, Size begin, Size end) {
  Dim& dim = plan.loop[d];
  plan.indices += begin * dim.index;
  plan.indexed += begin * dim.indexed;
  plan.dense += begin * dim.dense;
  plan.positions = plan.positions / dim.size * (end - begin);
  if (d > 0 && dim.size != end - begin) plan.dense_linear = false;  // the cut leaves gaps
  dim.size = end - begin;
}

}  // namespace ndgather
