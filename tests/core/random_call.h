// random_call.h - a call of the core described by bytes; its result is compared with plain loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ndgather::random_calls {

// Whether this processor lacks the instruction set in NDGATHER_INSTRUCTION_SET, in which case the core would use another
// one; prints a message.
bool set_is_missing();

// Prints how many calls so far took each code path of the core, one per line.
void print_crossings();

// Aborts if the result is wrong. Returns false if the bytes describe no meaningful call.
bool random_call(const std::uint8_t* bytes, std::size_t count);

}  // namespace ndgather::random_calls
