// random_call.h - one call of the core, made of bytes, its answer compared with plain loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ndgather::random_calls {

// Whether this processor lacks the instruction set that NDGATHER_INSTRUCTION_SET names; then says so. The core would run
// another one.
bool set_is_missing();

// How many of the calls so far went by each way of the core, a line for each.
void print_crossings();

// Aborts where the answer is wrong. False: the bytes describe no call that says anything.
bool random_call(const std::uint8_t* bytes, std::size_t count);

}  // namespace ndgather::random_calls
