// chunk_table.cpp - see chunk_table.h.
#include "chunk_table.h"

#include <bit>
#include <cstring>
#include <new>
#include <thread>

namespace ndgather {
namespace {

// Copies n elements. Those whose source is null are filled.
template <Size Width>
void copy_elements(const Plan& plan, Size begin, const char* const* from, Size n) {
  const Size width = Width > 0 ? Width : plan.element;
  char* const to = plan.dense + begin * width;
  for (Size i = 0; i < n; ++i) {
    const char* const source = from[i] != nullptr ? from[i] : plan.fill;
    const auto bytes = static_cast<std::size_t>(width);
    source != nullptr ? std::memcpy(to + i * width, source, bytes) : std::memset(to + i * width, 0, bytes);
  }
}

}  // namespace

std::uint64_t next_use() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool ChunkTable::set_up(int axes, const Size* shape, const Size* steps, Size bytes) noexcept {
  rank = axes;
  element = bytes;
  Size stride = element;
  int bits = 0;
  for (int d = rank - 1; d >= 0; --d) {
    const int own = shape[d] <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(shape[d] - 1)));
    const Size step = std::clamp<Size>(shape[d], 1, steps[d]), chunks = divide_up(shape[d], step);
    axis[d] = {shape[d], step, bits, (std::uint64_t{1} << own) - 1, count, stride};
    bits += own;
    if (own > 50 || bits > 63 || chunks > kLimits.chunks || stride > PTRDIFF_MAX / 2 / step) return false;
    count *= chunks;
    stride *= step;
    if (count > kLimits.chunks) return false;
  }
  entries.reset(new (std::nothrow) Entry[static_cast<std::size_t>(count)]);
  return entries != nullptr;
}

void ChunkTable::set(Size first, Size last, const char* bytes) noexcept {
  changing.store(true);
  while (users.load() != 0) std::this_thread::yield();
  for (Size c = first; c < last; ++c) entries.get()[c].bytes.store(bytes, std::memory_order_release);
  changing.store(false);
}

bool ChunkTable::look_up(const Plan& plan, Size* listed, Size most, Found& found) noexcept {
  for (;; users.fetch_sub(1)) {
    while (changing.load()) std::this_thread::yield();
    users.fetch_add(1);
    if (!changing.load()) break;
  }
  const std::uint64_t now = next_use();
  bool inside = true;
  for (Size done = 0; done < plan.positions && inside; done += kLimits.point_tile) {
    const Size n = std::min(plan.positions - done, kLimits.point_tile);
    Size at[kLimits.point_tile], number[kLimits.point_tile] = {}, offset[kLimits.point_tile] = {};
    const char* from[kLimits.point_tile];
    inside = loops().record_offsets(plan, done, done + n, {at});
    for (int d = 0; d < rank; ++d) {
      const auto [size, step, shift, mask, number_stride, stride] = axis[d];
      const double inverse = 1 / static_cast<double>(step);
      for (Size i = 0; i < n; ++i) {
        // Multiplying by the inverse is faster than dividing. Adding 0.5 prevents rounding across a chunk border: without it,
        // 49 * (1 / 49.0) is below 1. Coordinates are below 2**50, so a double can represent the added 0.5.
        const auto coordinate = static_cast<Size>(static_cast<std::uint64_t>(at[i]) >> shift & mask);
        const auto chunk = static_cast<Size>((static_cast<double>(coordinate) + 0.5) * inverse);
        number[i] += chunk * number_stride;
        offset[i] += (coordinate - chunk * step) * stride;
      }
    }
    for (Size i = 0; i < n && inside; ++i) {
      from[i] = nullptr;
      if (at[i] == kOutside) continue;
      Entry& entry = entries.get()[number[i]];
      const char* const bytes = entry.bytes.load(std::memory_order_acquire);
      if (entry.last_use.load(std::memory_order_relaxed) < now) {
        entry.last_use.store(now, std::memory_order_relaxed);
        found.hits += bytes != nullptr;
        if (bytes == nullptr && found.listed < most) listed[found.listed++] = number[i];
      }
      found.missing += bytes == nullptr;
      from[i] = bytes == nullptr ? nullptr : bytes + offset[i];
      prefetch(from[i]);
    }
    if (!inside || found.missing > 0) continue;
    switch (element) {
      case 1: copy_elements<1>(plan, done, from, n); break;
      case 2: copy_elements<2>(plan, done, from, n); break;
      case 4: copy_elements<4>(plan, done, from, n); break;
      case 8: copy_elements<8>(plan, done, from, n); break;
      default: copy_elements<0>(plan, done, from, n);
    }
  }
  users.fetch_sub(1);
  return inside;
}

}  // namespace ndgather
