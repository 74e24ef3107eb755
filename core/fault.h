// fault.h - faults that a build for tests can be asked to make, one at a time.
//
// Everywhere else fault() is false at compile time, and costs nothing. With -DNDGATHER_FAULTS the environment
// variable NDGATHER_FAULT names the one that is made; `make faults` makes each, and a test has to fail. With
// NDGATHER_FAULT=list the names are printed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace ndgather {

inline constexpr std::string_view kFaults[] = {
    "size-is-inside",        // an index equal to the size of its axis is allowed
    "negative-as-is",        // negative indices do not count from the end
    "negative-off-by-one",   // they count from the end of an axis that is one shorter
    "clip-before-last",      // mode clip ends one before the last entry
    "wrap-negative",         // mode wrap leaves a negative remainder
    "one-column-inside",     // one index of a tuple inside its axis is enough
    "base-left-out",         // batch axes do not move the offset in data
    "column-of-first-axis",  // every index of a tuple steps along the first axis
    "batch-sizes-differ",    // the sizes of batch axes are not compared
    "depth-unbounded",       // index tuples may be longer than data has axes
    "off-axis-larger",       // indices may be larger than data on the other axes
    "axis-steps-too",        // elements move along the axis with their position as well
    "merge-any-stride",      // dims are merged whatever their strides in the result
    "owners-overlap",        // the owner of a part of a partition applies the first updates of the next one too
    "owned-from-the-start",  // the updates of a partition are counted from the first position of the call
    "panels-start-alike",    // every panel of a plane begins at its first column
    "panel-not-copied-back",  // what a scatter added to a packed panel stays in the buffer
    "cut-is-before",         // an entry on the border of two chunks counts as one of the chunk before
    "sort-skips-a-digit",    // the points are not sorted by the highest digit of their chunk
    "base-of-block-left-out",  // the positions of a block of points are counted from the first one of all
};

// The position of a name in kFaults; one that does not stand there does not compile.
struct Fault {
  int number = 0;
  consteval Fault(const char* name) {
    while (kFaults[number] != name) ++number;
  }
};

#ifdef NDGATHER_FAULTS
inline int fault_of_environment() noexcept {
  const char* wanted = std::getenv("NDGATHER_FAULT");
  if (wanted == nullptr || *wanted == '\0') return -1;
  int number = 0;
  for (const std::string_view name : kFaults) {
    if (name == wanted) return number;
    ++number;
  }
  for (const std::string_view name : kFaults) std::printf("%s\n", name.data());
  std::exit(std::string_view("list") == wanted ? 0 : 2);
}

inline const int kFault = fault_of_environment();

inline bool fault(Fault which) noexcept { return which.number == kFault; }
#else
constexpr bool fault(Fault) noexcept { return false; }
#endif

}  // namespace ndgather
