// store.h - what a scatter does with an element that is already there: the policies.
//
// A Store applies n updates, in order, at n checked offsets. Duplicates are therefore applied one
// after the other, as the loops of the specifications have it.
#pragma once

#include "plan.h"

namespace ndgather {

enum class Reduction : std::uint8_t { none, add, sub, mul, min, max };

// What the arithmetic needs to know of an element. A copy needs only its width.
enum class ElementType : std::uint8_t {
  i8, i16, i32, i64, u8, u16, u32, u64,
  f16, bf16, f32, f64, long_double,
  c64, c128, complex_long_double,
  boolean,
  table,  // one byte, and a table of the results for all pairs
  opaque,  // no arithmetic
};

using Updates = NearPlaces<const char>;

// far[at[i]] = reduction(far[at[i]], update i) for the slices of `plan`, i = 0, 1, ... n - 1.
using Store = void (*)(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n)
    noexcept;

}  // namespace ndgather
