// chunk_table.h - the decoded chunks of a stored array that are in memory, and points looked up in them.
//
// All chunks have the strides of a whole one, also those that the end of the array cuts, so that the offset of a point
// in its chunk follows from its coordinates alone:
//
//   data (10, 8) in chunks of (4, 4), 8 bytes an element
//   row 9, column 6     chunk (9 / 4, 6 / 4) = (2, 1): number 2 * 2 + 1     offset ((9 - 8) * 4 + (6 - 4)) * 8
//
// A chunk may be taken away while other threads look up points: whoever does so waits until they are done.
#pragma once

#include <atomic>
#include <memory>

#include "loops.h"

namespace ndgather {

struct ChunkTable {
  struct Axis {
    Size size, step;             // of the axis, and of its chunks
    int shift;                   // of a coordinate in an offset that holds them all; see group.h
    std::uint64_t mask;          // of a coordinate
    Size number_stride, stride;  // of the numbers of chunks; in bytes, in a chunk
  };
  struct Entry {
    std::atomic<const char*> bytes{nullptr};  // null: the chunk is not there
    std::atomic<std::uint64_t> last_use{0};
  };
  // What looking up points has found: points whose chunk is not there, chunks that are, and chunks that were listed.
  struct Found {
    Size missing = 0, hits = 0, listed = 0;
  };

  int rank = 0;
  Size element = 0, count = 1;  // bytes of an element; chunks
  Axis axis[kMaxRank];
  std::unique_ptr<Entry[]> entries;
  std::atomic<std::uint64_t> hits{0};  // chunks that were found, each counted once a call
  std::atomic<Size> users{0};          // threads that look up points
  std::atomic<bool> changing{false};

  // False: there are too many chunks or places, or there is no memory.
  bool set_up(int axes, const Size* shape, const Size* steps, Size bytes) noexcept;

  // Puts a chunk there, or takes it away where `bytes` is null, from `first` to before `last`, when no other thread looks
  // up points. One thread at a time.
  void set(Size first, Size last, const char* bytes) noexcept;

  // Copies the elements at all positions of a plan, whose offsets hold all coordinates, to plan.dense. Lists up to `most`
  // of the chunks that are not there. False: an index is outside its axis, and the mode has no answer to that.
  bool look_up(const Plan& plan, Size* listed, Size most, Found& found) noexcept;
};

// A number that is larger than all before it.
std::uint64_t next_use() noexcept;

}  // namespace ndgather
