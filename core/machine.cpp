// machine.cpp - asking the system for the sizes of caches, and the processor for instruction sets.
#include "machine.h"

#include <cstdlib>
#include <cstring>

#include "loops.h"

#if defined(__linux__)
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ndgather {

extern const Loops loops_baseline;
#ifdef NDGATHER_X86_64
extern const Loops loops_avx2, loops_avx512;
#endif

namespace {

#if defined(__linux__) && defined(_SC_LEVEL2_CACHE_SIZE)
Size ask(int what) noexcept { return static_cast<Size>(sysconf(what)); }
constexpr int kSecondLevel = _SC_LEVEL2_CACHE_SIZE, kThirdLevel = _SC_LEVEL3_CACHE_SIZE;
#elif defined(__APPLE__)
Size ask(const char* what) noexcept {
  std::int64_t bytes = 0;
  std::size_t length = sizeof bytes;
  return sysctlbyname(what, &bytes, &length, nullptr, 0) == 0 ? static_cast<Size>(bytes) : 0;
}
constexpr const char *kSecondLevel = "hw.l2cachesize", *kThirdLevel = "hw.l3cachesize";
#else
Size ask(int) noexcept { return 0; }
constexpr int kSecondLevel = 2, kThirdLevel = 3;
#endif

Caches ask_caches() noexcept {
  Caches known;
  if (const Size bytes = ask(kSecondLevel); bytes > 0) known.second_level = bytes;
  if (const Size bytes = ask(kThirdLevel); bytes > 0) known.last_level = bytes;
  known.last_level = known.last_level < known.second_level ? known.second_level : known.last_level;
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
  static const Caches known = ask_caches();
  return known;
}

const Loops& loops() noexcept {
  static const Loops& picked = pick_loops();
  return picked;
}

}  // namespace ndgather
