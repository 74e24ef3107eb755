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

// The updates at a stretch of positions, dealt out to the owners of their places: a list for each,
// in C order.
struct Dealt {
  Size* memory;  // of size() numbers
  Size most;     // positions
  Size owners;

  static constexpr Size kSpare = 8;  // entries of each list beyond `most`

  static Size size(Size most, Size owners) noexcept { return owners * (2 * (most + kSpare) + 1); }

  Size& count(Size owner) const noexcept { return memory[owner]; }
  // Where the updates are in the two arrays.
  Size* far(Size owner) const noexcept { return memory + owners + 2 * owner * (most + kSpare); }
  Size* near(Size owner) const noexcept { return far(owner) + most + kSpare; }
};

struct Engine {
  // Gathers the positions [begin, end) of a simplified plan. False: an index value was out of
  // bounds; nothing outside of the far array was read, and the near array is partly written.
  bool (*gather)(const Plan& plan, Size begin, Size end) noexcept;

  // The same for the bands [begin, end), with a buffer of bands.buffer bytes.
  bool (*gather_bands)(const Plan& plan, const Bands& bands, Size begin, Size end,
                       char* buffer) noexcept;

  // Applies the updates at the positions [begin, end) of a simplified plan, in C order of indices.
  // False: an index value was out of bounds, and the far array is partly written.
  bool (*scatter)(const Plan& plan, Store store, Size begin, Size end) noexcept;

  // The same in two steps: deals the updates out, nothing being written to the far array; then
  // applies those of one owner.
  bool (*deal)(const Plan& plan, const Dealt& dealt, Size begin, Size end) noexcept;
  void (*apply)(const Plan& plan, Store store, const Dealt& dealt, Size owner) noexcept;

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
