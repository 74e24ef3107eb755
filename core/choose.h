// choose.h - which loop a plan gets, and by how many threads. The rules stand here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan.h"

namespace ndgather {

// Places within this reach answer from the second-level cache, where a prefetch only costs.
inline constexpr Size kNear = Size{1} << 20;

inline constexpr Size kLine = 64;  // bytes of a cache line

// How far an address is behind a multiple of `grain`, which is a power of two.
inline Size bytes_after(const void* at, Size grain) {
  return static_cast<Size>(reinterpret_cast<std::uintptr_t>(at)) & (grain - 1);
}

// Brings the position dims of a plan that allows it into the order in which its arrays lie in memory.
// True: they were in another one.
bool choose_order(Plan& plan);

// Columns of data that are packed together: at most four cache lines of each row.
inline constexpr Size kBandBytes = 256;

// Elements of 1, 2, 4, 8 or 16 bytes, for which bands and tiles have loops.
constexpr bool is_of_machine_width(Size width) { return width <= 16 && (width & (width - 1)) == 0; }

// How a plan falls into bands of columns; see bands.h.
struct Bands {
  Size count = 0;       // in all; 0 if the plan does not suit
  Size per_plane = 0;   // within one step of the dims outside
  Size columns = 0;     // in each but the first and the last of a plane
  Size lead = 0;        // so many fewer in the first
  int shift = 0;        // a packed row takes 1 << shift bytes
  Size buffer = 0;      // bytes that one thread needs
  Size written = 0;     // bytes, by all of them
  bool across = false;  // whether the innermost dim goes from column to column, or along them
  bool streams = false;  // what is written goes past the caches
  int threads = 1;
  int stretches = 1;    // see share() in threads.h
  // Of tiles: so many rows make a part of a band, of which `count` are in all, and so many of these a turn.
  Size rows = 0;
  Size together = 1;
};

Bands choose_bands(const Plan& plan, int threads);

// A tile is as wide as a line of the result, and at least so many columns (doubles: 0.93 of the time that
// they take in tiles of 8; floats in tiles of 32: 1.1). It is so many rows tall: two lines of 64-bit indices.
inline constexpr Size kTileColumns = 16;
inline constexpr Size kTileRows = 16;
constexpr Size tile_columns(Size width) { return std::max(kLine / width, kTileColumns); }

// Columns of indices that follow each other are looked at together, and a tile is as tall as they are, where it has
// up to so many places: columns of 5 to 128 rows take 0.45 to 0.95 of the time that they take one by one.
inline constexpr Size kJoinedPlaces = 2048;
inline bool columns_join(const Position& along, const Position& across, Size width) {
  return tile_columns(width) * along.size <= kJoinedPlaces && across.index == along.size * along.index;
}

// The bands of a gather that is made in tiles, which then has the dim along which indices follow each other
// innermost, and next the one along which the result does; count 0: it does not suit. See tiles.h.
Bands choose_tiles(Plan& plan, int threads);

// Whether a plan goes through so much that its indices and updates had better be asked for ahead.
bool leaves_caches(const Plan& plan);

// Whether every run of a simplified plan looks into a row of its own, which is worth asking for while the
// row before it is looked into.
bool next_row_is_wanted(const Plan& plan);

// Whether the runs of a simplified plan are so short that they had better be joined.
bool runs_are_short(const Plan& plan);

// At most so many positions make a short run. Joined, runs of 2 take 0.15 to 0.5 of the time, of 34 0.65 to
// 0.7, of 100 0.8 to 0.9 and of 200 0.95 to 1.0.
inline constexpr Size kShortRun = 128;

// Whether a simplified plan is so small that no rule has anything to choose but those of runs: one thread walks it.
// These are some positions, or one run of more of them that looks up near places by so many index values. Not to ask
// the others saves 30 to 50 ns (of the time: 4 by 4 0.67 to 0.85, 257 looks 0.9, 1000 0.95; 65 to 128 rows of 64
// bytes 0.88).
inline constexpr Size kFewPositions = 128;
inline constexpr Size kFewOfOneRun = 1024;
inline constexpr Size kFewBytes = Size{1} << 14;
inline bool is_small(const Plan& plan) {
  const bool few = plan.positions <= kFewPositions ||
                   (plan.position_rank == 1 && plan.positions * std::max(plan.column_count, 1) <= kFewOfOneRun &&
                    plan.reach() <= kNear);
  return few && plan.positions * plan.width <= kFewBytes && plan.slice_rank == 0 && plan.near_linear;
}

// How many bytes to pack before a gather, which then looks at these, and by how many threads both; 0: it looks
// where they are.
struct Packing {
  Size bytes = 0;
  int threads = 1;
};

Packing choose_packing(const Plan& plan, int threads);

// Into how many elements to split the slices of a simplified plan, 0: they stay whole; and how many of the innermost
// dim are left over, which are to be gathered by themselves.
struct SliceParts {
  Size part = 0;
  Size rest = 0;
};

SliceParts choose_slice_parts(const Plan& plan);

// Whether one slice with gaps had better follow the other, and not one element of all the other: in runs of
// so many elements, or twice as many in all (every second element in both arrays, floats, ns for each: runs
// of 4 1.1 and 0.8, of 8 0.7 and 0.8, of 20 0.6 and 1.1; 4 by 2 1.3 and 1.0, 4 by 4 0.7 and 1.0, 16 by 2 0.9
// and 1.6; bytes 4 by 4 0.7 and 0.8, 16 by 2 0.9 and 0.8).
inline constexpr Size kLongSlice = 8;

inline bool has_long_slices(const Plan& plan) {
  return plan.slice_rank > 0 && (plan.slice[plan.slice_rank - 1].size >= kLongSlice ||
                                 plan.slice_elements() >= 2 * kLongSlice);
}

// So many bytes are written at once; what goes past the caches begins at a multiple of them.
inline constexpr Size kPiece = 16;
#if defined(__SSE2__)
inline constexpr bool kCanStream = true;
#else
inline constexpr bool kCanStream = false;
#endif

// Whether a plan writes so much, and in such order, that it had better go past the caches.
bool writes_past_caches(const Plan& plan);

// How long a place of a simplified plan may take, of which is settled whether it streams; see Plan::patience.
double choose_patience(const Plan& plan);

// What some of the places of a plan have in common.
struct Sample {
  Size seen = 0;      // places looked at
  Size lines = 0;     // different cache lines among them
  Size together = 0;  // places whose follower is on the same line

  // Places that follow each other are fetched by the hardware.
  bool follows() const noexcept { return together > seen * 3 / 4; }
};

// How the work of a plan is cut up for threads.
struct Cut {
  int threads = 1;
  int stretches = 1;   // see share() in threads.h
  Size units = 1;      // pieces of positions
  Size per_unit = 0;   // positions in each but the last
  Size slice_parts = 1;  // pieces of every slice
  Size slice_part = 0;   // bytes in each but the last
};

Cut choose_cut(const Plan& plan, int threads);

// After how many positions a scatter looks whether it is to stop.
Size choose_stretch(const Plan& plan);

// Bytes of a map with a bit for every 1 << shift bytes of so many, up to a line.
constexpr Size marks_bytes(Size far_bytes, int shift) {
  return ((far_bytes >> shift) / 8 + kLine) / kLine * kLine;
}

// How a scatter is shared between threads such that every place is written by one of them.
struct Sharing {
  int threads = 1;
  int stretches = 1;      // see share() in threads.h
  Size parts = 1;         // for the threads; by place, of a round in which no place is repeated
  int position = -1;      // cut along this position dim, whose steps address places of their own
  bool by_place = false;  // or else: every update goes to the owner of its place
  Size round = 0;         // of so many positions, whose places are written down
  bool wide = false;      // in 64 bits
  Size marks = 0;         // bytes of each thread's map of places, which tells those that are repeated; 0: no maps
  int shift = 0;          // no two places begin in the same 1 << shift bytes
  Size slice_part = 0;    // or else: cut every slice into parts of these bytes
};

// It `assigns` where updates replace what is there; `look` takes the sample, where it matters.
Sharing choose_sharing(const Plan& plan, bool assigns, int threads, Sample (*look)(const Plan&) noexcept);

// Sharing by place: every owner looks at all places, which takes 0.13 ns for each: beyond so many owners
// that is most of what they do.
inline constexpr int kMostOwners = 16;

// An estimate of the time that a plan takes on one thread.
double nanoseconds(const Plan& plan);

}  // namespace ndgather
