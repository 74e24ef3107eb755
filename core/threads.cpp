// threads.cpp - one team of sleeping threads that one call at a time uses.
#include "threads.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define NDGATHER_HAS_FORK
#endif

namespace ndgather {
namespace {

struct Job {
  Task task;
  void* context;
  Size units;
  std::atomic<Size> next{0};

  void work(int seat) noexcept {
    for (Size unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < units;) {
      task(context, seat, unit);
    }
  }
};

// Lives as long as the process: its threads may sleep on it until the very end.
class Team {
 public:
  // Takes the team for one call; false if another call has it.
  bool take() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void release() noexcept { busy_.clear(std::memory_order_release); }

  void run(Job& job, int seats) noexcept {
    hire(seats - 1);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      next_seat_ = 1;
      seats_ = seats;
    }
    for (int seat = 1; seat < seats; ++seat) wake_.notify_one();
    job.work(0);
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // who has not woken by now is not needed
    done_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void hire(int count) noexcept {
    for (; hired_ < count; ++hired_) {
      try {
        std::thread([this] { live(); }).detach();
      } catch (const std::exception&) {
        return;  // no more threads to be had: those that are here do the work
      }
    }
  }

  void live() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return job_ != nullptr && next_seat_ < seats_; });
      Job& job = *job_;
      const int seat = next_seat_++;
      ++working_;
      lock.unlock();
      job.work(seat);
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  int seats_ = 0, next_seat_ = 0, working_ = 0, hired_ = 0;
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

void share(int seats, Size units, Task task, void* context) noexcept {
  Job job{task, context, units};
  if (seats <= 1 || units <= 1 || !team().take()) {
    job.work(0);
    return;
  }
  team().run(job, seats);
  team().release();
}

}  // namespace ndgather
