// plan.h - what is to be done: which bytes of one array go to which bytes of another.
//
// There is a box of positions. At each position some index columns are read; every value is checked against the
// axis that it addresses and multiplied by the stride of that axis. With a base that depends on the position alone
// this gives one offset into the *indexed* array, where one slice begins. The *dense* array is walked in the order
// of the positions.
//
//   gather : dense = result,   indexed = data          dense[p, s] = indexed[at(p) + s]
//   scatter: dense = updates,  indexed = destination   indexed[at(p) + s] (+)= dense[p, s]
//
// All strides are in bytes. Nothing here knows Python, dtypes or dialects; how a plan is carried out is decided in
// schedule.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ndgather {

using Size = std::ptrdiff_t;
static_assert(sizeof(Size) == 8, "ndgather needs a 64-bit platform");

inline constexpr int kMaxRank = 64;  // the most axes that a NumPy array has

constexpr Size divide_up(Size a, Size b) { return (a + b - 1) / b; }
constexpr Size round_up(Size a, Size b) { return divide_up(a, b) * b; }

// Why a call is refused: a rule and two numbers. The list below is the only one; Python gets the names from it and writes
// the texts (src/ndgather/arguments.py).
//
// none: the call is not refused.
// raised: a Python exception is set, so nothing is left to explain.
// fallback: the call needs Python, which converts arguments or takes several steps.
// gradient: the core could carry out the call, but a library records it; nothing else is at work.
// signature: the arguments do not fit the function; the facts are the names of the last of them.
// axis, batch_dims: out of range; the facts are the lowest and the highest allowed value.
// batch_size, window_size: the fact is the axis. off_axis: the facts are that axis and the gathered axis.
// window_rank: the shapes of data, of starts and of a window do not fit.
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

// Two words, which come back in registers: a tiny call asks for a dozen of them.
struct Refusal {
  Rule rule;
  Size facts;
  constexpr Refusal(Rule of = Rule::none, Size first = 0, Size second = 0)
      : rule(of), facts(first * (Size{1} << 32) + second) {}  // both are small: axes, ranks, or the number of an argument
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

// The shape of a result: known before anything is allocated or read.
struct Shape {
  int rank = 0;
  Size size[2 * kMaxRank];
  void append(const Size* sizes, Size count) {
    for (Size d = 0; d < count; ++d) size[rank++] = sizes[d];
  }
};

enum class IndexType : std::uint8_t { i8, i16, i32, i64, u8, u16, u32, u64 };
constexpr Size index_bytes(IndexType type) { return Size{1} << (static_cast<int>(type) % 4); }

// What happens to an index value that lies outside its axis.
enum class Mode : std::uint8_t { raise, wrap, clip, fill };

// What a scatter does with an element that is already there.
enum class Reduction : std::uint8_t { none, add, sub, mul, min, max };

// What the arithmetic needs to know of an element. A copy needs only its width.
enum class ElementType : std::uint8_t {
  // clang-format off
  i8, i16, i32, i64, u8, u16, u32, u64,
  f16, bf16, f32, f64, long_double,
  c64, c128, complex_long_double,
  // clang-format on
  boolean,
  table,   // one byte, and a table of the results for all pairs
  opaque,  // no arithmetic
};

// One dim of the box of positions or of the slices, and how far a step in it leads in each array.
struct Dim {
  Size size, index, indexed, dense;
};

struct IndexColumn {
  Size extent;  // size of the addressed axis
  Size wrap;    // added to negative values: extent, or 0 where negative values are not allowed
  Size stride;
};

// The two innermost loop dims as one, which stays as the innermost: the base advances by `step` within a run, and by
// `next_run` from run to run. The dim itself then has no step in the indexed array, and none in the indices where all
// runs read the same index values.
struct Joined {
  Size run = 0;    // positions of a run; 0: nothing is joined
  Size step = 0, next_run = 0;
  Size index = 0;  // from one of the index values that all runs read to the next; 0: every run has its own
};

class Stop;

struct Plan {
  const char* indices = nullptr;
  char* indexed = nullptr;
  char* dense = nullptr;
  const char* fill = nullptr;   // one element for positions whose index is outside; null: zeros
  Stop* stop = nullptr;         // null: the call is not left before its end
  const char* table = nullptr;  // of the results for all pairs of one-byte elements; see reduction.h
  Size positions = 0;           // product of the sizes of the loop dims
  Size width = 0;               // bytes copied as a unit; after simplify a whole run of elements
  Size element = 1;             // bytes of one element
  Size column_stride = 0;       // from one index column to the next
  int loop_rank = 0;
  int column_count = 0;
  int slice_rank = 0;
  Joined joined;
  bool tuples = false;        // the last axis of indices holds the columns
  bool any_order = false;     // the result does not depend on the order of the loop dims
  bool dense_linear = false;  // after simplify: position p of the dense array is at p times one step
  bool narrow = false;        // offsets may be summed up in few bits; see is_narrow
  IndexType index_type = IndexType::i64;
  Mode mode = Mode::raise;
  bool all_or_nothing = false;  // nothing is written unless all index values are inside
  // All index values were inside when they were checked before: one that another thread changes afterwards is treated as
  // in mode `fill`, so that the call does not end half way.
  bool checked = false;
  // Left uninitialised on purpose: a small call touches only the few entries that it uses.
  Dim loop[kMaxRank];
  IndexColumn column[kMaxRank];
  Dim slice[kMaxRank];

  const Dim& inner() const { return loop[loop_rank - 1]; }

  // Whether a position whose index is outside is filled, or its update dropped.
  bool fills() const { return mode == Mode::fill || checked; }

  // Whether every value of the index type is in bounds: any uint8 on axes of 256 and more, any int8 on axes of 128.
  bool is_always_inside() const {
    const Size bits = 8 * index_bytes(index_type), sign = index_type <= IndexType::i64;
    return std::all_of(column, column + column_count, [=](const IndexColumn& of) {
      return bits <= 32 && of.extent >> (bits - sign) > 0 && (sign == 0 || of.wrap == of.extent);
    });
  }

  void refuse_negative() {
    for (int c = 0; c < column_count; ++c) column[c].wrap = 0;
  }

  // How far apart the slices are that one index tuple can address. At most 2**62: the strides of coordinates that are
  // packed into 63 bits (group.h) are those of no memory.
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

// The operators. JAX keeps their numbers in exported programs: new ones are added at the end.
enum class Kind : int { gather_nd, gather_elements, gather, scatter_nd, scatter_elements, gather_windows };
constexpr bool scatters(Kind kind) { return kind == Kind::scatter_nd || kind == Kind::scatter_elements; }

struct Options {
  Size axis = 0, batch_dims = 0;
  int window_rank = 0;  // of gather_windows: the sizes of a window on the axes that its start addresses
  Size window[kMaxRank];
};

// The shape of the slices that indices name, which is that of the result of a gather or of the updates of a scatter.
// Refuses shapes and options that do not fit; brings axis and batch_dims into the range from 0 on.
Refusal slices_shape(Kind kind, const Array& data, const Array& indices, Options& options, Shape& slices);

// Fills in a fresh plan of a call whose shapes fit. The kind and the arrays of a scatter: those of its gather.
void plan_slices(Plan& plan, Kind kind, const Array& indexed, const Array& indices, const Array& dense,
                 const Options& options);

// Copies all of one array to another of the same shape.
void plan_copy(Plan& plan, const Array& from, const Array& to, Size element);

// A plan whose positions are just the entries of `indices`, with the columns of `plan`.
void plan_check(Plan& check, const Plan& plan, const Array& indices);

// Merges neighbouring dims whose strides allow it and drops dims of size 1; afterwards there is at least one loop
// dim, and a contiguous slice has become part of `width`.
void simplify(Plan& plan);

// Makes the two innermost loop dims one where the inner one has at most `most` positions, the dense array is linear in
// both, and the indices are too, or are the same for all runs.
void join_runs(Plan& plan, Size most);

// Makes the slice dims loop dims, the innermost ones, but for the last `left` of them.
void loop_over_slices(Plan& plan, int left = 0);

// Leaves the range [begin, end) of one loop dim.
void keep_range(Plan& plan, int dim, Size begin, Size end);

}  // namespace ndgather
