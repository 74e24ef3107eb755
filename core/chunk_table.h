// chunk_table.h - looking up points of a stored array in its decoded chunks in memory.
//
// All chunks have the strides of a whole chunk, even those that are cut off by the end of the array. The offset of a point in
// its chunk therefore depends only on its coordinates:
//
//   data (10, 8) in chunks of (4, 4), 8 bytes an element
//   row 9, column 6     chunk (9 / 4, 6 / 4) = (2, 1): number 2 * 2 + 1     offset ((9 - 8) * 4 + (6 - 4)) * 8
//
// Before a thread removes a chunk, it waits for the lookups of all other threads.
#pragma once

#include <atomic>
#include <memory>

#include "loops.h"

namespace ndgather {

struct ChunkTable {
  struct Axis {
    Size size, step;  // size of the axis and of its chunks
    int shift;  // position of the coordinate's bit field in an offset; see group.h
    std::uint64_t mask;  // mask for the coordinate
    Size number_stride, stride;  // stride of the chunk numbers, and stride within a chunk in bytes
  };
  struct Entry {
    std::atomic<const char*> bytes{nullptr};  // null if the chunk is missing
    std::atomic<std::uint64_t> last_use{0};
  };
  // What a lookup counts: points in missing chunks, chunks found, and missing chunks listed.
  struct Found {
    Size missing = 0, hits = 0, listed = 0;
  };

  int rank = 0;
  Size element = 0, count = 1;  // bytes per element, and number of chunks
  Axis axis[kMaxRank];
  std::unique_ptr<Entry[]> entries;
  std::atomic<std::uint64_t> hits{0};  // chunks that were found, counted once per call
  std::atomic<Size> users{0};  // threads that are looking up points
  std::atomic<bool> changing{false};

  // Returns false if there are too many chunks or elements, or not enough memory.
  bool set_up(int axes, const Size* shape, const Size* steps, Size bytes) noexcept;

  // Waits until no other thread is looking up points. Then sets the chunks from `first` up to `last`, or removes them if
  // `bytes` is null. Only one thread at a time may call this.
  void set(Size first, Size last, const char* bytes) noexcept;

  // Copies the elements at all positions of a plan to plan.dense. The plan's offsets contain all coordinates. Lists up to `most`
  // missing chunks. Returns false if the mode does not handle an out-of-bounds index.
  bool look_up(const Plan& plan, Size* listed, Size most, Found& found) noexcept;
};

// Returns a larger number on each call.
std::uint64_t next_use() noexcept;

}  // namespace ndgather
