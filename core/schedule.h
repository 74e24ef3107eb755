// schedule.h - how a plan is carried out: in which order, by how many threads, by which loop.
#pragma once

#include <limits>

#include "tuning.h"

namespace ndgather {

// The sizes of the caches of this machine.
const Caches& caches() noexcept;

// How a plan falls into bands of columns, which are packed as panels or walked by tiles; see panels.h.
struct Bands {
  Size count = 0;        // in all; 0: the plan does not suit
  Size per_plane = 0;    // within one step of the dims outside
  Size columns = 0;      // in each but the last of a plane
  bool swapped = false;  // the innermost loop dim goes along the columns, not across them
  Size pitch = 0;        // of panels: bytes from one row of the copy to the next
  Size buffer = 0;       // and bytes of the copy
};

// Checked offsets that are kept: as they are, or where their range allows it as narrow numbers from the lowest one on.
struct Records {
  void* memory;
  bool narrow = false;
  Size lowest = 0;
  Size bytes() const { return narrow ? Size{sizeof(Narrow)} : Size{sizeof(Size)}; }  // of an offset
};
inline constexpr Narrow kNarrowOutside = std::numeric_limits<Narrow>::max();  // for kOutside

// A scatter of some positions whose destination is shared out between owners; see scatter.h.
struct Partition {
  Records offsets;  // of the positions [begin, end)
  Size begin, end;
  int owners;
  Size border[kLimits.owners + 1];  // owner o has the recorded offsets from border o up to the next

  // The same of some of its positions.
  Partition part(Size first, Size last) const {
    Partition some = *this;
    some.begin = begin + first;
    some.end = begin + last;
    some.offsets.memory = static_cast<char*>(offsets.memory) + first * offsets.bytes();
    return some;
  }
};

// The lowest and the highest offset that a plan can have.
struct OffsetRange {
  Size lowest = 0, highest = 0;
  explicit OffsetRange(const Plan& plan) {
    const auto reaches = [this](Size size, Size step) { (step < 0 ? lowest : highest) += (size - 1) * step; };
    for (int c = 0; c < plan.column_count; ++c) reaches(plan.column[c].extent, plan.column[c].stride);
    for (int d = 0; d < plan.loop_rank; ++d) reaches(plan.loop[d].size, plan.loop[d].indexed);
  }
  // Whether offsets from the lowest one on fit the narrow type, and index values 32 bits.
  bool fits(const Plan& plan) const {
    const auto is_long = [](const IndexColumn& column) { return column.extent > INT32_MAX; };
    return highest - lowest < Size{kNarrowOutside} && std::none_of(plan.column, plan.column + plan.column_count, is_long);
  }
};

inline bool is_narrow(const Plan& plan) {
  const OffsetRange range(plan);
  return range.lowest == 0 && range.fits(plan);
}

// What the tasks are into which a call is split.
enum class Split : std::uint8_t {
  positions,  // ranges of positions, each of them whole or by parts of every slice; all of them: one task
  slices,     // parts of every slice, at all positions
  dim,        // ranges of a loop dim, whose steps address parts of their own
  panels,     // bands of columns that are packed
  tiles,      // bands of columns that are walked by tiles
  owners,     // the updates of an owner, in a scatter of some positions at a time
};

struct Schedule {
  int threads = 1;
  bool prefetch = false;     // slices are likely to miss the cache
  bool prefetch_rows = false;     // each is looked up in any order, and the next one follows it
  bool prefetch_indices = false;  // they are larger than a quarter of the last-level cache
  bool tries = false;        // the first tasks of the call find out whether prefetching rows is faster
  bool nontemporal = false;  // rows are written past the caches
  Split split = Split::positions;
  Size tasks = 1;
  Size task_positions = 0;   // of Split::positions
  Size part_bytes = 0;       // of a contiguous slice; 0: slices stay whole
  Size part_elements = 0;    // of a slice of several runs, along its last dim; 0: slices stay whole
  int dim = 0;               // of Split::dim
  Bands bands;               // of Split::panels and Split::tiles
  Size round = 0;            // of Split::owners: the offsets of so many positions are recorded,
  Records records{nullptr};  // like this,
  Size owned_at_a_time = 0;  // and applied for so many of them at a time
  Size mark_words = 0;  // of a map for each thread, by which updates that later ones overwrite are dropped; 0: none are.
  int mark_shift = 0;  // In a map an offset has the bit of its number without so many low bits, which are all 0

  Size map_bytes() const { return threads * mark_words * Size{sizeof(std::uint64_t)}; }
};

// Leaves one of the parts of every slice.
void keep_part(Plan& plan, const Schedule& schedule, Size number);

// Brings the dims of a simplified plan into the order in which they are walked.
void arrange(Plan& plan, bool gathers);

// The schedule of an arranged plan.
Schedule schedule_gather(const Plan& plan, int threads);
Schedule schedule_scatter(const Plan& plan, bool assigns, int threads);
Schedule schedule_check(const Plan& plan, int threads);

// Whether a simplified plan is so small that a schedule would cost more than it brings.
inline bool is_small(const Plan& plan) {
  const bool few = plan.positions <= kTuning.small_positions ||
                   (plan.positions <= 8 * kTuning.small_positions && plan.reach() <= caches().second_level);
  return few && plan.slice_rank == 0 && plan.dense_linear && plan.positions * plan.width <= kTuning.block_bytes;
}

// Brings the loop dims of a plan that allows it into the order in which its arrays lie in memory. True: they were in
// another one.
bool order_loops(Plan& plan);

// Sets the borders of the owners such that each has about as many of the recorded offsets.
void set_borders(Partition& partition);

// An estimate of the time that a plan takes on one thread.
double nanoseconds(const Plan& plan);

}  // namespace ndgather
