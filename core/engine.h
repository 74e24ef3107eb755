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

// What some of the places of a plan have in common.
struct Sample {
  Size seen = 0;      // places looked at
  Size lines = 0;     // different cache lines among them
  Size together = 0;  // places whose follower is on the same line

  // Few places stay in the first-level cache.
  bool spreads() const noexcept { return lines > seen * 7 / 8; }
  // Places that follow each other are fetched by the hardware.
  bool follows() const noexcept { return together > seen * 3 / 4; }
};

struct Engine {
  // Gathers the positions [begin, end) of a simplified plan. False: an index value was out of
  // bounds; nothing outside of the far array was read, and the near array is partly written.
  bool (*gather)(const Plan& plan, Size begin, Size end) noexcept;

  // The same for the bands [begin, end), with a buffer of bands.buffer bytes.
  bool (*gather_bands)(const Plan& plan, const Bands& bands, Size begin, Size end,
                       char* buffer) noexcept;

  // Applies the updates at the positions [begin, end) of a simplified plan that `owner` owns, in C
  // order of indices. False: an index value was out of bounds, and the far array is partly written.
  bool (*scatter)(const Plan& plan, Store store, const Owner& owner, Size begin, Size end) noexcept;

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
