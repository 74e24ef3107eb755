// choose.h - which loop a plan gets, and by how many threads. The rules stand here and nowhere else.
#pragma once

#include "plan.h"

namespace ndgather {

// Places within this reach answer from the second-level cache, where a prefetch only costs.
inline constexpr Size kNear = Size{1} << 20;

inline constexpr Size kLine = 64;  // bytes of a cache line

// Columns of data that are packed together: two cache lines of each row.
inline constexpr Size kBandBytes = 128;

// How a plan falls into bands of columns; see bands.h.
struct Bands {
  Size count = 0;      // in all; 0 if the plan does not suit
  Size per_plane = 0;  // within one step of the dims outside
  Size buffer = 0;     // bytes that one thread needs
  bool apart = false;  // whether bands that are worked on at the same time lie apart
  int threads = 1;
};

Bands choose_bands(const Plan& plan, int threads);

// Into how many elements to split the slices of a simplified plan; 0: they stay whole.
Size choose_slice_part(const Plan& plan);

// Whether the places of a simplified plan have to be waited for, going by sizes alone.
bool places_are_far(const Plan& plan);

// Work on so many positions or more is worth a look at some of them.
inline constexpr Size kSampleFrom = Size{1} << 15;

// How the work of a plan is cut up for threads.
struct Cut {
  int threads = 1;
  Size units = 1;      // pieces of positions
  Size per_unit = 0;   // positions in each but the last
  Size slice_parts = 1;  // pieces of every slice
  Size slice_part = 0;   // bytes in each but the last
};

Cut choose_cut(const Plan& plan, int threads);

// After how many positions a scatter looks whether it is to stop.
Size choose_stretch(const Plan& plan);

// Which places of the far array one thread writes when the updates of a scatter are shared by
// place: every thread looks at all indices and applies those that it owns, in order.
struct Owner {
  Size owners = 1;
  Size self = 0;
  int shift = 0;  // places within 2**shift bytes belong together
  bool owns(Size at) const noexcept {
    const auto block = static_cast<std::uint64_t>(at) >> shift;
    const std::uint64_t hash = block * 0x9E3779B97F4A7C15u >> 32;
    return static_cast<Size>(hash * static_cast<std::uint64_t>(owners) >> 32) == self;
  }
};

// How a scatter is shared between threads such that every place is written by one of them.
struct Sharing {
  int threads = 1;
  int position = -1;  // cut along this position dim, whose steps address places of their own
  Size slice_part = 0;  // or else: cut every slice into parts of these bytes
  int shift = -1;       // or else: by place
};

Sharing choose_sharing(const Plan& plan, int threads);

// An estimate of the time that a plan takes on one thread.
double nanoseconds(const Plan& plan);

}  // namespace ndgather
