// tensor.h - arrays for random calls: all layouts of NumPy, each in a heap block of exactly its size, so that
// AddressSanitizer detects access to the first byte outside it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "choices.h"
#include "plan.h"

namespace ndgather::random_calls {

using Sizes = std::vector<Size>;

constexpr Size kMostBytes = Size{1} << 23;

// The product of sizes, or nothing if NumPy does not support such an array.
inline std::optional<Size> product(const Sizes& shape, Size element) {
  Size bytes = element;
  bool empty = false;
  for (const Size size : shape) {
    empty |= size == 0;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return {};
  }
  return empty ? 0 : bytes / element;
}

using Block = std::vector<char>;

struct Tensor {
  Sizes shape, strides;
  Size element = 1;
  std::unique_ptr<char[]> memory;
  Size bytes = 0;
  Size first = 0;  // the offset of the element with index zero in the block

  Array view() const { return {memory.get() + first, static_cast<int>(shape.size()), shape.data(), strides.data()}; }
  Size offset(const Sizes& at) const {
    Size offset = first;
    for (std::size_t d = 0; d < shape.size(); ++d) offset += at[d] * strides[d];
    return offset;
  }
  char* place(const Sizes& at) const { return memory.get() + offset(at); }
  Block copy() const { return {memory.get(), memory.get() + bytes}; }
  bool equals(const Block& block) const { return std::equal(block.begin(), block.end(), memory.get()); }
};

inline bool is_empty(const Sizes& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

// Calls visit(coordinates) for every element, in C order.
template <class Visit>
void each(const Sizes& shape, Visit visit) {
  if (is_empty(shape)) return;
  Sizes at(shape.size(), 0);
  for (;;) {
    visit(at);
    std::size_t d = shape.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < shape[d - 1]) break;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// Memory for a shape: axes in any order and direction, with gaps, and with stride 0 if nothing is written. Returns
// nothing if it would be too large. `crossed` swaps the last two axes if C order is chosen.
inline std::optional<Tensor> lay_out(const Sizes& shape, Size element, bool written, Choices& choices,
                                     bool crossed = false) {
  if (!product(shape, element)) return {};
  Tensor tensor{shape, Sizes(shape.size(), 0), element, nullptr, 0, 0};
  const bool empty = is_empty(shape);
  const int style = static_cast<int>(choices.below(8));  // 0..3: C order without gaps
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (crossed) std::swap(order[order.size() - 1], order[order.size() - 2]);
  if (style >= 5) {
    for (std::size_t d = order.size(); d > 1; --d) {
      std::swap(order[d - 1], order[static_cast<std::size_t>(choices.below(Size(d)))]);
    }
  }
  Size step = element, low = 0, high = 0;
  for (std::size_t k = order.size(); k > 0; --k) {
    const std::size_t d = order[k - 1];
    const Size size = shape[d];
    const int treat = style >= 4 ? static_cast<int>(choices.below(8)) : 0;
    if (treat == 1) {
      Size gap = 1 + choices.below(style == 7 ? 64 : 3);
      if (style != 7) gap *= element;
      if (__builtin_add_overflow(step, gap, &step)) return {};
    }
    if (!written && (treat == 2 || size > (Size{1} << 20))) continue;  // stride 0
    if (empty || size == 1) continue;  // unused strides; the binding sets them to 0
    const Size stride = treat == 4 ? -step : step;
    tensor.strides[d] = stride;
    Size reach;
    if (__builtin_mul_overflow(size - 1, stride, &reach)) return {};
    (reach < 0 ? low : high) += reach;
    if (high - low > kMostBytes) return {};
    if (__builtin_mul_overflow(size, step, &step)) return {};
  }
  const Size shift = style == 6 ? choices.below(8) : 0;
  tensor.bytes = empty ? 0 : high - low + element + shift;
  tensor.memory.reset(new char[static_cast<std::size_t>(tensor.bytes)]);
  tensor.first = empty ? 0 : shift - low;
  return tensor;
}

}  // namespace ndgather::random_calls
