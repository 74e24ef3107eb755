// plan.h - the plan of a gather or scatter, which maps bytes of one array to bytes of another.
//
// A plan has a box of positions. At each position, one or more index columns are read. Every index is checked against the
// size of the axis that it addresses and multiplied by the stride of that axis. The sum of the products and of a base, which
// depends only on the position, is the offset of a slice in the *indexed* array. The *dense* array is traversed in the order
// of the positions.
//
//   gather : dense = result,   indexed = data          dense[p, s] = indexed[at(p) + s]
//   scatter: dense = updates,  indexed = destination   indexed[at(p) + s] (+)= dense[p, s]
//
// All strides are in bytes. Plans do not depend on Python, dtypes or dialects. schedule.h decides how to execute a plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ndgather {

using Size = std::ptrdiff_t;
static_assert(sizeof(Size) == 8, "ndgather needs a 64-bit platform");

inline constexpr int kMaxRank = 64;  // the maximum for NumPy arrays

constexpr Size divide_up(Size a, Size b) { return (a + b - 1) / b; }
constexpr Size round_up(Size a, Size b) { return divide_up(a, b) * b; }

// The reasons why the core refuses a call. Python gets the names from this list and writes the error texts
// (src/ndgather/arguments.py).
//
// none: the call is not refused.
// raised: a Python exception is already set.
// fallback: Python must handle the call, because arguments need to be converted or several steps are needed.
// gradient: the core could carry out the call, but a library records it for a gradient.
// signature: the arguments do not match the signature; the facts are the names of the keyword arguments.
// axis, batch_dims: out of range; the facts are the lowest and the highest allowed value.
// batch_size, window_size: the fact is the axis. off_axis: the facts are the axis that differs and the gathered axis.
// window_rank: the shapes of data, starts and window do not match.
// clang-format off
#define NDGATHER_RULES(RULE)                                                                      \
  RULE(none) RULE(raised) RULE(fallback) RULE(gradient) RULE(signature)                           \
  RULE(index_dtype) RULE(data_rank) RULE(index_rank) RULE(ranks_differ)                           \
  RULE(batch_dims) RULE(axis) RULE(option_type) RULE(mode)                                        \
  RULE(batch_size) RULE(depth) RULE(off_axis) RULE(updates_shape)                                 \
  RULE(window_rank) RULE(window_size)                                                             \
  RULE(result_rank) RULE(result_size)                                                             \
  RULE(out_type) RULE(out_dtype) RULE(out_shape) RULE(out_read_only) RULE(out_overlaps_itself)    \
  RULE(out_overlaps_input)                                                                        \
  RULE(out_of_bounds) RULE(indices_changed)
// clang-format on

enum class Rule : Size {
#define NDGATHER_RULE(name) name,
  NDGATHER_RULES(NDGATHER_RULE)
#undef NDGATHER_RULE
};

inline constexpr const char* kRuleNames[] = {
#define NDGATHER_RULE(name) #name,
    NDGATHER_RULES(NDGATHER_RULE)
#undef NDGATHER_RULE
};

// A rule and two numbers, in two words that are returned in registers, because even a tiny call returns a dozen refusals.
struct Refusal {
  Rule rule;
  Size facts;
  constexpr Refusal(Rule of = Rule::none, Size first = 0, Size second = 0)
      : rule(of), facts(first * (Size{1} << 32) + second) {}  // both are small: axes, ranks or argument numbers
  int second() const { return static_cast<int>(facts); }
  int first() const { return static_cast<int>((facts - second()) >> 32); }
  explicit operator bool() const { return rule != Rule::none; }
};

// A borrowed view of an array.
struct Array {
  char* bytes;
  int rank;
  const Size* shape;
  const Size* strides;
};

// The shape of a result, which is computed before anything is allocated or read.
struct Shape {
  int rank = 0;
  Size size[2 * kMaxRank];
  void append(const Size* sizes, Size count) {
    for (Size d = 0; d < count; ++d) size[rank++] = sizes[d];
  }
};

enum class IndexType : std::uint8_t { i8, i16, i32, i64, u8, u16, u32, u64 };
constexpr Size index_bytes(IndexType type) { return Size{1} << (static_cast<int>(type) % 4); }

// How out-of-bounds indices are handled.
enum class Mode : std::uint8_t { raise, wrap, clip, fill };

// How a scatter combines an update with the element that it addresses.
enum class Reduction : std::uint8_t { none, add, sub, mul, min, max };

// Element types for arithmetic. Copies depend only on the width of an element.
enum class ElementType : std::uint8_t {
  // clang-format off
  i8, i16, i32, i64, u8, u16, u32, u64,
  f16, bf16, f32, f64, long_double,
  c64, c128, complex_long_double,
  // clang-format on
  boolean,
  table,   // one byte, with a table that contains the result for each pair of bytes
  opaque,  // arithmetic is not supported
};

// One dim of the box of positions or of the slices, with its stride in each array.
struct Dim {
  Size size, index, indexed, dense;
};

struct IndexColumn {
  Size extent;  // size of the addressed axis
  Size wrap;    // added to negative indices: extent, or 0 if negative indices are not allowed
  Size stride;
};

// The two innermost loop dims joined into one. The base advances by `step` within a run and by `next_run` between runs, so
// the joined dim has stride 0 in the indexed array. It also has stride 0 in the indices if all runs read the same indices.
struct Joined {
  Size run = 0;  // positions in a run, or 0 if no dims are joined
  Size step = 0, next_run = 0;
  Size index = 0;  // stride of the indices that all runs share, or 0 if each run has its own
};

class Stop;

struct Plan {
  const char* indices = nullptr;
  char* indexed = nullptr;
  char* dense = nullptr;
  const char* fill = nullptr;   // the element for out-of-bounds positions, or null for zeros
  Stop* stop = nullptr;         // null if the call cannot be stopped early
  const char* table = nullptr;  // the results of a reduction for all pairs of one-byte elements; see reduction.h
  Size positions = 0;           // product of the sizes of the loop dims
  Size width = 0;               // bytes copied as a unit: an element, or a contiguous run of elements after simplify()
  Size element = 1;             // bytes per element
  Size column_stride = 0;       // distance between index columns
  int loop_rank = 0;
  int column_count = 0;
  int slice_rank = 0;
  Joined joined;
  bool tuples = false;        // whether the columns are along the last axis of indices
  bool any_order = false;     // whether the loop dims may be reordered without changing the result
  bool dense_linear = false;  // after simplify(): whether position p of the dense array is at p times a constant step
  bool narrow = false;        // whether offsets fit the type Narrow; see is_narrow()
  IndexType index_type = IndexType::i64;
  Mode mode = Mode::raise;
  bool all_or_nothing = false;  // whether to check all indices before anything is written
  // Whether all indices were in bounds in an earlier check. If another thread then makes an index invalid, it is handled as
  // in mode `fill`, so that the call does not stop halfway.
  bool checked = false;
  // Deliberately uninitialized: a small call uses only a few entries.
  Dim loop[kMaxRank];
  IndexColumn column[kMaxRank];
  Dim slice[kMaxRank];

  const Dim& inner() const { return loop[loop_rank - 1]; }

  // Whether out-of-bounds positions are filled or, in a scatter, dropped.
  bool fills() const { return mode == Mode::fill || checked; }

  // Whether the index type has no out-of-bounds values: uint8 on axes of 256 elements or more, int8 on axes of 128 or more.
  bool is_always_inside() const {
    const Size bits = 8 * index_bytes(index_type), sign = index_type <= IndexType::i64;
    return std::all_of(column, column + column_count, [=](const IndexColumn& of) {
      return bits <= 32 && of.extent >> (bits - sign) > 0 && (sign == 0 || of.wrap == of.extent);
    });
  }

  void refuse_negative() {
    for (int c = 0; c < column_count; ++c) column[c].wrap = 0;
  }

  // The distance in bytes that index tuples span in the indexed array. It is capped at 2**62, because packed coordinates
  // (group.h) have strides of up to 63 bits.
  Size reach() const {
    constexpr Size kMost = Size{1} << 62;
    Size bytes = 0;
    for (int c = 0; c < column_count; ++c) {
      const Size step = column[c].stride < 0 ? -column[c].stride : column[c].stride;
      if (step != 0 && column[c].extent > (kMost - bytes) / step) return kMost;
      bytes += column[c].extent * step;
    }
    return bytes;
  }

  Size slice_elements() const {
    Size n = 1;
    for (int d = 0; d < slice_rank; ++d) n *= slice[d].size;
    return n;
  }

  Size slice_bytes() const { return width * slice_elements(); }
  bool is_empty() const { return positions == 0 || slice_bytes() == 0; }
};

// The operators. Exported JAX programs contain these numbers, so new operators must be added at the end.
enum class Kind : int { gather_nd, gather_elements, gather, scatter_nd, scatter_elements, gather_windows };
constexpr bool scatters(Kind kind) { return kind == Kind::scatter_nd || kind == Kind::scatter_elements; }

struct Options {
  Size axis = 0, batch_dims = 0;
  int window_rank = 0;  // for gather_windows: the number of axes that a start addresses, and the size of the window on each
  Size window[kMaxRank];
};

// Computes the shape of all selected slices: the result of a gather, or the updates of a scatter. Makes axis and batch_dims
// non-negative. Refuses shapes and options that do not match.
Refusal slices_shape(Kind kind, const Array& data, const Array& indices, Options& options, Shape& slices);

// Fills in a new plan for a call whose shapes were accepted. A scatter has the plan of the corresponding gather.
void plan_slices(Plan& plan, Kind kind, const Array& indexed, const Array& indices, const Array& dense,
                 const Options& options);

// Plans a copy of one array to another of the same shape.
void plan_copy(Plan& plan, const Array& from, const Array& to, Size element);

// Plans a check that visits each entry of `indices` once, with the columns of `plan`.
void plan_check(Plan& check, const Plan& plan, const Array& indices);

// Merges neighboring dims if their strides allow it, and drops dims of size 1. Afterwards the plan has at least one loop
// dim, and contiguous slice dims are part of `width`. For example, contiguous (4, 8) float32 become a run of 128 bytes.
void simplify(Plan& plan);

// Joins the two innermost loop dims if the inner one has at most `most` positions, the dense array is linear in both, and
// the indices are linear too or the same for all runs.
void join_runs(Plan& plan, Size most);

// Turns all slice dims except the last `left` into the innermost loop dims.
void loop_over_slices(Plan& plan, int left = 0);

// Restricts one loop dim to the range [begin, end).
void keep_range(Plan& plan, int dim, Size begin, Size end);

}  // namespace ndgather
