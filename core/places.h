// places.h - scatters shared between threads by place: all places are checked and written down; then each
// owner looks through them and applies the updates of its own, in order. Where no place is repeated, any thread
// may apply any of the updates; see repeats.h.
//
// The places of an owner lie together, so that lines are shared at its borders alone: rows of 128 to 840
// bytes take 0.7 to 0.8 of the time that they took when owners were told by hashes.
#pragma once

#include <algorithm>

#include "lanes.h"
#include "scatter.h"
#include "store.h"

namespace ndgather::NDGATHER_ISA {

// How far a noted place is from the begin of the far array.
template <class At>
Size noted_at(const Places& places, At noted) noexcept {
  return static_cast<Size>(static_cast<std::uint64_t>(places.lowest_far) + static_cast<std::uint64_t>(noted));
}

template <class At>
bool note_as(const Plan& plan, const Places& places, Size begin, Size end) noexcept {
  const Offsets<At> offsets = pick_offsets<At>(plan);
  const Bases bases(plan);
  At* out = static_cast<At*>(places.memory) + (begin - places.begin);
  Cursor cursor(plan, begin);
  cursor.far -= places.lowest_far;
  for (Size left = end - begin; left > 0;) {
    const Size n = std::min({left, cursor.left, kShortBlock});
    prefetch_ahead(plan, cursor.index, plan.position[plan.position_rank - 1].index, n);
    const auto [far, from] = bases.from(cursor);
    if (!offsets(plan, cursor.index, far, from, n, out) && plan.mode != Mode::fill) return false;
    cursor.advance(n);
    out += n;
    left -= n;
  }
  return true;
}

inline bool note(const Plan& plan, const Places& places, Size begin, Size end) noexcept {
  return places.wide ? note_as<Size>(plan, places, begin, end)
                     : note_as<std::uint32_t>(plan, places, begin, end);
}

// Looks at some of the places, and gives every owner about as many of them; each begins with a line.
template <class At>
void divide_as(Places& places) noexcept {
  constexpr Size kOfOwner = 32, kMost = 512, kEach = 1024;  // to sort 512 takes 15 us
  constexpr std::uint32_t kSpread = 0x9E3779B1u;  // 2^32 by the golden ratio: in no step with any pattern
  const At* noted = static_cast<const At*>(places.memory);
  const Size count = places.end - places.begin;
  const Size looks = std::clamp(count / kEach, kOfOwner * places.owners, kMost);
  At lines[kMost];
  Size n = 0;
  for (Size i = 0; i < looks; ++i) {
    const std::uint64_t part = static_cast<std::uint32_t>(i) * kSpread;
    const At place = noted[part * static_cast<std::uint64_t>(count) >> 32];
    if (place != kNowhereAs<At>) lines[n++] = place / At{kLine} * At{kLine};
  }
  if (n == 0) return;  // any borders will do
  std::sort(lines, lines + n);
  for (int owner = 1; owner < places.owners; ++owner) {
    // Before or after all looks at one line, whichever is nearer to an equal share.
    const At* const fair = lines + n * owner / places.owners;
    const auto [from, to] = std::equal_range(lines, lines + n, *fair);
    places.first[owner] = static_cast<Size>(*fair) + (fair - from > to - fair ? kLine : 0);
  }
}

inline void divide(Places& places) noexcept {
  places.wide ? divide_as<Size>(places) : divide_as<std::uint32_t>(places);
}

// The places of one owner.
template <class At>
struct Share {
  using Number = std::make_unsigned_t<At>;
  Number first, beyond_first;
  bool empty;

  Share(const Places& places, int owner) noexcept : first(static_cast<Number>(places.first[owner])) {
    const bool last = owner + 1 == places.owners;
    const auto end = last ? static_cast<Number>(kNowhereAs<At>)
                          : static_cast<Number>(places.first[owner + 1]);
    empty = end <= first;
    beyond_first = end - 1 - first;
  }

  bool has(At place) const noexcept { return static_cast<Number>(place) - first <= beyond_first; }
};

// So many places are looked at in one go, and so many of them are enough: a count that changes from
// one go to the next costs a branch that is not foreseen.
inline constexpr Size kLook = 512;
inline constexpr Size kEnough = kBlock / 2;
inline constexpr Size kRoom = kEnough + kLook + 16;  // and what is written behind

inline constexpr Size kPage = 4096;

// What is picked out of places.
//
// A load waits for a store before it whose address has the same low bits. Places are noted from the begin
// of a page on, half a page of them is looked at in one go, and what is picked out is written more slowly
// than that: from a line before the middle of a page on it never meets what is looked at next (0.2 ns for
// each place, and up to 0.35 elsewhere).
template <class T>
struct alignas(kPage) Picked {
  char apart[kPage / 2 - kLine];
  T each[kRoom];
};

// Some of the updates of one owner. Updates of Carried bytes are copied here; of others (Carried = 0)
// it is known where they are.
template <class At, int Carried>
struct Own {
  using Near = std::conditional_t<Carried == 4, std::uint32_t,
               std::conditional_t<Carried == 8, std::uint64_t, At>>;

  Size n = 0;
  Picked<At> far;
  Picked<Near> near;
  alignas(kLine) Size at[kRoom];
  alignas(kLine) Size listed[Carried == 0 ? kRoom : 1];

  // Appends what belongs to `share` among `count` places, noted as distances from the lowest. Their
  // updates are `step` bytes apart from `from` on, which is `first` bytes from the lowest.
  void pick(const Share<At>& share, const At* places, Size count, const char* from, At first,
            Size step) noexcept {
    Size kept = n;
    Size i = 0;
#if defined(NDGATHER_LANES)
    if constexpr (sizeof(At) == 4) {
      const Lanes first_place = Lanes::every(share.first);
      const Lanes beyond_first = Lanes::every(share.beyond_first);
      const Lanes more = Lanes::every(static_cast<std::uint32_t>(Lanes::kCount * step));
      Lanes where =
          Lanes::every(first) + Lanes::count() * Lanes::every(static_cast<std::uint32_t>(step));
      for (; i + Lanes::kCount <= count; i += Lanes::kCount) {
        const Lanes place = Lanes::load(places + i);
        const Lanes::Mask mine = (place - first_place).at_most(beyond_first);
        place.kept(mine).store(far.each + kept);
        if constexpr (Carried == 8) {
          keep(mine, from + i * Carried, near.each + kept);
        } else if constexpr (Carried == 4) {
          Lanes::load(from + i * Carried).kept(mine).store(near.each + kept);
        } else {
          where.kept(mine).store(near.each + kept);
          where = where + more;
        }
        kept += __builtin_popcount(Lanes::bits(mine));
      }
    }
#endif
    for (; i < count; ++i) {
      far.each[kept] = places[i];
      if constexpr (Carried > 0) {
        near.each[kept] = load<Near>(from + i * Carried);
      } else {
        near.each[kept] = first + static_cast<At>(i * step);
      }
      kept += Size{share.has(places[i])};
    }
    n = kept;
  }
};

// Rows wider than a line are asked for together with their updates, and too many at a time get in each
// other's way: in data of 64 MB adds of 256, 512 and 1024 bytes take 0.75, 0.8 and 0.9 of the time that
// they take in blocks as large as those of a gather; in data of 512 KB, which are not asked for, those of
// 256 bytes take 1.2 of it.
inline constexpr Size kRowBlock = 4096;  // bytes, and
inline constexpr Size kRowsTogether = 8;  // at least

inline Size own_block_size(const Plan& plan) noexcept {
  const Size most = block_size(plan);
  if (plan.width <= kLine || plan.patience == kEndless) return most;
  return std::min(most, std::max(kRowBlock / plan.width, kRowsTogether));
}

template <class At, int Carried>
void apply_as(const Plan& plan, Store store, const Places& places, int owner) noexcept {
  const Share<At> share(places, owner);
  if (share.empty) return;
  const Streaming streaming{plan.streams};
  const Size most = own_block_size(plan);
  const Size look = std::min(most * places.owners, kLook);
  const Size enough = std::min((most + 1) / 2, kEnough);
  const Size step = plan.position[plan.position_rank - 1].near;
  const At* noted = static_cast<const At*>(places.memory);
  Size left = places.end - places.begin;
  Cursor cursor(plan, places.begin);
  const char* near = cursor.near;
  Size run = plan.near_linear ? left : std::min(left, cursor.left);

  const auto pick = [&](Own<At, Carried>& own) {
    own.n = 0;
    while (own.n < enough && left > 0) {
      const Size n = std::min(run, look);
      own.pick(share, noted, n, near,
               static_cast<At>(near - plan.near - places.lowest_near), step);
      noted += n;
      near += n * step;
      left -= n;
      run -= n;
      if (run == 0 && left > 0) {
        cursor.advance(cursor.left);
        near = cursor.near;
        run = std::min(left, cursor.left);
      }
    }
    for (Size i = 0; i < own.n; ++i) own.at[i] = noted_at(places, own.far.each[i]);
    if constexpr (Carried == 0) {
      for (Size i = 0; i < own.n; ++i) {
        own.listed[i] = places.lowest_near + static_cast<Size>(own.near.each[i]);
      }
    }
  };
  const auto use = [&](const Own<At, Carried>& own) {
    if constexpr (Carried > 0) {
      store(plan, plan.far, own.at, {reinterpret_cast<const char*>(own.near.each), Carried, nullptr},
            own.n);
    } else {
      store(plan, plan.far, own.at, {plan.near, 0, own.listed}, own.n);
    }
  };

  // Of the updates an owner gets some, and the hardware does not see which: rows of them are asked for
  // whatever the places do.
  const bool rows = Carried == 0 && plan.width > kLine;
  Blocks<Own<At, Carried>> blocks(rows ? -1 : plan.patience);
  while (left > 0) {
    Own<At, Carried>& own = blocks.next();
    pick(own);
    if (blocks.asks() && plan.patience < kEndless && !plan.streams) {
      prefetch_places<true>(plan.far, plan.width, own.at, own.n);
    }
    if (rows) prefetch_places(plan.near, plan.width, own.listed, own.n);
    blocks.take(use, left > 0);
  }
  blocks.finish(use);
}

inline void apply(const Plan& plan, Store store, const Places& places, int owner) noexcept {
  if (places.wide) return apply_as<Size, 0>(plan, store, places, owner);
  // Updates that follow each other are read together, and copied: 0.9 of the time.
  const Size step = plan.position[plan.position_rank - 1].near;
  const Size packed = plan.slice_rank == 0 && step == plan.width ? step : 0;
  switch (packed) {
    case 4: return apply_as<std::uint32_t, 4>(plan, store, places, owner);
    case 8: return apply_as<std::uint32_t, 8>(plan, store, places, owner);
    default: return apply_as<std::uint32_t, 0>(plan, store, places, owner);
  }
}

// The positions [begin, end), in order, whoever owns their places.
template <class At>
void apply_noted_as(const Plan& plan, Store store, const Places& places, Size begin, Size end) noexcept {
  const Streaming streaming{plan.streams};
  const Size step = plan.position[plan.position_rank - 1].near;
  const At* noted = static_cast<const At*>(places.memory) + (begin - places.begin);
  Cursor cursor(plan, begin);
  scatter_blocks(plan, store, end - begin, [&](Placed& block, Size want) {
    block.n = plan.near_linear ? want : std::min(want, cursor.left);
    block.near = plan.near_linear ? plan.near + begin * step : cursor.near;
    block.good = true;
    for (Size i = 0; i < block.n; ++i) {
      const bool somewhere = noted[i] != kNowhereAs<At>;
      block.at[i] = somewhere ? noted_at(places, noted[i]) : kNowhere;
      block.good &= somewhere;
    }
    if (!plan.near_linear) cursor.advance(block.n);
    noted += block.n;
    begin += block.n;
    return true;
  });
}

inline void apply_noted(const Plan& plan, Store store, const Places& places, Size begin, Size end) noexcept {
  return places.wide ? apply_noted_as<Size>(plan, store, places, begin, end)
                     : apply_noted_as<std::uint32_t>(plan, store, places, begin, end);
}

}  // namespace ndgather::NDGATHER_ISA
