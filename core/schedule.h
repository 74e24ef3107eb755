// schedule.h - how a plan is executed: the order, the loop and the number of threads.
#pragma once

#include <limits>

#include "tuning.h"

namespace ndgather {

const Caches& caches() noexcept;

// How a plan is divided into bands of columns, which are packed into panels or processed in tiles; see panels.h.
struct Bands {
  Size count = 0;        // total number of bands, or 0 if the plan is not suitable
  Size per_plane = 0;    // bands for each step of the outer dims
  Size columns = 0;      // columns in each band except the last of a plane
  bool swapped = false;  // whether the innermost loop dim runs along the columns instead of across them
  Size pitch = 0;        // for panels: row stride of the copy, in bytes
  Size buffer = 0;       // for panels: size of the copy, in bytes
};

// Checked offsets, recorded for later. If they fit, they are stored as narrow numbers relative to the lowest offset.
struct Records {
  void* memory;
  bool narrow = false;
  Size lowest = 0;
  Size bytes() const { return narrow ? Size{sizeof(Narrow)} : Size{sizeof(Size)}; }  // per offset
};
inline constexpr Narrow kNarrowOutside = std::numeric_limits<Narrow>::max();  // stands for kOutside

// A range of updates whose destination is divided among owners; see scatter.h.
struct Partition {
  Records offsets;  // for the positions [begin, end)
  Size begin, end;
  int owners;
  Size border[kLimits.owners + 1];  // owner o owns the recorded offsets from border[o] up to border[o + 1]

  // The positions from begin + first up to begin + last.
  Partition part(Size first, Size last) const {
    Partition some = *this;
    some.begin = begin + first;
    some.end = begin + last;
    some.offsets.memory = static_cast<char*>(offsets.memory) + first * offsets.bytes();
    return some;
  }
};

// The lowest and the highest possible offset of a plan.
struct OffsetRange {
  Size lowest = 0, highest = 0;
  explicit OffsetRange(const Plan& plan) {
    const auto reaches = [this](Size size, Size step) { (step < 0 ? lowest : highest) += (size - 1) * step; };
    for (int c = 0; c < plan.column_count; ++c) reaches(plan.column[c].extent, plan.column[c].stride);
    for (int d = 0; d < plan.loop_rank; ++d) reaches(plan.loop[d].size, plan.loop[d].indexed);
  }
  // Whether offsets relative to the lowest offset fit in the narrow type, and indices fit in 32 bits.
  bool fits(const Plan& plan) const {
    const auto is_long = [](const IndexColumn& column) { return column.extent > INT32_MAX; };
    return highest - lowest < Size{kNarrowOutside} && std::none_of(plan.column, plan.column + plan.column_count, is_long);
  }
};

inline bool is_narrow(const Plan& plan) {
  const OffsetRange range(plan);
  return range.lowest == 0 && range.fits(plan);
}

// How a call is split into tasks.
enum class Split : std::uint8_t {
  positions,  // by ranges of positions, and possibly by parts of every slice
  slices,     // by parts of every slice, each for all positions
  dim,        // by ranges of a loop dim whose steps write to separate memory
  panels,     // by bands of columns that are packed into panels
  tiles,      // by bands of columns that are processed in tiles
  owners,     // by owners of parts of the destination
};

struct Schedule {
  int threads = 1;
  bool prefetch = false;          // prefetch slices, because they are likely to miss the cache
  bool prefetch_rows = false;     // prefetch the next row of data while elements of a row are looked up in any order
  bool prefetch_indices = false;  // prefetch indices, because they exceed a quarter of the last-level cache
  bool nontemporal = false;       // write past the caches
  Split split = Split::positions;
  Size tasks = 1;
  Size task_positions = 0;   // for Split::positions
  Size part_bytes = 0;       // size of the parts of a contiguous slice, or 0 for whole slices
  Size part_elements = 0;    // size of the parts of other slices along their last dim, or 0 for whole slices
  int dim = 0;               // for Split::dim
  Bands bands;               // for Split::panels and Split::tiles
  Size round = 0;            // for Split::owners: how many positions to record at a time
  Records records{nullptr};  // the format of the recorded offsets
  Size mark_words = 0;       // size of each thread's bit map of overwritten slices, or 0 to apply all updates in order
  int mark_shift = 0;        // number of low bits that are 0 in every offset; the others are the number of a bit in a map

  Size map_bytes() const { return threads * mark_words * Size{sizeof(std::uint64_t)}; }
};

// Restricts a plan to one of the parts of every slice.
void keep_part(Plan& plan, const Schedule& schedule, Size number);

// Chooses the order of the dims of a simplified plan.
void arrange(Plan& plan, bool gathers);

// Return the schedule of an arranged plan.
Schedule schedule_gather(const Plan& plan, int threads);
Schedule schedule_scatter(const Plan& plan, bool assigns, int threads);
Schedule schedule_check(const Plan& plan, int threads);

// Whether a simplified plan is so small that a better schedule would save less time than choosing it takes.
inline bool is_small(const Plan& plan) {
  const bool few = plan.positions <= kTuning.small_positions ||
                   (plan.positions <= 8 * kTuning.small_positions && plan.reach() <= caches().second_level);
  return few && plan.slice_rank == 0 && plan.dense_linear && plan.positions * plan.width <= kTuning.block_bytes;
}

// Reorders the loop dims to match the memory order of the arrays, if the plan allows it. Returns true if the order changed.
bool order_loops(Plan& plan);

// Sets the borders so that each owner has about the same number of recorded offsets.
void set_borders(Partition& partition);

// Estimates the time that a plan takes on one thread.
double nanoseconds(const Plan& plan);

}  // namespace ndgather
