// refusal.h - why a call is refused: a rule and two numbers. The list below is the only one; Python gets the
// names from it and writes the texts (src/ndgather/slow_path.py).
#pragma once

#include <cstddef>

namespace ndgather {

// none: the call is not refused.
// raised: a Python exception is set, so nothing is left to explain.
// fallback: the call needs Python, which converts arguments or takes several steps.
// signature: the arguments do not fit the function; the facts are the names of the last of them.
// axis, batch_dims: out of range; the facts are the lowest and the highest allowed value.
// batch_size, window_size: the fact is the axis. off_axis: the facts are that axis and the gathered axis.
// window_rank: the shapes of data, of starts and of a window do not fit.
#define NDGATHER_RULES(RULE)                                                                      \
  RULE(none) RULE(raised) RULE(fallback) RULE(signature)                                          \
  RULE(index_dtype) RULE(data_rank) RULE(index_rank) RULE(ranks_differ)                           \
  RULE(batch_dims) RULE(axis) RULE(option_type) RULE(mode)                                        \
  RULE(batch_size) RULE(depth) RULE(off_axis) RULE(updates_shape)                                 \
  RULE(window_rank) RULE(window_size)                                                             \
  RULE(result_rank) RULE(result_size)                                                             \
  RULE(out_type) RULE(out_dtype) RULE(out_shape) RULE(out_read_only) RULE(out_overlaps_itself)    \
  RULE(out_overlaps_input)                                                                        \
  RULE(out_of_bounds) RULE(indices_changed)

enum class Rule : int {
#define NDGATHER_RULE(name) name,
  NDGATHER_RULES(NDGATHER_RULE)
#undef NDGATHER_RULE
};

inline constexpr const char* kRuleNames[] = {
#define NDGATHER_RULE(name) #name,
    NDGATHER_RULES(NDGATHER_RULE)
#undef NDGATHER_RULE
};

struct Refusal {
  Rule rule = Rule::none;
  std::ptrdiff_t first = 0, second = 0;
  explicit operator bool() const { return rule != Rule::none; }
};

}  // namespace ndgather
