// choices.h - choices made from bytes: the input of a fuzzer, or the seed of a random call.
#pragma once

#include <cstdint>
#include <cstring>

#include "plan.h"

namespace ndgather::random_calls {

class Choices {
 public:
  Choices(const std::uint8_t* bytes, std::size_t count) : at_(bytes), left_(count) {}

  // The next byte; after the last, numbers derived from the previous ones.
  std::uint8_t byte() {
    if (left_ == 0) return static_cast<std::uint8_t>(random() >> 32);
    --left_;
    state_ = (state_ ^ *at_) * 0x100000001B3u + 1;
    return *at_++;
  }
  Size below(Size limit) { return byte() % limit; }  // a limit of at most 256
  bool one_in(int n) { return byte() % n == n - 1; }
  template <class T, std::size_t N>
  T one_of(const T (&list)[N]) {
    return list[below(Size{N})];
  }

  // Numbers that use no input, for the contents of arrays.
  std::uint64_t random() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  void fill(char* to, Size bytes) {
    for (Size b = 0; b < bytes; b += 8) {
      const std::uint64_t word = random();
      std::memcpy(to + b, &word, static_cast<std::size_t>(bytes - b < 8 ? bytes - b : 8));
    }
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
  std::uint64_t state_ = 0;
};

}  // namespace ndgather::random_calls
