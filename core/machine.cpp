// machine.cpp - determining cache sizes and instruction sets.
#include "loops.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ndgather {

extern const Loops loops_baseline;
#ifdef NDGATHER_X86_64
extern const Loops loops_avx2, loops_avx512;
#endif

namespace {

// Returns the size of the level 2 or level 3 cache, or 0 if it is unknown.
#if defined(__linux__)
Size ask(int level) noexcept {
  // Reads the file of the first processor, because sysconf may return the sum of all caches of a socket.
  char path[] = "/sys/devices/system/cpu/cpu0/cache/index?/size";
  path[sizeof path - 7] = static_cast<char>('0' + level);
  long kilobytes = 0;
  if (std::FILE* const file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%ldK", &kilobytes) != 1) kilobytes = 0;
    std::fclose(file);
  }
  return Size{kilobytes} * 1024;
}
#elif defined(__APPLE__)
Size ask(int level) noexcept {
  std::int64_t bytes = 0;
  std::size_t length = sizeof bytes;
  const char* const what = level == 2 ? "hw.l2cachesize" : "hw.l3cachesize";
  return sysctlbyname(what, &bytes, &length, nullptr, 0) == 0 ? static_cast<Size>(bytes) : 0;
}
#else
Size ask(int) noexcept { return 0; }
#endif

Caches ask_caches() noexcept {
  Caches known = kCaches;
  if (const char* const chosen = std::getenv("NDGATHER_CACHES")) {
    std::sscanf(chosen, "%td,%td,%d", &known.second_level, &known.last_level, &known.prefetching_pays);
    known.second_level = std::max(known.second_level, kLine);
    known.last_level = std::max(known.last_level, known.second_level);
    return known;
  }
  if (const Size bytes = ask(2); bytes > 0) known.second_level = bytes;
  if (const Size bytes = ask(3); bytes > 0) known.last_level = bytes;
  // A virtual machine may report the cache of a whole socket, although most of its processors belong to other machines. So at
  // most 16 MB per processor are counted: 32 MB for 2 processors, even if 256 MB are reported.
  constexpr Size kMostForEach = Size{1} << 24;
  const Size most = kMostForEach * static_cast<Size>(std::thread::hardware_concurrency());
  known.last_level = std::max(known.second_level, std::min(known.last_level, most));
  return known;
}

#ifdef NDGATHER_X86_64
bool may_use(const char* name) noexcept {
  const char* const only = std::getenv("NDGATHER_INSTRUCTION_SET");
  return only == nullptr || *only == '\0' || std::strcmp(only, name) == 0;
}
#endif

const Loops& pick_loops() noexcept {
#ifdef NDGATHER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && may_use("avx512")) return loops_avx512;
  if (__builtin_cpu_supports("x86-64-v3") && may_use("avx2")) return loops_avx2;
#endif
  return loops_baseline;
}

}  // namespace

const Caches& caches() noexcept {
  static const Caches known = kTiny ? kCaches : ask_caches();
  return known;
}

const Loops& loops() noexcept {
  static const Loops& picked = pick_loops();
  return picked;
}

}  // namespace ndgather
