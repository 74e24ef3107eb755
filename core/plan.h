// plan.h - the one noun of the engine: which bytes of one array go to which bytes of another.
//
// There is a box of positions. At each position some index columns are read; every value is
// checked against the axis that it addresses and multiplied by the stride of that axis. With a
// base that depends on the position alone this gives one address in the *far* array, where one
// slice begins. The *near* array is walked in the order of the positions.
//
//   gather : near = result,   far = data         near[p, s] = far[at(p) + s]
//   scatter: near = updates,  far = destination  far[at(p) + s] = near[p, s]
//
// All strides are in bytes. Nothing here knows Python, dtypes or dialects.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "refusal.h"

namespace ndgather {

using Size = std::ptrdiff_t;
static_assert(sizeof(Size) == 8, "ndgather needs a 64-bit platform");

inline constexpr int kMaxRank = 64;  // the most axes that a NumPy array has

inline constexpr double kEndless = 1e300;

// A borrowed view of an array.
struct Array {
  char* bytes;
  int rank;
  const Size* shape;
  const Size* strides;
};

enum class IndexType : std::uint8_t { i8, i16, i32, i64, u8, u16, u32, u64 };

// What happens to an index value that names no place on its axis.
enum class Mode : std::uint8_t { raise, wrap, clip, fill };

struct Position {
  Size size, index, far, near;
};

struct Column {
  Size extent;  // size of the addressed axis
  Size lift;    // added to negative values: extent, or 0 where negative values are not allowed
  Size stride;
};

struct Slice {
  Size size, far, near;
};

struct Plan {
  const char* indices = nullptr;
  char* far = nullptr;
  char* near = nullptr;
  const char* fill = nullptr;   // one element for places without data; null: zeros
  const char* origin = nullptr;  // what the far array of a scatter is to begin as; null: as it is
  const char* table = nullptr;  // of the results for all pairs of one-byte elements; see store.h
  Size positions = 0;           // product of the position sizes
  Size width = 0;    // bytes that are copied as one; after simplify a whole run of elements
  Size element = 1;  // bytes of one element
  Size column_stride = 0;
  // After join_runs: positions in one run of the innermost dim, how far apart they lie, and the runs.
  Size run = 0, run_far = 0, runs_far = 0;
  // Places are asked for ahead once they take more than so many nanoseconds each; below 0: at once.
  double patience = kEndless;
  std::atomic<bool>* far_away = nullptr;  // set when they have, for the walks of a call that begin later
  int position_rank = 0;
  int column_count = 0;
  int slice_rank = 0;
  bool tuples = false;       // the last axis of indices holds the columns
  bool any_order = false;    // of the position dims: no place is written to in a wrong one
  bool scatters = false;     // what is written to is the far array, and not the near one
  bool near_linear = false;  // after simplify: position p of the near array is at p times one step
  bool streams = false;      // rows and elements are written past the caches, where their widths allow it
  bool asks_ahead = false;   // for indices and updates, which caches may not hold from one call to the next
  bool asks_for_rows = false;  // while each run looks into a row of its own, the next row is asked for
  IndexType index_type = IndexType::i64;
  Mode mode = Mode::raise;
  // Left uninitialised on purpose: a small call touches only the few entries that it uses.
  Position position[kMaxRank];
  Column column[kMaxRank];
  Slice slice[kMaxRank];

  // How far apart the places are that one index tuple can name: within it accesses are random.
  Size reach() const {
    Size bytes = 0;
    for (int c = 0; c < column_count; ++c) {
      bytes += column[c].extent * (column[c].stride < 0 ? -column[c].stride : column[c].stride);
    }
    return bytes;
  }

  // A position dim by steps that are equally far apart: of joined runs, from each to the next.
  Position steps(int d) const {
    const Position& dim = position[d];
    if (run == 0 || d + 1 < position_rank) return dim;
    return {dim.size / run, run * dim.index, runs_far, run * dim.near};
  }

  // From where to where the places of slices lie in one of the arrays, in bytes from its first.
  struct Span {
    Size lowest = 0, highest = 0;
    void add(Size size, Size stride) { (stride < 0 ? lowest : highest) += (size - 1) * stride; }
    Size bytes() const { return highest - lowest; }
  };
  Span far_span() const {
    Span span;
    for (int c = 0; c < column_count; ++c) span.add(column[c].extent, column[c].stride);
    for (int d = 0; d < position_rank; ++d) span.add(steps(d).size, steps(d).far);
    if (run > 0) span.add(run, run_far);
    return span;
  }
  Span index_span() const {
    Span span;
    span.add(column_count, column_stride);
    for (int d = 0; d < position_rank; ++d) span.add(position[d].size, position[d].index);
    return span;
  }
  Span near_span() const {
    Span span;
    for (int d = 0; d < position_rank; ++d) span.add(position[d].size, position[d].near);
    return span;
  }

  Size slice_elements() const {
    Size n = 1;
    for (int d = 0; d < slice_rank; ++d) n *= slice[d].size;
    return n;
  }
};

// Where n slices lie in the near array: every `step` bytes from `near`, or, where only some positions of a
// block are wanted, at the listed offsets from it.
template <class Byte>
struct NearPlaces {
  Byte* near;
  Size step;
  const Size* listed;  // null: all of them
};

// The shape of a result: known before anything is allocated or read.
struct Shape {
  int rank = 0;
  Size size[2 * kMaxRank];
  void append(const Size* sizes, int count) {
    for (int d = 0; d < count; ++d) size[rank++] = sizes[d];
  }
};

// The three kinds of operator. Each has its shape rule and its plan; options are normalised by
// the shape rule, so that the plan takes them as they are.
Refusal shape_gather_nd(const Array& data, const Array& indices, Size batch_dims, Shape& result);
Refusal shape_gather_elements(const Array& data, const Array& indices, Size& axis, Shape& result);
Refusal shape_gather(const Array& data, const Array& indices, Size& axis, Size& batch_dims,
                     Shape& result);

// Scatters: the shape that updates must have. The rest of the rule is that of the gather.
inline bool same_shape(const Array& array, const Shape& shape) {
  if (array.rank != shape.rank) return false;
  for (int d = 0; d < shape.rank; ++d) {
    if (array.shape[d] != shape.size[d]) return false;
  }
  return true;
}

void plan_gather_nd(Plan& plan, const Array& far, const Array& indices, const Array& near,
                    Size batch_dims);
void plan_gather_elements(Plan& plan, const Array& far, const Array& indices, const Array& near,
                          Size axis);
void plan_gather(Plan& plan, const Array& far, const Array& indices, const Array& near, Size axis,
                 Size batch_dims);

// Copies all of one array to another of the same shape.
void plan_copy(Plan& plan, const Array& from, const Array& to, Size element);

// A plan whose positions are just the entries of `indices`, with the columns of `plan`.
void plan_check(Plan& check, const Plan& plan, const Array& indices);

// Merges neighbouring dims whose strides allow it and drops dims of size 1; afterwards there is at
// least one position dim, and a contiguous slice has become part of `width`.
void simplify(Plan& plan);

// Whether the runs of the innermost dim follow each other in indices and in the near array.
bool runs_join(const Plan& plan);

// Makes the two innermost dims one; the inner has at most kShortRun positions (choose.h). In the far array
// its position p lies p / run * runs_far + p % run * run_far further than its index says.
void join_runs(Plan& plan);

// Leaves `part` elements of the innermost dim of slices with gaps, and makes the rest of it and the other
// dims position dims outside of all others; of part 1 no slice is left. Its size is a multiple of `part`.
void split_slices(Plan& plan, Size part);

// Leaves `size` elements of the innermost dim of slices with gaps, the first of which is `begin`.
void cut_slices(Plan& plan, Size begin, Size size);

// Makes `copy` bring all that a plan can look at into `memory`, without gaps, and the plan look there;
// both are simplified.
void pack(Plan& plan, Plan& copy, char* memory);

// Leaves only the bytes [begin, end) of every contiguous slice, so that few large slices can be
// shared between threads.
void narrow(Plan& plan, Size begin, Size end);

}  // namespace ndgather
