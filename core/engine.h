// engine.h - carrying out a plan. One engine per instruction set, all from the same source.
#pragma once

#include "choose.h"
#include "plan.h"
#include "store.h"

namespace ndgather {

// What a look at the index values found.
struct Outside {
  Size count = 0;           // entries out of bounds
  Size entry = 0;           // the first of them, counted over positions and columns in C order
  std::uint64_t value = 0;  // its 64 bits
};

// The checked places of the positions [begin, end), written down: as their distance from the lowest,
// in 32 bits where all distances fit.
struct Places {
  void* memory;  // of (end - begin) * width(wide) bytes, on a line
  Size begin, end;
  Size lowest_far, lowest_near;
  bool wide;
  int owners;
  Size first[kMostOwners]{};  // of the places of each owner; the last has all that follow

  static constexpr Size width(bool wide) noexcept { return wide ? 8 : 4; }
};

// For each stretch of positions a map of all places, with a bit for every one that is noted there.
struct Marks {
  std::uint64_t* words;  // all zeros at first
  Size each;             // of one map
  int shift;             // no two places begin in the same 1 << shift bytes
  int stretches;

  std::uint64_t* map(Size stretch) const noexcept { return words + stretch * each; }
};

struct Engine {
  // Gathers the positions [begin, end) of a simplified plan. False: an index value was out of
  // bounds; nothing outside of the far array was read, and the near array is partly written.
  bool (*gather)(const Plan& plan, Size begin, Size end) noexcept;

  // The same for the bands [begin, end), with a buffer of bands.buffer bytes.
  bool (*gather_bands)(const Plan& plan, const Bands& bands, Size begin, Size end,
                       char* buffer) noexcept;

  // The same for bands that are looked up in tiles.
  bool (*gather_tiles)(const Plan& plan, const Bands& bands, Size begin, Size end) noexcept;

  // Applies the updates at the positions [begin, end) of a simplified plan, in C order of indices.
  // False: an index value was out of bounds, and the far array is partly written.
  bool (*scatter)(const Plan& plan, Store store, Size begin, Size end) noexcept;

  // The same in three steps: writes down some of `places`, and nothing to the far array; divides them
  // among the owners; then applies the updates of one owner. False: an index value was out of bounds.
  bool (*note)(const Plan& plan, const Places& places, Size begin, Size end) noexcept;
  void (*divide)(Places& places) noexcept;
  void (*apply)(const Plan& plan, Store store, const Places& places, int owner) noexcept;

  // Where no place is noted twice, any thread may apply any positions. mark() marks those of a stretch, the
  // last first, and drops the notes of places that are marked already; or stops there, unless it may
  // `drop` them. True: there were none.
  bool (*mark)(const Places& places, const Marks& marks, Size begin, Size end, Size stretch, bool drop)
      noexcept;
  // When all stretches are marked: makes the words [begin, end) of each map those of all maps after it.
  // True: no place is in two of them.
  bool (*join_later)(const Marks& marks, Size begin, Size end) noexcept;
  // When all words are joined: drops the notes of places that are marked after a stretch.
  void (*drop_marked)(const Places& places, const Marks& marks, Size begin, Size end, Size stretch)
      noexcept;
  // Applies the updates at the positions [begin, end) where they are noted.
  void (*apply_noted)(const Plan& plan, Store store, const Places& places, Size begin, Size end) noexcept;

  // The same as scatter for the bands [begin, end), with a buffer of bands.buffer bytes.
  bool (*scatter_bands)(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                        char* buffer) noexcept;

  // Looks at the index values of the positions [begin, end) of a check plan; copies nothing.
  Outside (*check)(const Plan& plan, Size begin, Size end) noexcept;

  // Looks at some places of a simplified plan that has at least one position.
  Sample (*sample)(const Plan& plan) noexcept;

  // nullptr where the reduction has no meaning for the type.
  Store (*pick_store)(const Plan& plan, Reduction reduction, ElementType type) noexcept;
};

// The engine for this processor.
const Engine& engine() noexcept;

}  // namespace ndgather
