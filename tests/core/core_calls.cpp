// core_calls.cpp - random calls of the core from many threads at once, without Python in between.
//
//   core_calls THREADS CALLS [SEED]
//
// Each thread makes its own calls; occasionally all threads make the same call at once, on the same data and indices.
// Meanwhile the number of threads of the core and the memory limit change. Calls that never end are detected.
// ThreadSanitizer and LeakSanitizer only see the core and this file.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "pool.h"
#include "random_call.h"
#include "run.h"

namespace {

using namespace ndgather;
using Seed = std::uint64_t;

// Data and indices shared by all threads; each thread has its own result, in pooled memory.
struct Shared {
  static constexpr Size kRows = 300, kLooks = 600, kColumns = 1024;
  std::vector<float> data;
  std::vector<std::int32_t> indices;

  Shared() : data(kRows * kColumns), indices(kLooks * kColumns) {
    std::mt19937_64 random(1);
    for (float& value : data) value = static_cast<float>(random() % 1'000'000);
    for (std::int32_t& value : indices) value = static_cast<std::int32_t>(random() % (2 * kRows)) - kRows;
  }

  bool gather() {
    const Size from[] = {kRows, kColumns}, to[] = {kLooks, kColumns}, strides[] = {4 * kColumns, 4};
    const auto result = static_cast<float*>(pool::allocate(indices.size() * sizeof(float)));
    if (result == nullptr) return false;
    Plan plan;
    plan.element = plan.width = sizeof(float);
    plan.index_type = IndexType::i32;
    plan_slices(plan, Kind::gather_elements, {reinterpret_cast<char*>(data.data()), 2, from, strides},
                {reinterpret_cast<char*>(indices.data()), 2, to, strides},
                {reinterpret_cast<char*>(result), 2, to, strides}, {});
    bool right = run_gather(plan);
    for (std::size_t at = 0; at < indices.size(); at += 97) {
      const Size row = indices[at] < 0 ? indices[at] + kRows : indices[at];
      right &= result[at] == data[static_cast<std::size_t>(row * kColumns) + at % kColumns];
    }
    pool::release(result);
    return right;
  }
};

struct Progress {
  std::barrier<> together;
  std::atomic<long> made{0};
  std::atomic<int> ended{0};
};

// Returns when all threads have ended.
void watch(const Progress& progress, int threads) {
  constexpr int kPatience = kTiny ? 100 : 1200;  // turns of 50 ms
  long seen = 0;
  for (int turn = 0; progress.ended < threads; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (seen != progress.made) turn = 0;
    seen = progress.made;
    if (turn < kPatience) continue;
    std::fprintf(stderr, "random call: none ends any more\n");
    std::abort();
  }
}

void work(Seed first, int calls, Shared& shared, Progress& progress) {
  for (int n = 0; n < calls; ++n, ++progress.made) {
    std::mt19937_64 random(first + static_cast<Seed>(n));
    std::uint8_t bytes[64];
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    random_calls::random_call(bytes, sizeof bytes);
    if (n % 64 != 32) continue;
    pool::set_limit(static_cast<std::size_t>(random() % 4) << 22);
    if (random() % 4 == 0) pool::release_kept();
    progress.together.arrive_and_wait();
    const bool right = shared.gather();
    progress.together.arrive_and_wait();  // no other call wakes the threads that wait for this one
    if (!right) {
      std::fprintf(stderr, "core_calls: a wrong shared value\n");
      std::abort();
    }
  }
  ++progress.ended;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 && count != 4) return std::fputs("core_calls THREADS CALLS [SEED]\n", stderr), 2;
  const int threads = std::atoi(arguments[1]), calls = std::atoi(arguments[2]);
  const Seed seed = count == 4 ? std::strtoull(arguments[3], nullptr, 10) << 40 : 0;
  if (random_calls::set_is_missing()) return 0;
  prepare_threads();
  Shared shared;
  Progress progress{std::barrier<>(threads)};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < threads; ++worker) {
    workers.emplace_back(work, seed + (static_cast<Seed>(worker) << 32), calls, std::ref(shared),
                         std::ref(progress));
  }
  watch(progress, threads);
  for (std::thread& worker : workers) worker.join();
  pool::release_kept();
  std::printf("%s: %d threads made %d calls each\n", loops().name, threads, calls);
  if (count == 4) random_calls::print_crossings();
  return 0;
}
