// choose.h - which loop a plan gets, and by how many threads. The rules stand here and nowhere else.
#pragma once

#include "plan.h"

namespace ndgather {

// Columns of data that are packed together: two cache lines of each row.
inline constexpr Size kBandBytes = 128;

// How a plan falls into bands of columns; see bands.h.
struct Bands {
  Size count = 0;      // in all; 0 if the plan does not suit
  Size per_plane = 0;  // within one step of the dims outside
  Size buffer = 0;     // bytes that one thread needs
};

Bands choose_bands(const Plan& plan);

// How the work of a plan is cut up for threads.
struct Cut {
  int threads = 1;
  Size units = 1;      // pieces of positions
  Size per_unit = 0;   // positions in each but the last
  Size slice_parts = 1;  // pieces of every slice
  Size slice_part = 0;   // bytes in each but the last
};

Cut choose_cut(const Plan& plan, int threads);

// Whether the near array is written around the caches.
bool choose_stream(const Plan& plan);

// An estimate of the time that a plan takes on one thread.
double nanoseconds(const Plan& plan);

}  // namespace ndgather
