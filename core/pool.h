// pool.h - reusable memory for large results.
//
// A fresh large array costs as much in page faults as in copying. Blocks of large results that died are kept, up to a
// limit, and handed to the next result; where the system has huge pages they are asked for.
#pragma once

#include <cstddef>

namespace ndgather::pool {

// Blocks of memory, 64-byte aligned; nullptr where there is none.
void* allocate(std::size_t bytes) noexcept;
void* resize(void* block, std::size_t bytes) noexcept;
void release(void* block) noexcept;

// The most bytes that are kept for later; 0 keeps nothing.
std::size_t limit() noexcept;
void set_limit(std::size_t bytes) noexcept;

// Gives everything that is kept back to the system; returns how many bytes that were.
std::size_t release_kept() noexcept;

// Memory for a while. False: there is none, or no bytes are wanted.
class Scratch {
 public:
  explicit Scratch(std::ptrdiff_t bytes) noexcept
      : memory_(bytes > 0 ? static_cast<char*>(allocate(static_cast<std::size_t>(bytes))) : nullptr) {}
  ~Scratch() { release(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  char* memory() const noexcept { return memory_; }

 private:
  char* memory_;
};

}  // namespace ndgather::pool
