// group.h - grouping points by chunk, for arrays that are stored in chunks, and looking them up in decoded chunks in memory.
//
// The loops that check indices multiply them by strides. If the stride of every axis is a power of two and exceeds the span
// of all later axes, the offset of a point contains its coordinates as bit fields:
//
//   data (10, 8) in chunks of (4, 4)    offset   r r r r c c c     strides 8 and 1: 4 bits for a row, 3 for a column
//   row 9, column 6                              1 0 0 1 1 1 0     chunk (9 / 4, 6 / 4) = (2, 1): number 2 * 2 + 1
//                                       place    r r c c           row 9 - 8, column 6 - 4
//                                                0 1 1 0
//
// Each offset is split into a chunk number and a place in the chunk, and the points are sorted stably by chunk. Memory grows
// with the number of points, but not with the size of the array.
#pragma once

#include <atomic>
#include <memory>

#include "loops.h"
#include "pool.h"

namespace ndgather {

// How one axis is divided into chunks.
struct GridAxis {
  Size size, chunks;
  Size step;         // length of every chunk except the last; 0: chunk c extends from cuts[c] to cuts[c + 1]
  const Size* cuts;  // ascending, from 0 to the size
  int bits, shift;             // bit field in an offset, for the coordinate
  int local_bits;              // width of the bit field in a place, for the coordinate within the chunk
  std::uint64_t local_stride;  // distance between places whose coordinate differs by 1
};

// The axes that points address. Chunks are numbered in C order; the number after the last one stands for out-of-bounds
// points.
struct PointGrid {
  int rank = 0, local_bits = 0;
  std::uint64_t chunks = 1;
  GridAxis axis[kMaxRank];

  // Computes the members that depend on the sizes and cuts. Returns false if the coordinates do not fit into an offset.
  bool complete();
  bool is_wide() const { return local_bits > 32; }  // whether a place has 8 bytes instead of 4
};

// Memory for sorting n points, and their chunk numbers in sorted order.
struct SortedPoints {
  explicit SortedPoints(Size points) noexcept : n(points), memory(n * 28 + 1) {}

  Size n, groups = 0;
  pool::Scratch memory;  // 28 bytes per point: two 8-byte keys, an 8-byte place and a 4-byte position
  std::uint64_t *keys = nullptr, *other_keys = nullptr;
};

// Sorts the n points of a plan from position `begin` on by chunk. Writes the place of each point, and its position relative
// to `begin`. Returns false if the mode does not handle an out-of-bounds index.
bool sort_points(const Plan& plan, const PointGrid& grid, Size begin, SortedPoints& sorted, char* places,
                 std::uint32_t* positions) noexcept;

// Writes the chunk number of each group of sorted points, and where the group begins.
void list_groups(const SortedPoints& sorted, Size* chunks, Size* starts) noexcept;

// A move of points between places in a chunk and positions in a dense array.
struct PointMove {
  struct Dim {
    Size size, stride;
    int bits;  // of its field in a place
  };
  Plan plan;      // the slice, the dims of the dense array as loop dims, and the written array as the indexed array
  Store store;
  bool to_dense;  // whether the store writes to the dense array
  bool is_wide;
  int chunk_rank = 0;
  Dim chunk[kMaxRank];

  // Moves n points; positions are relative to `base`. Returns false, perhaps after moving some, if a point is out of bounds.
  bool run(const char* places, const std::uint32_t* positions, Size n, Size base) const noexcept;
};

// The chunks of a stored array that are in memory. All have the strides of a whole chunk, even those that are cut off by the
// end of the array. The place of a point is therefore its offset in bytes, which depends only on its coordinates: with chunks
// of (4, 4) and 8 bytes an element, row 9 and column 6 are at ((9 - 8) * 4 + (6 - 4)) * 8 of chunk 5. Before a thread removes
// a chunk, it waits for the lookups of all other threads.
struct ChunkTable {
  struct Entry {
    std::atomic<const char*> bytes{nullptr};  // null if the chunk is missing
    std::atomic<std::uint64_t> last_use{0};
  };
  // What a lookup counts: points in missing chunks, chunks found, and missing chunks listed.
  struct Found {
    Size missing = 0, hits = 0, listed = 0;
  };

  Size element = 0, count = 1;  // bytes per element, and number of chunks
  PointGrid grid;
  std::unique_ptr<Entry[]> entries;
  std::atomic<std::uint64_t> hits{0};  // chunks that were found, counted once per call
  std::atomic<Size> users{0};  // threads that are looking up points
  std::atomic<bool> changing{false};

  // Returns false if there are too many chunks or elements, or not enough memory.
  bool set_up(int axes, const Size* shape, const Size* steps, Size bytes) noexcept;

  // Waits until no other thread is looking up points. Then sets the chunks from `first` up to `last`, or removes them if
  // `bytes` is null. Only one thread at a time may call this.
  void set(Size first, Size last, const char* bytes) noexcept;

  // Copies the elements at all positions of a plan, whose offsets contain all coordinates, to plan.dense. Lists up to `most`
  // missing chunks. Returns false if the mode does not handle an out-of-bounds index.
  bool look_up(const Plan& plan, Size* listed, Size most, Found& found) noexcept;
};

// Returns a larger number on each call.
std::uint64_t next_use() noexcept;

}  // namespace ndgather
