// choose.cpp - the rules that choose a loop. Each threshold says what was measured.
#include "choose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "engine.h"
#include "threads.h"

namespace ndgather {
namespace {

// Waking a sleeping thread costs 5 to 50 microseconds, calling one that is awake less than one: below
// this, one thread is faster. Where calls follow each other closely one wakes a thread for the next
// (20,000 looks, call after call: 12.6 microseconds each and 7.8; one a millisecond: the same).
constexpr double kThreadsFrom = 60'000;       // nanoseconds of work
constexpr double kThreadsFromAwake = 12'000;
constexpr double kUnitFrom = 5'000;  // nanoseconds of work in one piece
static_assert(kUnitFrom <= kThreadsFromAwake);
// Work that can be cut anywhere gets so many pieces for each thread: one that is held up, as by another
// program on its processor, leaves the rest to the others (16M updates along the last axis with one of two
// processors busy: 39 to 55 ms in two pieces, 33 to 45 in 32).
constexpr Size kPiecesEach = 16;
// Between two pieces a call can be stopped: well within a second, whatever the estimate is worth.
constexpr double kUnitMost = 20'000'000;  // nanoseconds of work in one piece
constexpr Size kUnits = Size{1} << 18;    // at most: a check keeps what it found in each

bool worth_sharing(double work, int threads) {
  if (threads == 1 || work < kThreadsFromAwake) return false;
  return work >= kThreadsFrom || threads_at_hand();
}

Size pieces_wanted(double work, bool shared, int threads) {
  const Size pieces = shared ? std::min(static_cast<Size>(work / kUnitFrom), threads * kPiecesEach) : 1;
  return std::max(pieces, static_cast<Size>(std::min(work / kUnitMost, static_cast<double>(kUnits))));
}

// Bands pay where memory has to be waited for (two threads, 4000 x 1500 floats: 0.9 ns each looked up in
// place, 0.73 in bands; 3000 x 1200 0.75 and 0.72; 8000 x 256 0.48 and 0.67).
constexpr Size kBandsFrom = Size{1} << 24;
// Scatters wait more, as they bring lines and write them back (of the time in place, sets and adds: 1500 x 1000
// 0.86 and 0.87, 2000 x 1000 0.75 and 0.85, 3000 x 1200 0.74 and 0.82, 6000 x 500 0.9; but 6000 x 300 1.1 and 1.2).
constexpr Size kScatterBandsFrom = Size{15} << 19;
// In all data that do not stay near they pay where rows fight for the same cache sets (300 x 1024: 0.48 and
// 0.35, adds 1.2 and 0.59); and from 3.25 MiB on where a band of so few rows stays very near (in place and in
// bands, ms: 1000 x 600 0.68 and 0.85, adds 1.2 and 1.3; 1000 x 800 0.77 and 0.94, 1.9 and 1.8; 300 x 3000 0.9
// and 0.84, 2.4 and 1.6; 1000 x 1000 1.2 and 1.3, 3.0 and 2.1; 1000 x 2000 3.0 and 2.6, 7.8 and 4.4).
constexpr Size kSameSets = 4096;  // bytes from one row to the next, or a multiple
constexpr Size kFewRows = 1024;
constexpr Size kFewRowsFrom = Size{13} << 18;
// Up to this, threads work on pieces that lie apart: bands of that much data (1024 x 1024 floats: 0.99 ms
// side by side, 0.53 apart), and results of that size (1000 x 256 looks 113 and 99 microseconds, 8000 rows
// of 1 KiB 18 and 17 ns each; a check has none). In more, neighbours share what memory brings (4096 x 2048:
// 8.3 and 12.3 ms; 64,000 rows of 1 KiB 50 and 51 ns each).
constexpr Size kApart = Size{1} << 25;
// Shorter parts of the array that a scatter writes to would have threads write to the same lines.
constexpr Size kPartFrom = 8 * kLine;
// Parts of an inner dim are strips, which had better be wide (floats along the first axis, of the time in strips of
// 512 bytes: indices in order 0.5 to 0.75, in any order 0.57 to 1.0; of 8 KiB 0.5 to 0.85 and 0.65 to 1.0).
constexpr Size kStripFrom = Size{1} << 15;
// Sharing a scatter by place writes down all places, and each owner looks through them. With two threads
// floats take 0.55 to 0.75 of the time of one, down to two lines of them, and as long on one line. Rows
// take less where a look at some finds so many different ones (100 of 300 rows, 64 of 80), or so many bytes of
// them (on processors that share a cache, and on two that do not: 300 rows of 256 bytes 0.87 and 1.05, of 1 KiB
// 0.73 and 0.78; 80 rows of 2 KiB 0.72 and 0.79, of 1 KiB 0.92 and 1.03, of 544 bytes 0.94 and 1.4, of 256 bytes
// 1.0 and 1.4; 40 rows of 2 KiB 0.93 and 1.03, of 1 KiB 1.0 and 1.1, of 128 bytes 1.3 and 1.9).
// Of fewer than four for each thread one owner may well get most.
constexpr Size kRowsFrom = 96;
constexpr Size kRowBytesFrom = Size{1} << 16;
constexpr Size kRowsEach = 4;
// Where no place is repeated, or the last update of each is all that counts, threads had better take stretches of
// the updates, which they then read one after the other. To find that out costs 2 ns for each (of the time by place,
// no place repeated, in data of 2 MiB to 256 MiB: rows of 256 bytes 0.72 to 0.93, sums 0.83 to 1.2; of 512 bytes to
// 4 KiB 0.66 to 1.0, sums 0.65 to 1.0; in 1 MiB 0.9 to 1.3. Every place four times, rows of 512 bytes: 0.4 to 0.6).
constexpr Size kMarkedSumRow = 256;
constexpr Size kMarkedSumsFrom = Size{1} << 21;
// Where rows are assigned, shorter ones and those of smaller data gain too (of 192 and 224 bytes in 1.6 to 30 MB 0.5
// to 1.2, mostly 0.85, as many updates as rows 0.66 to 1.1; of 128 bytes 0.8 to 1.0, and 0.8 to 1.9; of 256 bytes to
// 4 KiB in 1.5 MiB 0.82 to 1.0, two updates for each row 0.43 to 0.72; in 1 MiB 1.0 to 1.07, and 0.5 to 0.66). Sums of
// such rows took 0.65 to 0.95, but in some spells 1.5 to 2.5: they read what the other processor has just written.
constexpr Size kMarkedRow = 192;
constexpr Size kMarkedFrom = Size{3} << 19;
// Rows from a line on do so where kApart of them and more are written (of 64 and 128 bytes, 32 MiB and more: 0.67 to
// 0.86, 16 MiB 0.9 to 1.6; of 32 bytes 0.93 to 1.0): most of their lines they share with neighbours, which other
// threads then write to, and which have to leave the caches before that.

// The maps of all threads have to be cleared, and joined: so many bytes for each update at most.
constexpr Size kMarkBytesEach = 8;
// Few long rows are cut up. Parts of 8 KiB take 0.55 of the time of one thread on one processor, and 0.8 to
// 1.0 on another; parts of 2 and 4 KiB 0.7 to 0.9 on the first, and 1.0 to 1.3 on the second, on which such
// rows take 0.65 to 0.85 shared by place.
constexpr Size kSlicePartFrom = Size{1} << 13;
// What a call may take for its places, beside its arrays: two million of 32 bits, or fewer and up to half of it for
// maps of them.
constexpr Size kScratch = Size{1} << 23;
// What is written past the caches need not be read first, and results of this size leave them anyway. Two
// threads, 64 MiB of results out of 256 MB and of 8 MB: rows of 16 KiB take 0.79 and 0.66 of the time, of 4 KiB
// 0.87 and 0.65, of 2 KiB 0.94 to 1.15 and 0.61, of 1 KiB 1.0 to 1.25 and 0.57, of 512 bytes 1.15 and 0.63, of
// 256 bytes 1.26 and 0.6 to 1.2, shorter ones 0.9 to 1.2. Updates of 1 KiB and more 0.7 to 0.9, of 512 bytes 1.2.
// Elements of up to 8 bytes 0.85 to 1.0; of any size along the last axis, row after row, 0.7 to 0.9.
constexpr Size kStreamedFrom = Size{1} << 25;
constexpr Size kStreamedRow = Size{1} << 12;
constexpr Size kStreamedNearRow = Size{1} << 9;
constexpr Size kStreamedUpdate = Size{1} << 10;
constexpr Size kStreamedElement = 8;
// AMD's family 1Ah writes a whole line at once. Rows out of memory of 512 to 2000 bytes take 0.8 to 0.93 of
// the time, of 480 bytes 0.98, of 256 bytes 1.04; out of 8 MB of 160 to 480 bytes 0.55 to 0.66, of 132 bytes
// 1.15; updates of 512 to 960 bytes 0.65 to 0.83, of 256 bytes 1.2.
constexpr Size kLinedRow = Size{1} << 9;
constexpr Size kLinedNearRow = 160;
constexpr Size kLinedUpdate = Size{1} << 9;
// It does so where what is written and what is read are this much together (results of 17 to 31 MB out of
// 12 MB and more: rows 0.42 to 0.9, rows of 256 bytes 1.0, elements 0.7 to 1.0, updates of 2 KiB 0.6 to 0.75;
// 48 of 64 frames of 389 KB, which are 32 MB, 1.3; results of 16 to 24 MB out of 4 MB 0.8 to 2.1; but copies of
// 22 to 30 MB to which a million updates are added 1.1 to 1.17).
constexpr Size kLinedFrom = Size{31} << 20;
// Bands leave less room in the caches: gathers of 8 MB (2000 x 1024 floats) to 32 MB take 0.6 to 0.85 of the time,
// of 4 MB 0.97; scatters of 4 to 32 MB 0.9 to 1.05, of 64 MB 0.85.
constexpr Size kStreamedBands = Size{1} << 23;
// A band's packed copy may exceed the second-level cache, as memory brings wide rows faster than narrow
// ones (256 bytes and 128 of each of 4096 rows, 16M adds: 23 to 27 ms and 31 to 33), but not by much
// (8640 rows looked up in place 1.9 ns each, with 2.2 MB packed 1.7; adds 2.4 and 2.9).
constexpr Size kBandBuffer = Size{1} << 21;

// Tiles pay from so many elements on (indices in Fortran order, floats in Fortran and in C order, of the time
// without tiles: 8 by 8 1.03 and 1.06, 8 by 40 0.83, 8 by 1000 0.98 and 0.66, 32 x 32 0.77 and 0.6, 200 x 200 0.9,
// 1000 x 1000 0.9 and 0.85, 4096 x 4096 0.45 and 0.24), and where the columns of indices that follow each other are
// of so many rows (100,000 of 2 1.43 and 1.3, of 3 0.96 and 1.02, of 4 0.9, of 5 0.73, of 7 0.55, of 8 0.5), others
// at least a line.
constexpr Size kTilesFrom = Size{1} << 8;
constexpr Size kTileRowsFrom = 4;

// Slices with gaps that are looked at so often are packed first (1500 looks at every second of 48 floats of 2000
// rows 18 us, packed 27; 2600 27 and 32; 16,000 160 and 94. In Fortran order 1500 looks 33 and 33, 2600 48 and
// 41, 16,000 looks at 200 floats 1.6 ms and 0.5; 20,000 of 20,000 rows of 40 485 us and 300).
constexpr double kLooksToPack = 1;
// What some threads have packed the others have to fetch from their caches, call after call. That pays from
// so much work on (on processors that share a cache, and on two that do not: where 0.8 MB are packed and looked
// up two threads take 0.75 to 0.8 and 1.8 to 2.4 of the time of one, with 1.5 MB 0.65 to 0.8 and 1.6 to 1.7,
// with 3 MB 0.6 and 0.6 to 1.5, with 6 MB 0.5 and 0.6 to 1.1).
constexpr double kHandedOver = 620'000;  // nanoseconds as estimated, which is some times as long as it takes
// With less work one thread packs and looks, where all could look at the slices as they are (two threads, of the
// time of one that packs: as many looks as slices 0.5 at every second of 48 or 62 floats, 0.8 to 1.0 in Fortran
// order; half as many again 0.7 and 1.1, 2 times as many 0.8 and 1.4, 4 times 1.1 and 1.7).
constexpr double kLooksToPackAlone = 2;
// So many slices are worth splitting: fewer find hardly a line that others have used (16 slices of 2000
// elements a line or more apart in both arrays 3.5 ns for each element, whole 2.0; 64 0.9 and 1.2; 256 0.8 and
// 1.5). Parts that fill a line of the other array always pay (0.25 to 24 MB: 0.3 to 1.9 ns, whole 0.5 to 4.3);
// shorter ones, of half a line or 16 elements, where data do not stay near (of the time whole, slices of 9 to 15
// floats or 5 to 7 doubles: 100 to 150 KB 0.8 to 1.4, 260 KB to 4 MB 0.4 to 1.0, 6 to 24 MB 0.5 to 1.0). Where no
// such part divides them, lines are gathered, and the rest by itself (290 to 450 KB 0.6 to 0.9, 0.8 to 25 MB 0.4 to
// 0.7, of bytes 0.65 to 1.0); for a scatter parts of kFewOfLine do.
constexpr Size kLooksToSplit = 64;
constexpr Size kSplitFrom = Size{1} << 18;
constexpr Size kFewOfLine = 4;
constexpr Size kManyOfLine = 16;
// A walk from one slice to its neighbour finds so many lines still there.
constexpr Size kStaysNear = kNear / 4 / kLine;
// Looks into one column after the other stay near as long as its lines do, together with those of the other
// arrays. Floats in C order by indices in Fortran order, walked by columns and by rows: 500 x 8000 11.4 and
// 44 ms, 1000 x 4000 12 and 55, 2000 x 2000 24 and 33, 4000 x 1000 30 and 34, sets 36 and 23, 16,000 x 250
// 21 and 20, sets 41 and 33.
constexpr Size kNearColumn = Size{1} << 17;

// Asking for a place ahead costs 0.3 ns where a cache answers, and saves up to 2 ns where memory does.
// Which it is cannot be told by sizes, but by time: elements of data of 2 MB, 8 MB and 64 MB take 0.6, 0.8
// and 5 ns, of 8 MB that have left the caches 3.5, the same 31,000 of 64 MB again and again 2.2; rows of
// 1 KiB 24 ns out of a cache, 50 to 80 out of memory.
constexpr double kPatience = 2.6;  // nanoseconds
constexpr double kPatientSpeed = 36;  // and bytes per nanosecond

// Indices and updates are asked for ahead where a call goes through more than this (of the time with asking, call after
// call: 4 to 128 looks 0.82, up to 6 MB 0.86 to 0.97, 8 to 14 MB 0.92 to 1.0, 16 MB 1.0 to 1.05, 20 MB and more 1.1 to
// 1.75; of indices that come from memory: up to 3 MB 0.95 to 1.1, 6 MB 1.0 to 1.13, 12 MB 1.0 to 1.2).
constexpr double kAskedAhead = Size{6} << 20;

// Or what comes after it: compilers do not know it by name as yet.
bool is_family_1ah() {
#ifdef NDGATHER_X86_64
  return __builtin_cpu_supports("x86-64-v4") && !__builtin_cpu_is("intel") && !__builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

// Places of fewer bytes are not asked for: the processor looks as far ahead by itself.
struct AsksFrom {
  Size looks;   // of a gather that looks anywhere in more than kNear, and writes through the caches
  Size others;
};

// Of the time with asking, on two threads. AMD's family 19h, with AVX-512 and without: elements in any order 0.87,
// in order 0.85, slices of 16 floats 0.64 to 1.0, adds 0.84; but rows of 80 bytes 1.13. Intel's model 106: elements
// 0.8 to 0.93, slices of 32 bytes to 2 KiB 0.75 to 0.95; but along an axis 1.07 to 1.11, past the caches 1.05 to
// 1.3, adds 1.1, of 8 bytes 1.6, sets of 128 bytes to 2 KiB 1.15 to 1.4 (of 32 and 64 bytes 0.8 to 0.93). AMD's
// family 1Ah gains by all of it. What has AVX2 alone, and is not Intel's, is taken for family 19h.
AsksFrom asks_from() {
#ifdef NDGATHER_X86_64
  if (__builtin_cpu_is("intel")) return {std::numeric_limits<Size>::max(), 1};
  if (!is_family_1ah()) return {kLine + 1, kLine + 1};
#endif
  return {1, 1};
}

// Rows and updates of fewer bytes are written through the caches.
struct StreamedFrom {
  Size row;
  Size near_row;  // of data of up to half of kStreamedFrom
  Size update;
};

StreamedFrom streamed_from() {
  if (is_family_1ah()) return {kLinedRow, kLinedNearRow, kLinedUpdate};
  return {kStreamedRow, kStreamedNearRow, kStreamedUpdate};
}

// How many slices there are to be looked at.
Size different_slices(const Plan& plan) {
  Size slices = 1;
  for (int c = 0; c < plan.column_count; ++c) slices *= plan.column[c].extent;
  for (int d = 0; d < plan.position_rank; ++d) {
    if (plan.position[d].far != 0) slices *= plan.position[d].size;
  }
  return slices;
}

// Whether neighbouring positions, or neighbouring places of a column, may be on one line.
bool lines_are_shared(const Plan& plan) {
  bool shared = std::abs(plan.position[plan.position_rank - 1].near) < kLine;
  for (int c = 0; c < plan.column_count; ++c) shared |= std::abs(plan.column[c].stride) < kLine;
  return shared;
}

int choose_stretches(const Plan& plan, int threads) {
  return plan.positions * plan.width * plan.slice_elements() < kApart ? threads : 1;
}

// Whether places may have to be waited for, going by sizes alone.
bool places_are_far(const Plan& plan) {
  const Size reach = plan.reach();
  if (reach > kNear) return true;
  // A near region that is left for the next one before most of its lines have been used.
  Size looks = 1, span = reach;
  bool inner = true;
  const auto outwards = [&](Size size, Size far) {
    inner &= far == 0;
    if (inner) looks *= size;
    span += size * std::abs(far);
  };
  if (plan.run > 0) outwards(plan.run, plan.run_far);
  for (int d = plan.position_rank - 1; d >= 0; --d) outwards(plan.steps(d).size, plan.steps(d).far);
  return reach > 0 && span > kNear && looks < reach / kLine;
}

// An estimate of the time of one slice, by the bytes that are copied in a nanosecond.
constexpr double kSpeed = 16, kSpeedWithGaps = 2;

// What is small is worth no other thread and no other order; see choose_order.
constexpr double kOfFewBytes = static_cast<double>(kFewBytes) / kSpeed;
static_assert(kFewPositions * (1 + 0.5 * kMaxRank + 4) + kOfFewBytes < kThreadsFromAwake);
static_assert(kFewOfOneRun * (1 + 0.5) + kOfFewBytes < kThreadsFromAwake);
static_assert(kFewPositions <= kShortRun);

double nanoseconds_each(const Plan& plan, double speed) {
  const double bytes = static_cast<double>(plan.width) * static_cast<double>(plan.slice_elements());
  const double miss = places_are_far(plan) ? 4 : 0;
  return 1 + 0.5 * plan.column_count + miss + bytes / speed;
}

}  // namespace

bool choose_order(Plan& plan) {
  if (!plan.any_order || plan.position_rank < 2 || plan.column_count == 0) return false;
  if (plan.positions <= kShortRun) return false;
  const Column& column = plan.column[0];
  const Size lines = column.extent * std::min(std::abs(column.stride), kLine) * plan.slice_elements();
  // Of two steps the longer one belongs outside; 0: both leave the line, or one stays where it is.
  const auto vote = [](Size outer, Size inner) {
    outer = std::abs(outer);
    inner = std::abs(inner);
    if (outer == 0 || inner == 0 || std::min(outer, inner) >= kLine) return 0;
    return (outer > inner) - (outer < inner);
  };
  // Looks into one column after the other stay near, wherever its elements lie.
  const auto vote_of_far = [&](const Position& outer, const Position& inner) {
    const bool along = inner.far == 0;
    if (along == (outer.far == 0)) return vote(outer.far, inner.far);
    if (lines <= kNearColumn) return along ? 1 : -1;
    return along ? vote(outer.far, column.stride) : vote(column.stride, inner.far);
  };
  const auto swapped = [&](const Position& outer, const Position& inner) {
    const int votes = vote(outer.index, inner.index) + vote_of_far(outer, inner) +
                      vote(outer.near, inner.near);
    // A short run costs more than a stride, unless all arrays follow it.
    return outer.size > kShortRun ? votes < 0 : votes == -3;
  };
  bool changed = false;
  for (int d = 1; d < plan.position_rank; ++d) {
    for (int e = d; e > 0 && swapped(plan.position[e - 1], plan.position[e]); --e) {
      std::swap(plan.position[e - 1], plan.position[e]);
      changed = true;
    }
  }
  return changed;
}

Bands choose_bands(const Plan& plan, int threads) {
  if (plan.column_count != 1 || plan.slice_rank != 0 || plan.position_rank < 2) return {};
  const Size width = plan.width;
  if (!is_of_machine_width(width)) return {};
  const Position& inner = plan.position[plan.position_rank - 1];
  const Position& outer = plan.position[plan.position_rank - 2];
  constexpr Size kIndexBytes[] = {1, 2, 4, 8, 1, 2, 4, 8};
  if (inner.near != width || inner.index != kIndexBytes[static_cast<int>(plan.index_type)]) {
    return {};
  }
  Bands bands;
  bands.across = inner.far != 0;
  const Position& along = bands.across ? outer : inner;
  const Position& across = bands.across ? inner : outer;
  if (along.far != 0 || across.far != width) return {};
  const Size extent = plan.column[0].extent;
  // Packing reads every row once: it pays when the rows are looked up about as often.
  if (extent * kBandBytes > kBandBuffer || along.size < extent / 2) return {};
  const bool same_sets = plan.column[0].stride % kSameSets == 0;
  const Size many_rows_from = plan.scatters ? kScatterBandsFrom : kBandsFrom;
  const Size least = same_sets ? kNear : extent <= kFewRows ? kFewRowsFrom : many_rows_from;
  if (extent * across.size * width < least) return {};
  const bool shared = worth_sharing(nanoseconds(plan), threads);
  Size planes = 1;
  for (int d = 0; d + 2 < plan.position_rank; ++d) planes *= plan.position[d].size;
  bands.written = (plan.scatters ? extent : along.size) * across.size * planes * width;
  bands.streams = kCanStream && bands.written >= (plan.scatters ? kStreamedFrom : kStreamedBands);
  // Bands of what goes past the caches begin and end with lines.
  Size grain = 1;
  if (bands.streams && (plan.scatters || bands.across)) {
    bands.lead = bytes_after(plan.scatters ? plan.far : plan.near, kLine) / width;
    grain = kLine / width;
  }
  const Size columns = across.size + bands.lead;
  bands.per_plane = (columns * width + kBandBytes - 1) / kBandBytes;
  // A few bands are made equal, as far as lines allow, and as many for every thread.
  if (shared && bands.per_plane < 4 * threads) {
    bands.per_plane = (bands.per_plane + threads - 1) / threads * threads;
  }
  bands.columns = ((columns + bands.per_plane - 1) / bands.per_plane + grain - 1) / grain * grain;
  bands.per_plane = (columns + bands.columns - 1) / bands.columns;
  bands.count = bands.per_plane * planes;
  while (Size{1} << bands.shift < bands.columns * width) ++bands.shift;
  bands.buffer = extent << bands.shift;
  if (shared) bands.threads = static_cast<int>(std::min<Size>(threads, bands.count));
  if (extent * across.size * width < kApart) bands.stretches = bands.threads;
  return bands;
}

Bands choose_tiles(Plan& plan, int threads) {
  const Size width = plan.width;
  if (plan.slice_rank != 0 || plan.run > 0 || plan.positions < kTilesFrom) return {};
  if (!is_of_machine_width(width)) return {};
  int a = -1, c = -1;  // the dims along the indices and across them
  for (int d = 0; d < plan.position_rank; ++d) {
    const Position& dim = plan.position[d];
    if (dim.index != 0 && std::abs(dim.index) < kLine && std::abs(dim.near) >= kLine) a = d;
    // Where all columns look into the same row of data they had better do so one after the other.
    if (dim.near == width && dim.far != 0) c = d;
  }
  if (a < 0 || c < 0) return {};
  const Position along = plan.position[a], across = plan.position[c];
  const bool joined = columns_join(along, across, width);
  if (joined ? along.size < kTileRowsFrom : std::abs(across.index) < kLine) return {};
  Bands tiles;
  tiles.columns = tile_columns(width);
  tiles.per_plane = (across.size + tiles.columns - 1) / tiles.columns;
  const Size bands = plan.positions / (along.size * across.size) * tiles.per_plane;
  const double work = nanoseconds(plan);
  const bool shared = worth_sharing(work, threads);
  const Size wanted = pieces_wanted(work, shared, threads);
  const Size parts = (wanted + bands - 1) / bands;
  tiles.rows = ((along.size + parts - 1) / parts + kTileRows - 1) / kTileRows * kTileRows;
  if (joined) tiles.rows = along.size;
  tiles.count = bands * ((along.size + tiles.rows - 1) / tiles.rows);
  tiles.together = std::max<Size>(tiles.count / wanted, 1);
  if (shared) tiles.threads = threads;
  tiles.stretches = choose_stretches(plan, tiles.threads);
  Position* const end = plan.position + plan.position_rank;
  std::rotate(plan.position + a, plan.position + a + 1, end);
  c -= c > a;
  std::rotate(plan.position + c, plan.position + c + 1, end - 1);
  plan.near_linear = false;
  return tiles;
}

bool leaves_caches(const Plan& plan) {
  const auto bytes = static_cast<double>(plan.index_span().bytes() + plan.near_span().bytes());
  const double looked_at = static_cast<double>(plan.positions) * static_cast<double>(std::max(plan.width, kLine));
  return bytes + std::min(looked_at, static_cast<double>(plan.far_span().bytes())) > kAskedAhead;
}

bool next_row_is_wanted(const Plan& plan) {
  const int rank = plan.position_rank;
  if (rank < 2 || plan.run > 0 || plan.column_count != 1 || plan.position[rank - 1].far != 0) {
    return false;
  }
  // Rows that come from memory, stay in a near cache, and are read in most lines.
  const Position& rows = plan.position[rank - 2];
  const Size bytes = plan.reach();
  return plan.column[0].stride > 0 && bytes >= 4 * kLine && bytes <= kNear / 4 &&
         plan.position[rank - 1].size >= bytes / kLine && rows.far * rows.size > kNear;
}

bool runs_are_short(const Plan& plan) {
  return plan.slice_rank == 0 && plan.width <= 16 && runs_join(plan) && !plan.asks_for_rows &&
         plan.position[plan.position_rank - 1].size <= kShortRun;
}

Packing choose_packing(const Plan& plan, int threads) {
  if (plan.slice_rank == 0) return {};
  const Size slices = different_slices(plan);
  const Size bytes = slices * plan.slice_elements() * plan.width;
  const double packing = static_cast<double>(slices) * nanoseconds_each(plan, kSpeedWithGaps);
  const double looks = static_cast<double>(plan.positions) * nanoseconds_each(plan, kSpeed);
  const bool alone = packing + looks < kHandedOver;
  const bool shared = alone && worth_sharing(nanoseconds(plan), threads);
  const double often = shared ? kLooksToPackAlone : kLooksToPack;
  if (bytes > kScratch || static_cast<double>(plan.positions) < often * static_cast<double>(slices)) return {};
  return {bytes, alone ? 1 : threads};
}

SliceParts choose_slice_parts(const Plan& plan) {
  if (plan.slice_rank == 0 || plan.position_rank + plan.slice_rank > kMaxRank ||
      plan.positions < kLooksToSplit) {
    return {};
  }
  // Elements a line or more apart: every one of a slice is on a line of its own, which the next slices want
  // as well.
  const auto apart = [&](Size Slice::* stride) {
    for (int d = 0; d < plan.slice_rank; ++d) {
      if (std::abs(plan.slice[d].*stride) < kLine) return false;
    }
    return true;
  };
  if (!apart(&Slice::far)) return {};
  if (apart(&Slice::near)) return {lines_are_shared(plan) ? 1 : 0, 0};
  const Slice& dim = plan.slice[plan.slice_rank - 1];
  if (dim.near != plan.width) return {};
  const Size next = std::abs(plan.position[plan.position_rank - 1].far);
  if (next > 0 && next < kLine && plan.slice_elements() <= kStaysNear) return {};
  // So few of them that they stay near fill a line of the other array, or most of one.
  const Size line = std::min(kLine / plan.width, dim.size);
  if (line < 2) return {};
  Size part = line;
  if (dim.size % line != 0) {
    const Size bytes = different_slices(plan) * plan.slice_elements() * plan.width;
    if (bytes < kSplitFrom) return {};
    while (dim.size % part != 0) --part;
    const Size most_of_line = std::max(kFewOfLine, std::min(line / 2, kManyOfLine));
    if (part < most_of_line && !plan.scatters) return {line, dim.size % line};
    if (part < kFewOfLine) return {};
  }
  if (part == plan.slice_elements()) return {};
  return {part, 0};
}

double choose_patience(const Plan& plan) {
  const bool looks = !plan.scatters && !plan.streams && plan.reach() > kNear;
  const AsksFrom from = asks_from();
  if (plan.width < (looks ? from.looks : from.others) || !places_are_far(plan)) return kEndless;
  return kPatience + static_cast<double>(plan.width) / kPatientSpeed;
}

bool writes_past_caches(const Plan& plan) {
  if (!kCanStream || plan.slice_rank > 0) return false;
  const double written = static_cast<double>(plan.positions) * static_cast<double>(plan.width);
  if (written < kStreamedFrom / 2) return false;
  const bool rows = !plan.scatters && plan.width > kPiece;
  const auto data = static_cast<double>(plan.far_span().bytes() + plan.width);
  const bool copies = plan.column_count == 0;  // as a scatter wants, which then works on what the caches have of it
  if (is_family_1ah() && !copies) {
    // Rows are drawn again and again: so much of the data is read if any is as likely as the others.
    const double read = rows ? data * -std::expm1(-written / data) : written;
    if (written + read < kLinedFrom) return false;
  } else if (written < kStreamedFrom) {
    return false;
  }
  const StreamedFrom from = streamed_from();
  if (plan.scatters) return plan.width >= from.update;
  if (rows) return plan.width >= (data <= kStreamedFrom / 2 ? from.near_row : from.row);
  if (plan.width > kStreamedElement && !plan.asks_for_rows) return false;
  // Blocks fill whole pieces, also where each of them ends with its run.
  const Position& inner = plan.position[plan.position_rank - 1];
  return plan.near_linear && inner.near == plan.width &&
         (!plan.asks_for_rows || inner.size * plan.width % kPiece == 0);
}

double nanoseconds(const Plan& plan) {
  return static_cast<double>(plan.positions) *
         nanoseconds_each(plan, plan.slice_rank > 0 ? kSpeedWithGaps : kSpeed);
}

Cut choose_cut(const Plan& plan, int threads) {
  Cut cut;
  cut.per_unit = plan.positions;
  cut.slice_part = plan.width;
  const double work = nanoseconds(plan);
  const bool shared = worth_sharing(work, threads);
  const Size wanted = pieces_wanted(work, shared, threads);
  if (wanted <= 1) return cut;
  if (plan.positions < wanted && plan.slice_rank == 0 && plan.width > 0) {
    // Pieces of a slice hold whole elements and whole cache lines.
    const Size grain = plan.element * kLine;
    const Size parts = std::min((wanted + plan.positions - 1) / plan.positions,
                                (plan.width + grain - 1) / grain);
    const Size part = (plan.width / parts + grain) / grain * grain;
    cut.slice_part = std::min(part, plan.width);
    cut.slice_parts = (plan.width + cut.slice_part - 1) / cut.slice_part;
  }
  cut.units = std::min(wanted, plan.positions);
  cut.per_unit = (plan.positions + cut.units - 1) / cut.units;
  // Elements are written past the caches some at a time, which begin where so many bytes do.
  if (plan.streams && plan.width <= kPiece) cut.per_unit = (cut.per_unit + kPiece - 1) / kPiece * kPiece;
  cut.units = (plan.positions + cut.per_unit - 1) / cut.per_unit;
  if (shared) cut.threads = static_cast<int>(std::min<Size>(threads, cut.units * cut.slice_parts));
  cut.stretches = choose_stretches(plan, cut.threads);
  return cut;
}

Size choose_stretch(const Plan& plan) {
  const double stretches = std::max(nanoseconds(plan) / kUnitMost, 1.0);
  return std::max<Size>(static_cast<Size>(static_cast<double>(plan.positions) / stretches), 1);
}

Sharing choose_sharing(const Plan& plan, bool assigns, int threads, Sample (*look)(const Plan&) noexcept) {
  Sharing sharing;
  if (!worth_sharing(nanoseconds(plan), threads)) return sharing;
  sharing.threads = threads;
  for (int d = 0; d < plan.position_rank; ++d) {
    const Position dim = plan.steps(d);
    const Size most = std::min(dim.size, std::abs(dim.far) * dim.size / kPartFrom);
    if (most < threads) continue;
    sharing.position = d;
    const Size each = std::max<Size>(std::abs(dim.far) * dim.size / kStripFrom / threads, 1);
    const Size strips = d == 0 ? most : each * threads;
    sharing.parts = std::clamp<Size>(static_cast<Size>(nanoseconds(plan) / kUnitFrom), threads,
                                     std::min({most, strips, threads * kPiecesEach}));
    sharing.stretches = choose_stretches(plan, threads);
    return sharing;
  }
  const Size row = plan.width * plan.slice_elements();
  const Size parts = plan.slice_rank == 0 ? std::min<Size>(row / kSlicePartFrom, threads) : 1;
  const Size rows = row < kLine ? kRowsFrom : look(plan).lines;
  const bool wide = rows * row >= kRowBytesFrom && rows >= kRowsEach * threads;
  if (rows >= kRowsFrom || (wide && parts < threads)) {
    sharing.by_place = true;
    sharing.threads = std::min(threads, kMostOwners);
    constexpr Size kNarrow = Size{UINT32_MAX};
    const Size far_bytes = plan.far_span().bytes() + 2 * kLine;  // from a line on, and up to one behind
    sharing.wide = far_bytes >= kNarrow || plan.near_span().bytes() >= kNarrow;
    const bool marked = (plan.width >= (assigns ? kMarkedRow : kMarkedSumRow) &&
                         plan.reach() >= (assigns ? kMarkedFrom : kMarkedSumsFrom)) ||
                        (plan.width >= kLine && plan.positions * plan.width >= kApart);
    if (plan.slice_rank == 0 && marked) {
      sharing.shift = std::bit_width(static_cast<std::size_t>(plan.width)) - 1;
      const Size marks = marks_bytes(far_bytes, sharing.shift);
      const Size all = marks * sharing.threads;
      if (all <= std::min(plan.positions * kMarkBytesEach, kScratch / 2)) sharing.marks = marks;
    }
    const Size notes = kScratch - sharing.marks * sharing.threads;
    sharing.round = std::min(plan.positions, notes / Places::width(sharing.wide));
    sharing.parts = sharing.threads * kPiecesEach;
    sharing.stretches = choose_stretches(plan, sharing.threads);
    return sharing;
  }
  if (parts > 1) {
    const Size grain = plan.element * kLine;
    sharing.slice_part = ((plan.width + parts - 1) / parts + grain - 1) / grain * grain;
    sharing.parts = (plan.width + sharing.slice_part - 1) / sharing.slice_part;
    sharing.threads = sharing.stretches = static_cast<int>(sharing.parts);
    return sharing;
  }
  return {};
}

}  // namespace ndgather
