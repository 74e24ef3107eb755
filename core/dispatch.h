// dispatch.h - run-time tags become template arguments. The only switches over them.
#pragma once

#include "choose.h"
#include "fours.h"
#include "offsets.h"

namespace ndgather::NDGATHER_ISA {

// Calls visit with a value of the C++ type that the tag stands for.
template <class Visit>
auto with_index_type(IndexType type, Visit visit) noexcept {
  switch (type) {
    case IndexType::i8: return visit(std::int8_t{});
    case IndexType::i16: return visit(std::int16_t{});
    case IndexType::i32: return visit(std::int32_t{});
    case IndexType::i64: return visit(std::int64_t{});
    case IndexType::u8: return visit(std::uint8_t{});
    case IndexType::u16: return visit(std::uint16_t{});
    case IndexType::u32: return visit(std::uint32_t{});
    default: return visit(std::uint64_t{});
  }
}

template <class Visit>
auto with_rule(Mode mode, Visit visit) noexcept {
  switch (mode) {
    case Mode::raise: return visit(Raise{});
    case Mode::wrap: return visit(Wrap{});
    case Mode::clip: return visit(Clip{});
    default: return visit(Fill{});
  }
}

template <class At, class Rule, class Index>
Offsets<At> pick_pairs() noexcept {
#if defined(NDGATHER_FOURS)
  return offsets_of_pairs<Rule, Index, At>;
#else
  return offsets<Rule, Index, 2, 2, At>;
#endif
}

template <class At, class Rule, class Index, int Columns>
Offsets<At> pick_columns() noexcept {
#if defined(NDGATHER_FOURS)
  return offsets_of_columns<Rule, Index, Columns, At>;
#else
  return offsets<Rule, Index, Columns, 1, At>;
#endif
}

// The common calls (int32 and int64, negative values as in Python, up to four columns, tuples or columns
// without gaps) have loops of their own; all others share the general one.
template <class At, class Rule, class Index>
Offsets<At> pick_depth(const Plan& plan) noexcept {
  if constexpr ((std::is_same_v<Rule, Raise> || std::is_same_v<Rule, Fill>) &&
                (std::is_same_v<Index, std::int32_t> || std::is_same_v<Index, std::int64_t>)) {
    constexpr Size kValue{sizeof(Index)};
    const Size step = plan.position[plan.position_rank - 1].index;
    if (plan.column_count == 1 && step == kValue) return pick_columns<At, Rule, Index, 1>();
    if (plan.column_stride == kValue && step == kValue * plan.column_count) {
      switch (plan.column_count) {
        case 2: return pick_pairs<At, Rule, Index>();
        case 3: return offsets<Rule, Index, 3, 3, At>;
        case 4: return offsets<Rule, Index, 4, 4, At>;
        default: break;
      }
    }
    if (step == kValue) {
      switch (plan.column_count) {
        case 2: return pick_columns<At, Rule, Index, 2>();
        case 3: return pick_columns<At, Rule, Index, 3>();
        case 4: return pick_columns<At, Rule, Index, 4>();
        default: break;
      }
    }
  }
  if (plan.column_count == 1) return offsets<Rule, Index, 1, 0, At>;
  return offsets_by_column<Rule, Index, At>;
}

template <class At = Size>
Offsets<At> pick_offsets(const Plan& plan) noexcept {
  return with_rule(plan.mode, [&](auto rule) {
    return with_index_type(plan.index_type, [&](auto index) -> Offsets<At> {
      return pick_depth<At, decltype(rule), decltype(index)>(plan);
    });
  });
}

}  // namespace ndgather::NDGATHER_ISA
