// pool.h - reusable memory for large results.
//
// The page faults of a new large array take as long as filling it, so blocks of freed results are kept, up to a limit, and
// reused for later results. Huge pages are requested if the system supports them.
#pragma once

#include <cstddef>

namespace ndgather::pool {

// Blocks of memory with 64-byte alignment. allocate and resize return nullptr if out of memory.
void* allocate(std::size_t bytes) noexcept;
void* resize(void* block, std::size_t bytes) noexcept;
void release(void* block) noexcept;

// The maximum number of bytes to keep for later results.
std::size_t limit() noexcept;
void set_limit(std::size_t bytes) noexcept;

// Returns all kept blocks to the system, and returns their size in bytes.
std::size_t release_kept() noexcept;

// Temporary memory. Converts to false if the allocation failed or no bytes were requested.
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
