// core.cpp - a libFuzzer target: bytes become one call of the core.
#include "random_call.h"

// -1 keeps inputs out of the corpus that say nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  return ndgather::random_calls::random_call(bytes, count) ? 0 : -1;
}
