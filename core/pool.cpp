// pool.cpp - see pool.h.
#include "pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>

#include "tuning.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <sys/mman.h>
#define NDGATHER_HAS_MMAP
#endif
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

namespace ndgather::pool {
namespace {

constexpr std::size_t kHead = 64;                         // aligns the data to a cache line
constexpr std::size_t kHugePage{kLimits.huge_page};

// Precedes every block.
struct Head {
  std::size_t capacity;  // bytes after the head
  void* start;           // the memory that the system allocated
  std::size_t length;
};
static_assert(sizeof(Head) <= kHead);

Head& head(void* block) noexcept { return *reinterpret_cast<Head*>(static_cast<char*>(block) - kHead); }

// Tells AddressSanitizer that only the requested bytes of a block may be accessed.
void* lend(void* block, std::size_t bytes) noexcept {
  ASAN_POISON_MEMORY_REGION(block, head(block).capacity);
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return block;
}

void* from_system(std::size_t bytes) noexcept {
  if (bytes > SIZE_MAX - 2 * kHugePage) return nullptr;
  const std::size_t needed = (bytes + kHead + kHugePage - 1) / kHugePage * kHugePage;
#ifdef NDGATHER_HAS_MMAP
  const std::size_t length = needed + kHugePage;  // enough to align the block to a huge page
  void* start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  char* aligned = static_cast<char*>(start) + (kHugePage - address % kHugePage) % kHugePage;
#ifdef MADV_HUGEPAGE
  madvise(aligned, needed, MADV_HUGEPAGE);
#endif
#else
  const std::size_t length = needed;
  void* start = ::operator new(length, std::align_val_t{kHead}, std::nothrow);
  if (start == nullptr) return nullptr;
  char* aligned = static_cast<char*>(start);
#endif
  char* block = aligned + kHead;
  new (aligned) Head{needed - kHead, start, length};
  return block;
}

void to_system(void* block) noexcept {
  const Head& of = head(block);
  ASAN_UNPOISON_MEMORY_REGION(block, of.capacity);
#ifdef NDGATHER_HAS_MMAP
  munmap(of.start, of.length);
#else
  ::operator delete(of.start, std::align_val_t{kHead});
#endif
}

// Freed blocks, oldest first.
class Pool {
 public:
  void* take(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t best = count_;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t capacity = head(kept_[i]).capacity;
      // A kept block may be a quarter larger than requested, plus a huge page for the head; more would waste memory.
      if (capacity < bytes || capacity > bytes + bytes / 4 + kHugePage) continue;
      if (best == count_ || capacity <= head(kept_[best]).capacity) best = i;
    }
    if (best == count_) return nullptr;
    return remove(best);
  }

  void keep(void* block) noexcept {
    const std::size_t capacity = head(block).capacity;
    const std::lock_guard lock(mutex_);
    if (capacity > limit_) return to_system(block);
    lend(block, 0);
    while (count_ > 0 && (total_ + capacity > limit_ || count_ == std::size(kept_))) to_system(remove(0));
    kept_[count_++] = block;
    total_ += capacity;
  }

  std::size_t shrink(std::size_t limit, bool for_good) noexcept {
    const std::lock_guard lock(mutex_);
    if (for_good) limit_ = limit;
    const std::size_t before = total_;
    while (total_ > limit) to_system(remove(0));
    return before - total_;
  }

  std::size_t limit() noexcept {
    const std::lock_guard lock(mutex_);
    return limit_;
  }

  // Held during a fork, so that the child never sees a half-finished change by another thread.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  void* remove(std::size_t at) noexcept {
    void* block = kept_[at];
    std::copy(kept_ + at + 1, kept_ + count_--, kept_ + at);
    total_ -= head(block).capacity;
    return block;
  }

  std::mutex mutex_;
  void* kept_[64];
  std::size_t count_ = 0, total_ = 0, limit_ = 0;
};

Pool& pool() noexcept {
  static Pool& made = []() -> Pool& {
    alignas(Pool) static unsigned char bytes[sizeof(Pool)];  // never destroyed
    auto* fresh = new (bytes) Pool;
#ifdef NDGATHER_HAS_MMAP
    pthread_atfork([] { pool().lock(); }, [] { pool().unlock(); }, [] { pool().unlock(); });
#endif
    return *fresh;
  }();
  return made;
}

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  void* kept = pool().take(bytes);
  if (kept == nullptr) kept = from_system(bytes);
  return kept == nullptr ? nullptr : lend(kept, bytes);
}

void* resize(void* block, std::size_t bytes) noexcept {
  if (bytes <= head(block).capacity) return lend(block, bytes);
  void* fresh = allocate(bytes);
  if (fresh == nullptr) return nullptr;
  lend(block, head(block).capacity);
  std::memcpy(fresh, block, head(block).capacity);
  release(block);
  return fresh;
}

void release(void* block) noexcept {
  if (block != nullptr) pool().keep(block);
}

std::size_t limit() noexcept { return pool().limit(); }

void set_limit(std::size_t bytes) noexcept { pool().shrink(bytes, true); }

std::size_t release_kept() noexcept { return pool().shrink(0, false); }

}  // namespace ndgather::pool
