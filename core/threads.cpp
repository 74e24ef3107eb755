// threads.cpp - a team of sleeping threads that is used by one call at a time.
#include "threads.h"

#include <algorithm>
#include <cfenv>
#include <ctime>
#include <deque>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

namespace ndgather {
namespace {

// How long threads spin before they sleep. A call that comes soon after finds them awake. Waking a thread takes 5 to 50 us.
constexpr auto kSpin = std::chrono::microseconds(50);

// If other programs, or spinning threads of other libraries, use the processors, a worker may be interrupted in the middle of
// a task, and no other thread can finish it. A single long wait has no effect, because the first access to memory can delay a
// worker as well. After a second one, calls use one thread for 80 times as long as the caller waited: for 120 ms after 1.5 ms.
// If a call waits again soon after this pause, the next pause lasts twice as many times as long, so waiting takes ever less of
// the time.
constexpr int kAlone = 40;
constexpr auto kMostAlone = std::chrono::milliseconds(400);

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

// The tasks of one call, divided into ranges.
struct Job {
  struct alignas(64) Range {  // on a cache line of its own
    std::atomic<Size> next;
    Size end;
  };

  Task run;
  void* context;
  Stop* stop;
  int workers, ranges;
  int processor;  // of the caller
  Range range[kLimits.shares_of_tasks];

  Job(Task r, void* c, int w, Size tasks, Stop* s) noexcept
      : run(r),
        context(c),
        stop(s),
        workers(w),
        ranges(std::min(w, kLimits.shares_of_tasks)),
        processor(WakingMask::processor()) {
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

// Never destroyed, because its threads may sleep until the process exits. It has no lock: a thread that is interrupted while it
// holds a lock would delay the caller, even if the thread has no task.
class Team {
 public:
  // Reserves the team for one call; returns false if another call is using it.
  bool take() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void release() noexcept { busy_.clear(std::memory_order_release); }

  bool is_awake() const noexcept { return awake_.load(std::memory_order_relaxed) > 0; }

  void run(Job& job) noexcept {
    start(job.workers - 1);
    job_ = &job;
    if (++jobs_ == 0) ++jobs_;
    open_.store(jobs_);
    wake_two(0);
    const auto started = Clock::now();
    job.work(0);
    open_.store(0);  // threads that have not woken by now are not needed
    const auto begin = Clock::now();
    if (spin_until([this] { return inside_.load() == 0; })) return;
    for (int inside; (inside = inside_.load()) != 0;) inside_.wait(inside);
    const auto waited = Clock::now() - begin;
    // If processors are idle, workers take at most about half as long again as the caller.
    if (waited - (begin - started) / 2 < std::chrono::nanoseconds(kLimits.longest_wait)) return;
    const bool again = begin - std::exchange(last_wait_, begin) < 2 * alone_;
    factor_ = again ? std::min(2 * factor_, 16 * kAlone) : kAlone;
    alone_ = std::min<Clock::duration>(factor_ * waited, kMostAlone);
    if (again) alone_until_.store(begin + alone_, std::memory_order_relaxed);
  }

  // Whether calls should use one thread for now. Any thread may ask.
  bool is_hindered() noexcept {
    const auto until = alone_until_.load(std::memory_order_relaxed);
    if (until == Clock::time_point{}) return false;
    if (Clock::now() < until) return true;
    end_pause();
    return false;
  }

  void end_pause() noexcept { alone_until_.store({}, std::memory_order_relaxed); }

 private:
  struct Helper {  // one of the threads
    enum State : int { awake, asleep, called };
    std::atomic<int> state{awake};
    WakingMask* mask = nullptr;  // may be changed by the thread that changes the state from asleep to called
  };

  // Wakes up to two sleeping threads, each of which wakes up to two others, so that the caller soon begins its own work. The
  // caller wakes workers 1 and 2, worker 1 wakes 3 and 4, and worker 2 wakes 5 and 6.
  void wake_two(int worker) noexcept {
    const int last = std::min(2 * worker + 2, std::min(job_->workers - 1, static_cast<int>(helpers_.size())));
    for (int other = 2 * worker + 1; other <= last; ++other) {
      Helper& helper = helpers_[static_cast<std::size_t>(other - 1)];
      int asleep = Helper::asleep;
      if (!helper.state.compare_exchange_strong(asleep, Helper::called)) continue;
      helper.mask->leave_out(job_->processor);
      helper.state.store(Helper::awake);
      helper.state.notify_one();
    }
  }

  void start(int count) noexcept {
    for (int worker = static_cast<int>(helpers_.size()) + 1; worker <= count; ++worker) {
      try {
        Helper& helper = helpers_.emplace_back();
        std::thread([this, &helper, worker] { live(helper, worker); }).detach();
      } catch (const std::exception&) {  // the system has no more threads, so the existing threads do the work
        if (static_cast<int>(helpers_.size()) == worker) helpers_.pop_back();
        return;
      }
    }
  }

  void live(Helper& self, int worker) noexcept {
    std::fesetenv(FE_DFL_ENV);  // replaces the floating-point environment of the thread that created this one
    WakingMask mask;
    self.mask = &mask;
    unsigned known = 0;
    const auto is_called = [&] {
      const unsigned job = open_.load();
      return job != 0 && job != known;
    };
    awake_.fetch_add(1, std::memory_order_relaxed);
    for (bool worked = false;;) {
      if (worked ? !spin_until(is_called) : !is_called()) {
        awake_.fetch_sub(1, std::memory_order_relaxed);
        int state = Helper::asleep;
        self.state.store(state);
        // Either this thread sees a new job, or the thread that should wake it sees that it is asleep.
        if (!is_called() || !self.state.compare_exchange_strong(state, Helper::awake)) {
          while ((state = self.state.load()) != Helper::awake) self.state.wait(state);
        }
        mask.restore();
        awake_.fetch_add(1, std::memory_order_relaxed);
      }
      known = open_.load();
      worked = known != 0 && work_on(known, worker);
    }
  }

  // Works on a job. Returns false if the job is closed, or has enough workers without this one.
  bool work_on(unsigned job, int worker) noexcept {
    inside_.fetch_add(1);
    const bool wanted = open_.load() == job && worker < job_->workers;
    if (wanted) {
      wake_two(worker);
      job_->work(worker);
    }
    if (inside_.fetch_sub(1) == 1) inside_.notify_one();
    return wanted;
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::deque<Helper> helpers_;  // worker i is helper i - 1
  Job* job_ = nullptr;          // changes only while no thread is inside
  unsigned jobs_ = 0;           // number of jobs so far, except 0
  std::atomic<unsigned> open_{0};  // the job that threads may enter, or 0
  std::atomic<int> inside_{0}, awake_{0};  // threads in the job, and threads that do not sleep
  std::atomic<Clock::time_point> alone_until_{};
  Clock::time_point last_wait_{};  // when the last long wait of a caller began
  Clock::duration alone_{};        // how long the last pause was, or would have been
  int factor_ = kAlone;            // how long the next pause is, as a multiple of the wait
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

void set_threads(int count) noexcept {
  thread_count.store(count, std::memory_order_relaxed);
  team().end_pause();
}

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
  team().run(job);
  team().release();
}

}  // namespace ndgather
