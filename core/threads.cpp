// threads.cpp - one team of sleeping threads that one call at a time uses.
#include "threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define NDGATHER_HAS_FORK
#endif
#if defined(__linux__)
#include <sched.h>

#include <array>
#endif

namespace ndgather {
namespace {

struct Job {
  static constexpr int kMostStretches = 64;
  struct alignas(64) Stretch {  // on a cache line of its own
    std::atomic<Size> next;
    Size end;
  };

  Task task;
  void* context;
  Stop* stop;
  int stretches;
  Stretch stretch[kMostStretches];

  Job(Task t, void* c, int count, Size units, Stop* s) noexcept
      : task(t), context(c), stop(s), stretches(std::min(count, kMostStretches)) {
    for (int i = 0; i < stretches; ++i) {
      stretch[i].next.store(units * i / stretches, std::memory_order_relaxed);
      stretch[i].end = units * (i + 1) / stretches;
    }
  }

  void work(int seat) noexcept {
    for (int i = 0; i < stretches; ++i) {
      Stretch& at = stretch[(seat + i) % stretches];
      for (Size unit; (unit = at.next.fetch_add(1, std::memory_order_relaxed)) < at.end;) {
        if (stop != nullptr && stop->reached(seat)) return;
        task(context, seat, unit);
      }
    }
  }
};

// Calls in quick succession find the threads awake: for so long they look out for the next job
// before they sleep. A call that finds them asleep waits 5 to 50 microseconds for their help.
constexpr auto kLookout = std::chrono::microseconds(50);
// One call may ask more than once whether help is at hand: before it checks its indices, and after.
constexpr auto kOneCall = std::chrono::microseconds(10);

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks at `come` again and again. False: it did not come true in time.
template <class Come>
bool look_out(Come come) noexcept {
  const auto end = std::chrono::steady_clock::now() + kLookout;
  do {
    for (int look = 0; look < 16; ++look) {
      if (come()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Linux often wakes a thread on the processor of whoever wakes it, though others are idle, and leaves
// it there for some milliseconds: in 130 of 340 jobs in a row, with two processors, the help had done
// nothing or all of the work in the place of the caller. So hired threads are kept off the caller's
// processor while it works; when it sleeps they may have that as well.
class Hired {
 public:
  int count() const noexcept { return count_; }

#if defined(__linux__)
  static constexpr int kMost = 1023;

  void add(std::thread& thread) noexcept {
    handles_[static_cast<std::size_t>(count_++)] = thread.native_handle();
    kept_off_ = kNobody;  // it may run wherever who made it may
  }
  void keep_off_caller() noexcept { keep_off(sched_getcpu()); }
  void let_go() noexcept { keep_off(kNobody); }

 private:
  static constexpr int kNobody = -1;

  void keep_off(int processor) noexcept {
    if (processor == kept_off_ || count_ == 0) return;
    // Another program may have said where our threads are to run.
    cpu_set_t now;
    if (pthread_getaffinity_np(handles_[0], sizeof(now), &now) != 0) return;
    if (!CPU_EQUAL(&now, &set_)) given_ = now;
    cpu_set_t wanted = given_;
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_CLR(processor, &wanted);
    if (CPU_COUNT(&wanted) == 0) return;
    for (int h = 0; h < count_; ++h) {
      pthread_setaffinity_np(handles_[static_cast<std::size_t>(h)], sizeof(wanted), &wanted);
    }
    set_ = wanted;
    kept_off_ = processor;
  }

  std::array<pthread_t, kMost> handles_;
  int kept_off_ = kNobody;
  cpu_set_t given_{}, set_{};
#else
  void add(std::thread&) noexcept { ++count_; }
  void keep_off_caller() noexcept {}
  void let_go() noexcept {}

 private:
#endif
  int count_ = 0;
};

// Lives as long as the process: its threads may sleep on it until the very end.
class Team {
 public:
  // Takes the team for one call; false if another call has it.
  bool take() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void release() noexcept { busy_.clear(std::memory_order_release); }

  bool at_hand() noexcept {
    if (looking_out_.load(std::memory_order_relaxed) > 0) return true;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const auto since = now - asked_.load(std::memory_order_relaxed);
    if (since > kOneCall) {
      asked_.store(now, std::memory_order_relaxed);
      calls_are_close_.store(since < kLookout, std::memory_order_relaxed);
    }
    return calls_are_close_.load(std::memory_order_relaxed);
  }

  void run(Job& job, int seats) noexcept {
    hire(seats - 1);
    int sleepers;
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      next_seat_ = 1;
      seats_ = seats;
      sleepers = std::min(asleep_, seats - 1 - looking_out_.load(std::memory_order_relaxed));
      jobs_.fetch_add(1, std::memory_order_release);
    }
    hired_.keep_off_caller();
    for (; sleepers > 0; --sleepers) wake_.notify_one();
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // who has not woken by now is not needed
    }
    const auto done = [this] { return working_.load(std::memory_order_acquire) == 0; };
    if (look_out(done)) return;
    hired_.let_go();
    std::unique_lock lock(mutex_);
    done_.wait(lock, done);
  }

 private:
  void hire(int count) noexcept {
    while (hired_.count() < count) {
      try {
        std::thread thread([this] { live(); });
        hired_.add(thread);
        thread.detach();
      } catch (const std::exception&) {
        return;  // no more threads to be had: those that are here do the work
      }
    }
  }

  void live() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++asleep_;
      wake_.wait(lock, [this] { return wanted(); });
      --asleep_;
      while (wanted()) {
        Job& job = *job_;
        const int seat = next_seat_++;
        working_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        job.work(seat);
        lock.lock();
        if (working_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
        const unsigned known = jobs_.load(std::memory_order_relaxed);
        lock.unlock();
        looking_out_.fetch_add(1, std::memory_order_relaxed);
        look_out([&] { return jobs_.load(std::memory_order_acquire) != known; });
        looking_out_.fetch_sub(1, std::memory_order_relaxed);
        lock.lock();
      }
    }
  }

  // Whether the job of the moment has a seat left. Under the lock.
  bool wanted() const noexcept { return job_ != nullptr && next_seat_ < seats_; }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Hired hired_;
  Job* job_ = nullptr;
  int seats_ = 0, next_seat_ = 0, asleep_ = 0;
  std::atomic<int> working_{0}, looking_out_{0};
  std::atomic<std::chrono::steady_clock::duration> asked_{};  // when it was, whether help is at hand
  std::atomic<bool> calls_are_close_{false};
  std::atomic<unsigned> jobs_{0};  // posted so far: what a thread on the lookout looks at
};

std::atomic<int> thread_count{1};

// Never destroyed. In a forked child the threads are gone and the locks may be held by nobody, so
// the child gets a new team in the place of the old one.
alignas(Team) unsigned char team_bytes[sizeof(Team)];

Team& team() noexcept {
  static Team* const made = [] {
    auto* fresh = new (team_bytes) Team;
#ifdef NDGATHER_HAS_FORK
    pthread_atfork(nullptr, nullptr, [] { new (team_bytes) Team; });
#endif
    return fresh;
  }();
  return *made;
}

}  // namespace

int threads() noexcept { return thread_count.load(std::memory_order_relaxed); }

void set_threads(int count) noexcept { thread_count.store(count, std::memory_order_relaxed); }

void prepare_threads() noexcept { team(); }

bool threads_at_hand() noexcept { return team().at_hand(); }

bool Stop::reached(int seat) noexcept {
  constexpr auto kAskEvery = std::chrono::milliseconds(50);
  if (wanted() || seat != 0) return wanted();
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + kAskEvery;
  if (ask_(context_)) wanted_.store(true, std::memory_order_relaxed);
  return wanted();
}

void share(int seats, int stretches, Size units, Stop* stop, Task task, void* context) noexcept {
  if (seats <= 1 || units <= 1 || !team().take()) {
    for (Size unit = 0; unit < units; ++unit) {
      if (stop != nullptr && stop->reached(0)) return;
      task(context, 0, unit);
    }
    return;
  }
  Job job(task, context, stretches, units, stop);
  team().run(job, seats);
  team().release();
}

}  // namespace ndgather
