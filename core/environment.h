// environment.h - the floating-point environment for reductions.
#pragma once

#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ndgather {

// Whether this thread rounds to nearest, keeps subnormal numbers, and traps no exceptions. May return false even if it does.
inline bool has_default_environment() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  unsigned short x87;  // used for long double
  asm volatile("fnstcw %0" : "=m"(x87));
  return (_mm_getcsr() & 0xffc0u) == 0x1f80u && (x87 & 0x0f3f) == 0x033f;
#else
  return false;
#endif
}

// Sets the default environment and later restores the caller's. The caller's environment may flush subnormal numbers to zero,
// as after torch.set_flush_denormal or in XLA's threads, or use another rounding mode.
class DefaultEnvironment {
 public:
  explicit DefaultEnvironment(bool wanted = true) noexcept : changed_(wanted && !has_default_environment()) {
    if (!changed_) return;
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultEnvironment() {
    if (changed_) std::fesetenv(&callers_);
  }
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
  bool changed_;
  std::fenv_t callers_;
};

}  // namespace ndgather
