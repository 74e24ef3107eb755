// plan.cpp - shape rules, the plan of each kind of operator, and its simplification.
#include "plan.h"

#include <algorithm>
#include <cstdlib>

#include "fault.h"

namespace ndgather {
namespace {

// Brings an axis number in [-count, count) into [0, count).
bool normalise(Size& axis, Size count) {
  if (axis < -count || axis >= count) return false;
  if (axis < 0) axis += count;
  return true;
}

Refusal batch_sizes(const Array& data, const Array& indices, Size batch_dims) {
  for (Size d = 0; d < batch_dims; ++d) {
    if (data.shape[d] != indices.shape[d] && !fault("batch-sizes-differ")) return {Rule::batch_size, d};
  }
  return {};
}

void set_column(Plan& plan, int c, const Array& far, Size axis) {
  const Size extent = far.shape[axis];
  plan.column[c] = {extent, extent, far.strides[fault("column-of-first-axis") ? 0 : axis]};
}

void set_slice(Plan& plan, const Array& far, Size first, const Array& near, Size near_first) {
  plan.slice_rank = 0;
  for (Size d = first; d < far.rank; ++d) {
    plan.slice[plan.slice_rank++] = {far.shape[d], far.strides[d],
                                     near.strides[near_first + d - first]};
  }
}

void set_bytes(Plan& plan, const Array& far, const Array& indices, const Array& near) {
  plan.far = far.bytes;
  plan.near = near.bytes;
  plan.indices = indices.bytes;
  plan.positions = 1;
  for (int d = 0; d < plan.position_rank; ++d) plan.positions *= plan.position[d].size;
}

// Whether the elements of an array follow each other in C order without gaps.
bool is_packed(const Array& array, Size element) {
  Size stride = element;
  for (int d = array.rank - 1; d >= 0; --d) {
    if (array.shape[d] != 1 && array.strides[d] != stride) return false;
    stride *= array.shape[d];
  }
  return true;
}

// Drops slice dims of size 1, and brings the others into the order in which they lie in memory, and so that
// they go upwards, where the two arrays do not disagree.
void order_slices(Plan& plan) {
  const auto vote = [](Size outer, Size inner) {
    return (std::abs(outer) > std::abs(inner)) - (std::abs(outer) < std::abs(inner));
  };
  int rank = 0;
  for (int d = 0; d < plan.slice_rank; ++d) {
    Slice dim = plan.slice[d];
    if (dim.size == 1) continue;
    if (dim.far < 0 && dim.near < 0) {
      plan.far += (dim.size - 1) * dim.far;
      plan.near += (dim.size - 1) * dim.near;
      dim = {dim.size, -dim.far, -dim.near};
    }
    int e = rank++;
    plan.slice[e] = dim;
    for (; e > 0; --e) {
      Slice &outer = plan.slice[e - 1], &inner = plan.slice[e];
      if (vote(outer.far, inner.far) + vote(outer.near, inner.near) >= 0) break;
      std::swap(outer, inner);
    }
  }
  plan.slice_rank = rank;
}

}  // namespace

Refusal shape_gather_nd(const Array& data, const Array& indices, Size batch_dims, Shape& result) {
  if (indices.rank < 1) return {Rule::index_rank, 1};
  const Size most = std::min<Size>(indices.rank - 1, data.rank);
  if (batch_dims < 0 || batch_dims > most) return {Rule::batch_dims, 0, most};
  if (auto refusal = batch_sizes(data, indices, batch_dims)) return refusal;
  const Size depth = indices.shape[indices.rank - 1];
  if (depth > data.rank - batch_dims + fault("depth-unbounded")) return {Rule::depth};
  result.append(indices.shape, indices.rank - 1);
  const Size first = batch_dims + depth;
  result.append(data.shape + first, static_cast<int>(data.rank - first));
  return {};
}

Refusal shape_gather_elements(const Array& data, const Array& indices, Size& axis, Shape& result) {
  if (data.rank < 1) return {Rule::data_rank, 1};
  if (data.rank != indices.rank) return {Rule::ranks_differ};
  if (!normalise(axis, data.rank)) return {Rule::axis, -data.rank, data.rank - 1};
  for (int d = 0; d < data.rank; ++d) {
    if (d != axis && indices.shape[d] > data.shape[d] && !fault("off-axis-larger")) return {Rule::off_axis, d, axis};
  }
  result.append(indices.shape, indices.rank);
  return {};
}

Refusal shape_gather(const Array& data, const Array& indices, Size& axis, Size& batch_dims,
                     Shape& result) {
  if (data.rank < 1) return {Rule::data_rank, 1};
  if (!normalise(axis, data.rank)) return {Rule::axis, -data.rank, data.rank - 1};
  const Size most = std::min<Size>(axis, indices.rank);
  const Size asked = batch_dims;
  if (batch_dims < 0) batch_dims += indices.rank;
  if (batch_dims < 0 || batch_dims > most) {
    return {Rule::batch_dims, asked < 0 ? -Size{indices.rank} : 0, most};
  }
  if (auto refusal = batch_sizes(data, indices, batch_dims)) return refusal;
  result.append(data.shape, static_cast<int>(axis));
  result.append(indices.shape + batch_dims, static_cast<int>(indices.rank - batch_dims));
  result.append(data.shape + axis + 1, static_cast<int>(data.rank - axis - 1));
  return {};
}

void plan_gather_nd(Plan& plan, const Array& far, const Array& indices, const Array& near,
                    Size batch_dims) {
  plan.tuples = true;
  plan.position_rank = indices.rank - 1;
  for (int d = 0; d < plan.position_rank; ++d) {
    plan.position[d] = {indices.shape[d], indices.strides[d],
                        d < batch_dims ? far.strides[d] : 0, near.strides[d]};
  }
  plan.column_count = static_cast<int>(indices.shape[plan.position_rank]);
  plan.column_stride = indices.strides[plan.position_rank];
  for (int c = 0; c < plan.column_count; ++c) set_column(plan, c, far, batch_dims + c);
  set_slice(plan, far, batch_dims + plan.column_count, near, plan.position_rank);
  set_bytes(plan, far, indices, near);
}

void plan_gather_elements(Plan& plan, const Array& far, const Array& indices, const Array& near,
                          Size axis) {
  plan.tuples = false;
  plan.any_order = true;
  plan.position_rank = indices.rank;
  for (int d = 0; d < indices.rank; ++d) {
    plan.position[d] = {indices.shape[d], indices.strides[d], d == axis && !fault("axis-steps-too") ? 0 : far.strides[d],
                        near.strides[d]};
  }
  plan.column_count = 1;
  plan.column_stride = 0;
  set_column(plan, 0, far, axis);
  plan.slice_rank = 0;
  set_bytes(plan, far, indices, near);
}

void plan_gather(Plan& plan, const Array& far, const Array& indices, const Array& near, Size axis,
                 Size batch_dims) {
  plan.tuples = false;
  int rank = 0;
  for (Size d = 0; d < axis; ++d, ++rank) {
    plan.position[rank] = {far.shape[d], d < batch_dims ? indices.strides[d] : 0, far.strides[d],
                           near.strides[rank]};
  }
  for (Size d = batch_dims; d < indices.rank; ++d, ++rank) {
    plan.position[rank] = {indices.shape[d], indices.strides[d], 0, near.strides[rank]};
  }
  plan.position_rank = rank;
  plan.column_count = 1;
  plan.column_stride = 0;
  set_column(plan, 0, far, axis);
  set_slice(plan, far, axis + 1, near, rank);
  set_bytes(plan, far, indices, near);
}

void plan_copy(Plan& plan, const Array& from, const Array& to, Size element) {
  plan.element = plan.width = element;
  if (is_packed(from, element) && is_packed(to, element)) {
    for (int d = 0; d < from.rank; ++d) plan.width *= from.shape[d];
  } else {
    const int last = from.rank - 1;
    plan.position_rank = last;
    for (int d = 0; d < last; ++d) {
      plan.position[d] = {from.shape[d], 0, from.strides[d], to.strides[d]};
    }
    set_slice(plan, from, last, to, last);
  }
  set_bytes(plan, from, {nullptr, 0, nullptr, nullptr}, to);
}

void plan_check(Plan& check, const Plan& plan, const Array& indices) {
  check.tuples = plan.tuples;
  check.position_rank = plan.tuples ? indices.rank - 1 : indices.rank;
  check.positions = 1;
  for (int d = 0; d < check.position_rank; ++d) {
    check.position[d] = {indices.shape[d], indices.strides[d], 0, 0};
    check.positions *= indices.shape[d];
  }
  check.indices = plan.indices;
  check.column_count = plan.column_count;
  check.column_stride = plan.column_stride;
  std::copy_n(plan.column, plan.column_count, check.column);
  check.index_type = plan.index_type;
  check.mode = plan.mode;
}

void simplify(Plan& plan) {
  int rank = 0;
  for (int d = 0; d < plan.position_rank; ++d) {
    const Position inner = plan.position[d];
    if (inner.size == 1) continue;
    if (rank > 0) {
      Position& outer = plan.position[rank - 1];
      if (outer.index == inner.size * inner.index && outer.far == inner.size * inner.far &&
          (outer.near == inner.size * inner.near || fault("merge-any-stride"))) {
        outer = {outer.size * inner.size, inner.index, inner.far, inner.near};
        continue;
      }
    }
    plan.position[rank++] = inner;
  }
  if (rank == 0) plan.position[rank++] = {1, 0, 0, 0};
  plan.position_rank = rank;
  plan.near_linear = true;
  for (int d = 0; d + 1 < rank; ++d) {
    const Position& inner = plan.position[d + 1];
    plan.near_linear &= plan.position[d].near == inner.size * inner.near;
  }

  order_slices(plan);
  rank = 0;
  for (int d = 0; d < plan.slice_rank; ++d) {
    const Slice inner = plan.slice[d];
    if (rank > 0) {
      Slice& outer = plan.slice[rank - 1];
      if (outer.far == inner.size * inner.far && outer.near == inner.size * inner.near) {
        outer = {outer.size * inner.size, inner.far, inner.near};
        continue;
      }
    }
    plan.slice[rank++] = inner;
  }
  if (rank > 0 && plan.slice[rank - 1].far == plan.width &&
      plan.slice[rank - 1].near == plan.width) {
    plan.width *= plan.slice[--rank].size;
  }
  plan.slice_rank = rank;
}

bool runs_join(const Plan& plan) {
  if (plan.position_rank < 2) return false;
  const Position& inner = plan.position[plan.position_rank - 1];
  const Position& outer = plan.position[plan.position_rank - 2];
  return outer.index == inner.size * inner.index && outer.near == inner.size * inner.near;
}

void join_runs(Plan& plan) {
  const Position inner = plan.position[plan.position_rank - 1];
  Position& outer = plan.position[plan.position_rank - 2];
  plan.run = inner.size;
  plan.run_far = inner.far;
  plan.runs_far = outer.far;
  outer = {outer.size * inner.size, inner.index, 0, inner.near};
  --plan.position_rank;
}

void split_slices(Plan& plan, Size part) {
  const int outer = plan.slice_rank;
  std::copy_backward(plan.position, plan.position + plan.position_rank,
                     plan.position + plan.position_rank + outer);
  Slice last = plan.slice[outer - 1];
  plan.slice[outer - 1] = {last.size / part, part * last.far, part * last.near};
  for (int d = 0; d < outer; ++d) {
    const Slice& dim = plan.slice[d];
    plan.position[d] = {dim.size, 0, dim.far, dim.near};
    plan.positions *= dim.size;
  }
  plan.position_rank += outer;
  plan.near_linear = false;
  last.size = part;
  plan.slice[0] = last;
  plan.slice_rank = part > 1;
}

void cut_slices(Plan& plan, Size begin, Size size) {
  Slice& inner = plan.slice[plan.slice_rank - 1];
  plan.far += begin * inner.far;
  plan.near += begin * inner.near;
  inner.size = size;
}

void pack(Plan& plan, Plan& copy, char* memory) {
  copy.element = plan.element;
  copy.width = plan.width;
  copy.far = plan.far;
  copy.near = plan.far = memory;
  Size packed = plan.width;
  const auto next = [&](Size size, Size& far) {
    const Position dim{size, 0, far, packed};
    far = packed;
    packed *= size;
    return dim;
  };
  copy.slice_rank = plan.slice_rank;
  for (int d = plan.slice_rank - 1; d >= 0; --d) {
    const Position dim = next(plan.slice[d].size, plan.slice[d].far);
    copy.slice[d] = {dim.size, dim.far, dim.near};
  }
  Position dims[kMaxRank];  // of data axes: no more than it has
  int rank = 0;
  for (int c = plan.column_count - 1; c >= 0; --c) {
    dims[rank++] = next(plan.column[c].extent, plan.column[c].stride);
  }
  for (int d = plan.position_rank - 1; d >= 0; --d) {
    if (plan.position[d].far != 0) dims[rank++] = next(plan.position[d].size, plan.position[d].far);
  }
  copy.position_rank = rank;
  copy.positions = 1;
  for (int d = 0; d < rank; ++d) {
    copy.position[d] = dims[rank - 1 - d];
    copy.positions *= dims[d].size;
  }
  simplify(copy);
  simplify(plan);
}

void narrow(Plan& plan, Size begin, Size end) {
  plan.far += begin;
  plan.near += begin;
  plan.width = end - begin;
}

}  // namespace ndgather
