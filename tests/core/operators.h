// operators.h - the operators according to their specifications: shapes, and the source of each element.
#pragma once

#include "arithmetic.h"
#include "loops.h"
#include "tensor.h"

namespace ndgather::random_calls {

struct Call {
  Kind kind = Kind::gather_nd;
  Size axis = 0, batch_dims = 0;  // as passed
  Sizes window;                   // for gather_windows
  IndexType index_type = IndexType::i64;
  Mode mode = Mode::raise;
  bool negative = true;  // whether negative indices count from the end
  Reduction reduction = Reduction::none;
  Type type{ElementType::opaque, 1};

  bool writes() const { return scatters(kind); }
  bool has_windows() const { return kind == Kind::gather_windows; }
  bool has_tuples() const { return kind == Kind::gather_nd || kind == Kind::scatter_nd || has_windows(); }
  bool has_elements() const { return kind == Kind::gather_elements || kind == Kind::scatter_elements; }
};

inline Size at(const Sizes& sizes, Size d) { return sizes[static_cast<std::size_t>(d)]; }
inline Size rank(const Sizes& shape) { return static_cast<Size>(shape.size()); }

inline Size axis_of(const Call& call, const Sizes& data) { return call.axis < 0 ? call.axis + rank(data) : call.axis; }

inline Size batch_of(const Call& call, const Sizes& indices) {
  return call.kind == Kind::gather && call.batch_dims < 0 ? call.batch_dims + rank(indices) : call.batch_dims;
}

// The axis of data that the entry of indices at `where` indexes.
inline Size addressed(const Call& call, const Sizes& data, const Sizes& where) {
  return call.has_tuples() ? call.batch_dims + where.back() : axis_of(call, data);
}

// The shape of the result, or nothing if the shapes are invalid.
inline std::optional<Sizes> result_shape(const Call& call, const Sizes& data, const Sizes& indices) {
  const Size r = rank(data), q = rank(indices), b = batch_of(call, indices), axis = axis_of(call, data);
  if (call.has_tuples() ? q < 1 || b >= q || b > r : r < 1 || axis < 0 || axis >= r) return {};
  if (call.has_elements()) {
    if (r != q) return {};
    for (Size d = 0; d < r; ++d) {
      if (d != axis && at(indices, d) > at(data, d)) return {};
    }
    return indices;
  }
  if (b < 0 || (call.kind == Kind::gather && (call.batch_dims < -std::min(r, q) || b > q || b > axis))) return {};
  if (!std::equal(data.begin(), data.begin() + b, indices.begin())) return {};
  if (call.has_tuples()) {
    const Size depth = indices.back();
    if (depth > r - b || (call.has_windows() && depth != rank(call.window))) return {};
    Sizes result(indices.begin(), indices.end() - 1);
    result.insert(result.end(), call.window.begin(), call.window.end());
    result.insert(result.end(), data.begin() + b + depth, data.end());
    return result;
  }
  Sizes result(data.begin(), data.begin() + axis);
  result.insert(result.end(), indices.begin() + b, indices.end());
  result.insert(result.end(), data.begin() + axis + 1, data.end());
  return result;
}

// The number of valid positions on the indexed axis for an entry of indices.
inline Size extent_of(const Call& call, const Sizes& data, const Sizes& where) {
  const Size size = at(data, addressed(call, data, where));
  return call.has_windows() ? std::max<Size>(size - at(call.window, where.back()) + 1, 0) : size;
}

// The position on an axis that a value selects, or nothing.
inline std::optional<Size> place_of(Wide value, Size extent, const Call& call) {
  if (extent == 0) return {};
  switch (call.mode) {
    case Mode::wrap: return static_cast<Size>((value % extent + extent) % extent);
    case Mode::clip: return static_cast<Size>(std::clamp<Wide>(value, 0, extent - 1));
    default:
      if (call.negative && !call.has_windows() && value < 0) value += extent;
      if (value < 0 || value >= extent) return {};
      return static_cast<Size>(value);
  }
}

// Finds the element of data that corresponds to the element of the result (or of updates) at `to`.
struct Meeting {
  const Call& call;
  const Tensor &data, &indices;
  Sizes found{}, where{};  // coordinates in data and in indices

  bool put() {
    const Size extent = extent_of(call, data.shape, where);
    const auto place = place_of(load_integer(indices.place(where), call.index_type), extent, call);
    if (place) found.push_back(*place);
    return place.has_value();
  }

  // False if an index is out of bounds.
  bool find(const Sizes& to) {
    const Size r = rank(data.shape), q = rank(indices.shape);
    if (call.has_tuples()) {
      const Size b = call.batch_dims;
      found.assign(to.begin(), to.begin() + b);
      where.assign(to.begin(), to.begin() + (q - 1));
      where.push_back(0);
      for (Size& c = where.back(); c < indices.shape.back(); ++c) {
        if (!put()) return false;
        if (call.has_windows()) found.back() += at(to, q - 1 + c);
      }
      found.insert(found.end(), to.begin() + (q - 1 + rank(call.window)), to.end());
      return true;
    }
    const Size axis = axis_of(call, data.shape), b = batch_of(call, indices.shape);
    found.assign(to.begin(), to.begin() + axis);
    if (call.has_elements()) {
      where = to;
    } else {
      where.assign(to.begin(), to.begin() + b);
      where.insert(where.end(), to.begin() + axis, to.begin() + (axis + q - b));
    }
    if (!put()) return false;
    found.insert(found.end(), to.end() - (r - axis - 1), to.end());
    return true;
  }
};

// The expected outcome of checking all entries.
inline Outside look(const Call& call, const Tensor& data, const Tensor& indices) {
  Outside found;
  Size entry = 0;
  each(indices.shape, [&](const Sizes& where) {
    const Wide value = load_integer(indices.place(where), call.index_type);
    if (!place_of(value, extent_of(call, data.shape, where), call) && found.count++ == 0) {
      found.entry = entry;
      found.value = static_cast<std::uint64_t>(value);
    }
    ++entry;
  });
  return found;
}

}  // namespace ndgather::random_calls
