// threads.cpp - a team of sleeping threads that is used by one call at a time.
#include "threads.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

namespace ndgather {
namespace {

// The tasks of one call, divided into ranges.
struct Job {
  struct alignas(64) Range {  // on a cache line of its own
    std::atomic<Size> next;
    Size end;
  };

  Task run;
  void* context;
  Stop* stop;
  int ranges;
  Range range[kLimits.shares_of_tasks];

  Job(Task r, void* c, int workers, Size tasks, Stop* s) noexcept
      : run(r), context(c), stop(s), ranges(std::min(workers, kLimits.shares_of_tasks)) {
    for (int i = 0; i < ranges; ++i) {
      range[i].next.store(tasks * i / ranges, std::memory_order_relaxed);
      range[i].end = tasks * (i + 1) / ranges;
    }
  }

  void work(int worker) noexcept {
    for (int i = 0; i < ranges; ++i) {
      Range& at = range[(worker + i) % ranges];
      for (Size task; (task = at.next.fetch_add(1, std::memory_order_relaxed)) < at.end;) {
        if (stop != nullptr && stop->reached()) return;
        run(context, worker, task);
      }
    }
  }
};

// How long threads spin before they sleep. A call that comes soon after finds them awake. Waking a thread takes 5 to 50 us.
constexpr auto kSpin = std::chrono::microseconds(50);

// If other programs, or spinning threads of other libraries, use the processors, a worker may be interrupted in the middle of
// a task, and no other thread can finish it. For example, the caller works for 2 ms and then waits for 1.5 ms. If its
// previous long wait began less than 40 * 1.5 = 60 ms earlier, calls use one thread for the next 60 ms, so that waiting takes
// a fortieth of the time. A single long wait has no effect, because the first access to memory can delay a worker as well.
constexpr int kAlone = 40;
constexpr auto kMostAlone = std::chrono::milliseconds(200);

using Clock = std::chrono::steady_clock;

// Returns a time that is up to a few milliseconds old, but faster to read than Clock.
std::chrono::nanoseconds coarse_time() noexcept {
#if defined(CLOCK_MONOTONIC_COARSE)
  timespec now;
  if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0) {
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
#endif
  return Clock::now().time_since_epoch();
}

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until a condition holds. Returns false on timeout.
template <class Condition>
bool spin_until(Condition holds) noexcept {
  const auto end = Clock::now() + kSpin;
  do {
    for (int turn = 0; turn < 16; ++turn) {
      if (holds()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

// The processors that a sleeping worker may wake up on. Linux often wakes a worker on the caller's processor, where it waits
// for the caller, even if others are idle. So the caller removes its processor from the worker's mask, and the worker
// restores the mask once it runs: with four processors and the caller on number 1, the mask 1111 is 1101 in the meantime.
class WakingMask {
 public:
#if defined(__linux__)
  void leave_out(int processor) noexcept {
    if (narrowed_ || processor < 0 || processor >= CPU_SETSIZE) return;
    if (pthread_getaffinity_np(thread_, sizeof whole_, &whole_) != 0 || !CPU_ISSET(processor, &whole_)) return;
    narrow_ = whole_;
    CPU_CLR(processor, &narrow_);
    if (CPU_COUNT(&narrow_) > 0) narrowed_ = pthread_setaffinity_np(thread_, sizeof narrow_, &narrow_) == 0;
  }
  // Called by the worker itself. Keeps a mask that other code has set in the meantime.
  void restore() noexcept {
    cpu_set_t now;
    if (std::exchange(narrowed_, false) && pthread_getaffinity_np(thread_, sizeof now, &now) == 0 &&
        CPU_EQUAL(&now, &narrow_)) {
      pthread_setaffinity_np(thread_, sizeof whole_, &whole_);
    }
  }
  static int processor() noexcept { return sched_getcpu(); }

 private:
  const pthread_t thread_ = pthread_self();
  bool narrowed_ = false;
  cpu_set_t whole_, narrow_;
#else
  void leave_out(int) noexcept {}
  void restore() noexcept {}
  static int processor() noexcept { return -1; }
#endif
};

// Never destroyed, because its threads may sleep until the process exits.
class Team {
 public:
  // Reserves the team for one call; returns false if another call is using it.
  bool take() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void release() noexcept { busy_.clear(std::memory_order_release); }

  bool is_awake() const noexcept { return spinning_.load(std::memory_order_relaxed) > 0; }

  void run(Job& job, int workers) noexcept {
    start(workers - 1);
    Called called;
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      next_worker_ = 1;
      workers_ = workers;
      to_wake_ = workers - 1 - spinning_.load(std::memory_order_relaxed);
      processor_ = WakingMask::processor();
      called = call_some();
      jobs_.fetch_add(1, std::memory_order_release);
    }
    wake(called);
    const auto started = Clock::now();
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // threads that have not woken by now are not needed
      to_wake_ = 0;
    }
    const auto done = [this] { return working_.load(std::memory_order_acquire) == 0; };
    const auto begin = Clock::now();
    if (spin_until(done)) return;
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, done);
    }
    const auto waited = Clock::now() - begin;
    // If processors are idle, workers finish within the time of one task.
    if (waited < std::max<Clock::duration>(std::chrono::nanoseconds(kLimits.longest_wait), (begin - started) / 2)) return;
    const auto alone = std::min<Clock::duration>(kAlone * waited, kMostAlone);
    const auto last_wait = std::exchange(last_wait_, begin);
    if (begin - last_wait < alone) alone_until_.store(begin + alone, std::memory_order_relaxed);
  }

  // Whether calls should use one thread for now. Any thread may ask.
  bool is_hindered() noexcept {
    const auto until = alone_until_.load(std::memory_order_relaxed);
    if (until == Clock::time_point{}) return false;
    if (Clock::now() < until) return true;
    alone_until_.store({}, std::memory_order_relaxed);
    return false;
  }

 private:
  struct Helper {  // one of the threads
    std::condition_variable wake;
    WakingMask mask;
    bool is_called = false;
    Helper* next_asleep;
  };
  using Called = std::array<Helper*, 2>;  // unused entries are null

  // Takes up to two sleeping threads, each of which wakes up to two others, so that the caller soon begins its own work. To
  // wake seven threads, the caller wakes two, these wake four, and one of the four wakes the last. The caller must hold the
  // lock.
  Called call_some() noexcept {
    Called called{};
    for (Helper*& each : called) {
      if (to_wake_ <= 0 || asleep_ == nullptr) break;
      --to_wake_;
      each = std::exchange(asleep_, asleep_->next_asleep);
      each->mask.leave_out(processor_);
      each->is_called = true;
    }
    return called;
  }

  static void wake(const Called& called) noexcept {
    for (Helper* const each : called) {
      if (each != nullptr) each->wake.notify_one();
    }
  }

  void start(int count) noexcept {
    try {
      for (; started_ < count; ++started_) std::thread([this] { live(); }).detach();
    } catch (const std::exception&) {
      // The system has no more threads. The existing threads do the work.
    }
  }

  void live() noexcept {
    std::fesetenv(FE_DFL_ENV);  // replaces the floating-point environment of the thread that created this one
    Helper self;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!wanted()) {
        self.is_called = false;
        self.next_asleep = std::exchange(asleep_, &self);
        self.wake.wait(lock, [&] { return self.is_called; });
        self.mask.restore();
        const Called called = call_some();
        lock.unlock();
        wake(called);
        lock.lock();
      }
      while (wanted()) {
        Job& job = *job_;
        const int worker = next_worker_++;
        working_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        job.work(worker);
        lock.lock();
        if (working_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
        const unsigned known = jobs_.load(std::memory_order_relaxed);
        lock.unlock();
        spinning_.fetch_add(1, std::memory_order_relaxed);
        spin_until([&] { return jobs_.load(std::memory_order_acquire) != known; });
        spinning_.fetch_sub(1, std::memory_order_relaxed);
        lock.lock();
      }
    }
  }

  // Whether the current job needs another worker. The caller must hold the lock.
  bool wanted() const noexcept { return job_ != nullptr && next_worker_ < workers_; }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mutex mutex_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  Helper* asleep_ = nullptr;
  int started_ = 0, workers_ = 0, next_worker_ = 0;
  int to_wake_ = 0, processor_ = -1;  // threads to wake, and the caller's processor
  std::atomic<int> working_{0}, spinning_{0};
  std::atomic<unsigned> jobs_{0};  // number of jobs so far; spinning threads wait for it to change
  std::atomic<Clock::time_point> alone_until_{};
  Clock::time_point last_wait_{};  // when the last long wait of a caller began
};

std::atomic<int> thread_count{1};
std::atomic<int> fork_count{0};  // how often this process and its ancestors were forked

// Never destroyed. A forked child has no threads, and possibly locks that they held, so a new team replaces the old one.
alignas(Team) unsigned char team_bytes[sizeof(Team)];

Team& team() noexcept {
  static Team* const made = [] {
    auto* fresh = new (team_bytes) Team;
#ifdef NDGATHER_HAS_FORK
    pthread_atfork(nullptr, nullptr, [] {
      new (team_bytes) Team;
      fork_count.fetch_add(1, std::memory_order_relaxed);
    });
#endif
    return fresh;
  }();
  return *made;
}

}  // namespace

int threads() noexcept { return thread_count.load(std::memory_order_relaxed); }

int usable_threads() noexcept { return threads() > 1 && team().is_hindered() ? 1 : threads(); }

void set_threads(int count) noexcept { thread_count.store(count, std::memory_order_relaxed); }

void prepare_threads() noexcept { team(); }

int forks() noexcept { return fork_count.load(std::memory_order_relaxed); }

bool threads_are_awake() noexcept { return team().is_awake(); }

bool Stop::reached() noexcept {
  constexpr auto kAskEvery = std::chrono::milliseconds(50);
  if (wanted() || std::this_thread::get_id() != caller_) return wanted();
  const auto now = coarse_time();
  if (next_ == std::chrono::nanoseconds{}) next_ = now + first_;
  if (now < next_) return false;
  next_ = now + kAskEvery;
  if (ask_(context_)) wanted_.store(true, std::memory_order_relaxed);
  return wanted();
}

bool Stop::look(Pace& pace) noexcept {
  constexpr auto kSlow = std::chrono::milliseconds(1);
  constexpr int kFirstLooks = 2;  // a block is prefetched before the one before it is moved
  const auto now = coarse_time(), before = std::exchange(pace.looked, now);
  pace.blocks = ++pace.looks > kFirstLooks && now - before < kSlow ? 16 : 0;
  return reached();
}

void share(int workers, Size tasks, Stop* stop, Task run, void* context) noexcept {
  if (workers <= 1 || tasks <= 1 || !team().take()) {
    for (Size task = 0; task < tasks; ++task) {
      if (stop != nullptr && stop->reached()) return;
      run(context, 0, task);
    }
    return;
  }
  Job job(run, context, workers, tasks, stop);
  team().run(job, workers);
  team().release();
}

}  // namespace ndgather
