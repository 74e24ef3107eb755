// repeats.h - which of the noted places of a scatter are noted again after that.
#pragma once

#include <algorithm>

#include "engine.h"
#include "offsets.h"

namespace ndgather::NDGATHER_ISA {

// Where the bit of a place is. Of no place it is none, in the first word.
template <class At>
struct Bit {
  std::size_t word;
  std::uint64_t mask;

  Bit(At place, int shift) noexcept {
    const bool somewhere = place != kNowhereAs<At>;
    const std::uint64_t number = somewhere ? static_cast<std::uint64_t>(place) >> shift : 0;
    word = number / 64;
    mask = std::uint64_t{somewhere} << number % 64;
  }
};

// Without a branch: which places are repeated cannot be foreseen.
template <class At>
bool mark_as(const Places& places, const Marks& marks, Size begin, Size end, Size stretch, bool drop)
    noexcept {
  At* const noted = static_cast<At*>(places.memory) - places.begin;
  std::uint64_t* const map = marks.map(stretch);
  bool once = true;
  while (begin < end && (once || drop)) {
    const Size first = std::max(begin, end - kBlock);
    for (Size i = end - 1; i >= first; --i) {
      const Bit<At> bit(noted[i], marks.shift);
      const bool marked = (map[bit.word] & bit.mask) != 0;
      map[bit.word] |= bit.mask;
      noted[i] = marked && drop ? kNowhereAs<At> : noted[i];
      once &= !marked;
    }
    end = first;
  }
  return once;
}

inline bool mark(const Places& places, const Marks& marks, Size begin, Size end, Size stretch, bool drop)
    noexcept {
  return places.wide ? mark_as<Size>(places, marks, begin, end, stretch, drop)
                     : mark_as<std::uint32_t>(places, marks, begin, end, stretch, drop);
}

inline bool join_later(const Marks& marks, Size begin, Size end) noexcept {
  constexpr Size kWords = kLine / Size{sizeof(std::uint64_t)};
  std::uint64_t twice = 0;
  for (Size first = begin; first < end; first += kWords) {  // a line of each map at a time
    const Size count = std::min(kWords, end - first);
    std::uint64_t later[kWords]{};
    for (Size stretch = marks.stretches - 1; stretch >= 0; --stretch) {
      std::uint64_t* const word = marks.map(stretch) + first;
      for (Size w = 0; w < count; ++w) {
        const std::uint64_t here = word[w];
        twice |= here & later[w];
        word[w] = later[w];
        later[w] |= here;
      }
    }
  }
  return twice == 0;
}

template <class At>
void drop_marked_as(const Places& places, const Marks& marks, Size begin, Size end, Size stretch) noexcept {
  At* const noted = static_cast<At*>(places.memory) - places.begin;
  const std::uint64_t* const map = marks.map(stretch);
  for (Size i = begin; i < end; ++i) {
    const Bit<At> bit(noted[i], marks.shift);
    noted[i] = (map[bit.word] & bit.mask) != 0 ? kNowhereAs<At> : noted[i];
  }
}

inline void drop_marked(const Places& places, const Marks& marks, Size begin, Size end, Size stretch)
    noexcept {
  return places.wide ? drop_marked_as<Size>(places, marks, begin, end, stretch)
                     : drop_marked_as<std::uint32_t>(places, marks, begin, end, stretch);
}

}  // namespace ndgather::NDGATHER_ISA
