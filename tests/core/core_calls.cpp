// core_calls.cpp - random calls of the core from many threads at once, without Python in between.
//
//   core_calls THREADS CALLS
//
// Every thread makes calls of its own and some on arrays that all share, with every index type, mode,
// width and layout, and compares each result with plain loops; meanwhile the number of threads of
// the core and the limit of kept memory change. Every array has a block of its own, as large as it
// needs to be and no larger, so that AddressSanitizer sees each byte beyond it. ThreadSanitizer and
// LeakSanitizer see no other code than the core's and this.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "memory.h"
#include "run.h"
#include "threads.h"

namespace ndgather {
extern const Engine engine_baseline;
#ifdef NDGATHER_X86_64
extern const Engine engine_avx2, engine_avx512;
#endif
}  // namespace ndgather

namespace {

using namespace ndgather;

using Random = std::mt19937_64;

[[noreturn]] void fail(const char* what, unsigned long long seed) {
  std::fprintf(stderr, "core_calls: %s, seed %llu\n", what, seed);
  std::abort();
}

Size number(Random& random, Size low, Size high) {
  return std::uniform_int_distribution<Size>(low, high)(random);
}

// An array in memory of its own, packed, with gaps, or backwards along some axes.
struct Owned {
  std::vector<Size> shape, strides;
  std::unique_ptr<char[]> memory;
  Size bytes = 0, first = 0, element;

  Owned(Random& random, std::vector<Size> sizes, Size element_bytes, bool packed)
      : shape(std::move(sizes)), strides(shape.size()), element(element_bytes) {
    Size stride = element, reach = element;
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (!packed && number(random, 0, 2) == 0) stride += element * number(random, 1, 3);
      const bool backwards = !packed && number(random, 0, 2) == 0;
      strides[d] = backwards ? -stride : stride;
      const Size steps = std::max<Size>(shape[d] - 1, 0);
      if (backwards) first += steps * stride;
      reach += steps * stride;
      stride *= std::max<Size>(shape[d], 1);
    }
    bytes = reach;
    memory.reset(new char[static_cast<std::size_t>(bytes)]);
    for (Size b = 0; b < bytes; ++b) memory[static_cast<std::size_t>(b)] = static_cast<char>(random());
  }

  Array view() const {
    return {memory.get() + first, static_cast<int>(shape.size()), shape.data(), strides.data()};
  }

  Size count() const {
    Size n = 1;
    for (Size size : shape) n *= size;
    return n;
  }

  // The element at place `at` in C order.
  char* place(Size at) const {
    char* to = memory.get() + first;
    for (std::size_t d = shape.size(); d-- > 0;) {
      to += at % shape[d] * strides[d];
      at /= shape[d];
    }
    return to;
  }

  std::vector<char> kept() const { return {memory.get(), memory.get() + bytes}; }
};

Size index_bytes(IndexType type) { return Size{1} << (static_cast<int>(type) & 3); }

void write_index(char* to, IndexType type, std::uint64_t value) {
  // Little-endian, as everywhere where the sanitizers are.
  std::memcpy(to, &value, static_cast<std::size_t>(index_bytes(type)));
}

struct Value {
  bool is_unsigned;
  std::uint64_t bits;
};

Value read_index(const char* from, IndexType type) {
  const int place = static_cast<int>(type);
  std::uint64_t value = 0;
  std::memcpy(&value, from, static_cast<std::size_t>(index_bytes(type)));
  if (place >= 4) return {true, value};
  const int unused = 64 - 8 * static_cast<int>(index_bytes(type));
  return {false, static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused)};
}

// The place on an axis that a value names, or -1.
Size named(Value value, Size extent, Mode mode) {
  if (extent == 0) return -1;
  const auto size = static_cast<std::uint64_t>(extent);
  const auto plain = static_cast<std::int64_t>(value.bits);
  const bool negative = !value.is_unsigned && plain < 0;
  if (mode == Mode::clip) {
    return negative ? 0 : static_cast<Size>(std::min(value.bits, size - 1));
  }
  if (mode == Mode::wrap) {
    if (!negative) return static_cast<Size>(value.bits % size);
    return (plain % extent + extent) % extent;
  }
  if (negative) return plain >= -extent ? plain + extent : -1;
  return value.bits < size ? static_cast<Size>(value.bits) : -1;
}

constexpr Size kMostElements = 200'000;

enum class Kind { nd, elements, axis };

// One call: its arguments and, by plain loops, which element of far meets which of near.
struct Call {
  Kind kind;
  Size option = 0, batch_dims = 0;
  IndexType type;
  Mode mode;
  std::unique_ptr<Owned> far, indices, near;
  std::vector<Size> places;  // in far, for each element of near; -1 where the tuple names none
  Size bad = 0;              // entries that name no place
  Size first_bad = -1;

  Call(Random& random, Size element, bool large, bool wild, bool packed) {
    kind = static_cast<Kind>(number(random, 0, 2));
    type = static_cast<IndexType>(number(random, 0, 7));
    mode = static_cast<Mode>(number(random, 0, 3));
    const int rank = static_cast<int>(number(random, 1, large ? 2 : 4));
    const auto size = [&](int) {
      return large ? number(random, 90, rank == 1 ? 9'000 : 400)
                   : number(random, number(random, 0, 9) == 0 ? 0 : 1, 7);
    };
    std::vector<Size> shape(static_cast<std::size_t>(rank)), taken, result;
    for (int d = 0; d < rank; ++d) shape[static_cast<std::size_t>(d)] = size(d);
    std::vector<Size> extents;
    switch (kind) {
      case Kind::nd: {
        batch_dims = large ? 0 : number(random, 0, rank);
        taken.assign(shape.begin(), shape.begin() + batch_dims);
        for (Size more = number(random, large ? 1 : 0, 2); more > 0; --more) taken.push_back(size(0));
        const Size depth = number(random, 0, rank - batch_dims);
        extents.assign(shape.begin() + batch_dims, shape.begin() + batch_dims + depth);
        result = taken;
        taken.push_back(depth);
        result.insert(result.end(), shape.begin() + batch_dims + depth, shape.end());
        break;
      }
      case Kind::elements:
        option = number(random, 0, rank - 1);
        for (int d = 0; d < rank; ++d) {
          const Size of = shape[static_cast<std::size_t>(d)];
          taken.push_back(d == option ? size(d) : of - (of > 0 ? number(random, 0, 1) : 0));
        }
        extents = {shape[static_cast<std::size_t>(option)]};
        result = taken;
        break;
      case Kind::axis:
        option = number(random, 0, rank - 1);
        batch_dims = large ? 0 : number(random, 0, option);
        taken.assign(shape.begin(), shape.begin() + batch_dims);
        for (Size more = number(random, large ? 1 : 0, large ? 1 : 2); more > 0; --more) {
          taken.push_back(size(0));
        }
        extents = {shape[static_cast<std::size_t>(option)]};
        result.assign(shape.begin(), shape.begin() + option);
        result.insert(result.end(), taken.begin() + batch_dims, taken.end());
        result.insert(result.end(), shape.begin() + option + 1, shape.end());
        break;
    }
    Size elements = 1;
    for (Size n : result) elements *= n;
    if (elements > kMostElements) {  // rows of rows: one element of each will do
      taken = result = shape;
      kind = Kind::elements;
      option = batch_dims = 0;
      extents = {shape.front()};
    }
    far = std::make_unique<Owned>(random, shape, element, packed);
    indices = std::make_unique<Owned>(random, taken, index_bytes(type), packed);
    near = std::make_unique<Owned>(random, result, element, packed);
    fill_indices(random, extents, wild);
    find_places(extents);
  }

  void fill_indices(Random& random, const std::vector<Size>& extents, bool wild) {
    const Size n = indices->count();
    for (Size at = 0; at < n; ++at) {
      const Size column = kind == Kind::nd ? at % static_cast<Size>(extents.size()) : 0;
      const Size extent = extents[static_cast<std::size_t>(column)];
      const bool is_unsigned = static_cast<int>(type) >= 4;
      const Size most = index_bytes(type) == 1 ? (is_unsigned ? 255 : 127) : extent;
      const Size value = number(random, is_unsigned ? 0 : -std::min(extent, most),
                                std::max<Size>(std::min(extent - 1, most), 0));
      const bool strange = wild && number(random, 0, 19) == 0;
      write_index(indices->place(at), type,
                  strange ? random() : static_cast<std::uint64_t>(value));
    }
  }

  void find_places(const std::vector<Size>& extents) {
    const Size n = indices->count();
    const auto columns = static_cast<Size>(extents.size());
    std::vector<Size> axis_place(static_cast<std::size_t>(n));
    for (Size at = 0; at < n; ++at) {
      const Size extent = extents[static_cast<std::size_t>(kind == Kind::nd ? at % columns : 0)];
      const Size place = named(read_index(indices->place(at), type), extent, mode);
      axis_place[static_cast<std::size_t>(at)] = place;
      if (place >= 0) continue;
      if (bad++ == 0) first_bad = at;
    }
    const auto& shape = far->shape;
    const auto rank = static_cast<Size>(shape.size());
    places.resize(static_cast<std::size_t>(near->count()));
    std::vector<Size> at(near->shape.size());
    for (Size entry = 0; entry < near->count(); ++entry) {
      Size rest = entry;
      for (std::size_t d = at.size(); d-- > 0;) {
        at[d] = rest % near->shape[d];
        rest /= near->shape[d];
      }
      const auto of = [&](Size d) { return at[static_cast<std::size_t>(d)]; };
      std::vector<Size> to(shape.size());
      Size tuple = 0;
      bool good = true;
      const auto put = [&](Size d, Size place) {
        good &= place >= 0;
        to[static_cast<std::size_t>(d)] = place;
      };
      const auto fold = [&](Size d, Size axis) {
        tuple = tuple * indices->shape[static_cast<std::size_t>(axis)] + of(d);
      };
      if (kind == Kind::nd) {
        const auto positions = static_cast<Size>(indices->shape.size()) - 1;
        for (Size d = 0; d < positions; ++d) fold(d, d);
        for (Size d = 0; d < batch_dims; ++d) put(d, of(d));
        for (Size c = 0; c < columns; ++c) {
          put(batch_dims + c, axis_place[static_cast<std::size_t>(tuple * columns + c)]);
        }
        for (Size d = batch_dims + columns; d < rank; ++d) {
          put(d, of(positions + d - batch_dims - columns));
        }
      } else if (kind == Kind::elements) {
        for (Size d = 0; d < rank; ++d) {
          fold(d, d);
          put(d, of(d));
        }
        put(option, axis_place[static_cast<std::size_t>(tuple)]);
      } else {
        const Size more = static_cast<Size>(indices->shape.size()) - batch_dims;
        for (Size d = 0; d < batch_dims; ++d) fold(d, d);
        for (Size d = 0; d < more; ++d) fold(option + d, batch_dims + d);
        for (Size d = 0; d < option; ++d) put(d, of(d));
        put(option, axis_place[static_cast<std::size_t>(tuple)]);
        for (Size d = option + 1; d < rank; ++d) put(d, of(d - 1 + more));
      }
      Size flat = 0;
      for (Size d = 0; d < rank; ++d) {
        flat = flat * shape[static_cast<std::size_t>(d)] + to[static_cast<std::size_t>(d)];
      }
      places[static_cast<std::size_t>(entry)] = good ? flat : -1;
    }
  }

  // The plan, by the shape rule and the plan function of this kind of call.
  bool plan_for(Plan& plan) const {
    const Array data = far->view(), index = indices->view(), other = near->view();
    Shape shape;
    Size first = option, second = batch_dims;
    Refusal refusal;
    plan.element = plan.width = far->element;
    plan.index_type = type;
    plan.mode = mode;
    switch (kind) {
      case Kind::nd:
        refusal = shape_gather_nd(data, index, batch_dims, shape);
        plan_gather_nd(plan, data, index, other, batch_dims);
        break;
      case Kind::elements:
        refusal = shape_gather_elements(data, index, first, shape);
        plan_gather_elements(plan, data, index, other, first);
        break;
      case Kind::axis:
        refusal = shape_gather(data, index, first, second, shape);
        plan_gather(plan, data, index, other, first, second);
        break;
    }
    return !refusal && same_shape(other, shape);
  }

  bool is_empty() const { return near->count() == 0; }
};

void check_gather(const Call& call, unsigned long long seed) {
  const std::vector<char> data = call.far->kept(), indices = call.indices->kept();
  Plan plan;
  if (!call.plan_for(plan)) fail("a shape was refused", seed);
  const bool done = run_gather(plan);
  if (data != call.far->kept() || indices != call.indices->kept()) fail("inputs changed", seed);
  if (call.is_empty()) return;
  if (done != (call.bad == 0 || call.mode == Mode::fill)) fail("bad entries missed", seed);
  if (!done) return;
  const auto width = static_cast<std::size_t>(call.far->element);
  const std::vector<char> zeros(width);
  for (Size at = 0; at < call.near->count(); ++at) {
    const Size place = call.places[static_cast<std::size_t>(at)];
    const char* right = place < 0 ? zeros.data() : call.far->place(place);
    if (std::memcmp(call.near->place(at), right, width) != 0) fail("a wrong value", seed);
  }
}

void check_look(const Call& call, unsigned long long seed) {
  Plan plan, check;
  if (!call.plan_for(plan)) fail("a shape was refused", seed);
  plan_check(check, plan, call.indices->view());
  const Outside found = run_check(check);
  if (found.count != call.bad) fail("bad entries miscounted", seed);
  if (call.bad > 0 && found.entry != call.first_bad) fail("not the first bad entry", seed);
}

void check_scatter(const Call& call, bool add, unsigned long long seed) {
  if (call.kind == Kind::axis) return;
  const auto width = static_cast<std::size_t>(call.far->element);
  const Size n = call.far->count();
  std::vector<char> right(static_cast<std::size_t>(n) * width);
  const auto right_at = [&](Size at) { return right.data() + static_cast<std::size_t>(at) * width; };
  for (Size at = 0; at < n; ++at) std::memcpy(right_at(at), call.far->place(at), width);
  for (Size at = 0; at < call.near->count(); ++at) {
    const Size place = call.places[static_cast<std::size_t>(at)];
    if (place < 0) continue;
    if (!add) {
      std::memcpy(right_at(place), call.near->place(at), width);
      continue;
    }
    std::uint32_t old, update;
    std::memcpy(&old, right_at(place), sizeof old);
    std::memcpy(&update, call.near->place(at), sizeof update);
    old += update;
    std::memcpy(right_at(place), &old, sizeof old);
  }
  Plan plan;
  if (!call.plan_for(plan)) fail("a shape was refused", seed);
  const bool done = run_scatter(plan, add ? Reduction::add : Reduction::none, ElementType::u32);
  if (call.is_empty()) return;
  if (done != (call.bad == 0 || call.mode == Mode::fill)) fail("bad entries missed", seed);
  if (!done) return;
  for (Size at = 0; at < n; ++at) {
    if (std::memcmp(right_at(at), call.far->place(at), width) != 0) fail("a wrong sum", seed);
  }
}

const char* engine_name() {
#ifdef NDGATHER_X86_64
  if (&engine() == &engine_avx512) return "avx512";
  if (&engine() == &engine_avx2) return "avx2";
  if (engine().gather == engine_avx2.gather && engine().scatter == engine_avx512.scatter) return "both";
#endif
  return &engine() == &engine_baseline ? "baseline" : "unknown";
}

// The same data and indices for all threads; each has a result of its own.
struct Shared {
  std::vector<float> data;
  std::vector<std::int32_t> indices;
  Shared() : data(300 * 1000), indices(600 * 1000) {
    Random random(1);
    for (float& value : data) value = static_cast<float>(random() % 1'000'000);
    for (std::int32_t& value : indices) value = static_cast<std::int32_t>(number(random, -300, 299));
  }

  void gather_bands(unsigned long long seed) {
    const Size from[] = {300, 1000}, to[] = {600, 1000};
    const Size from_strides[] = {4000, 4}, to_strides[] = {4000, 4};
    const auto result_bytes = indices.size() * sizeof(float);
    auto* result = static_cast<float*>(memory::allocate(result_bytes));
    if (result == nullptr) fail("no memory", seed);
    Plan plan;
    plan.element = plan.width = sizeof(float);
    plan.index_type = IndexType::i32;
    const Array near{reinterpret_cast<char*>(result), 2, to, to_strides};
    plan_gather_elements(plan, {reinterpret_cast<char*>(data.data()), 2, from, from_strides},
                         {reinterpret_cast<char*>(indices.data()), 2, to, to_strides}, near, 0);
    if (!run_gather(plan)) fail("bad entries seen", seed);
    for (std::size_t at = 0; at < indices.size(); at += 97) {
      const int row = indices[at] < 0 ? indices[at] + 300 : indices[at];
      if (result[at] != data[static_cast<std::size_t>(row) * 1000 + at % 1000]) {
        fail("a wrong shared value", seed);
      }
    }
    memory::release(result);
  }
};

void work(unsigned long long first_seed, int calls, Shared& shared) {
  constexpr Size kWidths[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 64, 100, 200};
  for (int n = 0; n < calls; ++n) {
    const unsigned long long seed = first_seed + static_cast<unsigned long long>(n);
    Random random(seed);
    const bool add = number(random, 0, 1) == 0, large = n % 25 == 0;
    const Size width = add ? 4 : kWidths[number(random, 0, large ? 7 : 12)];
    const Call call(random, width, large, number(random, 0, 1) == 0, number(random, 0, 1) == 0);
    check_look(call, seed);
    check_gather(call, seed);
    check_scatter(call, add, seed);
    if (n % 25 == 12) shared.gather_bands(seed);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fputs("core_calls THREADS CALLS\n", stderr), 2;
  const int threads = std::atoi(arguments[1]), calls = std::atoi(arguments[2]);
  const char* wanted = std::getenv("NDGATHER_ENGINE");
  if (wanted != nullptr && std::strcmp(wanted, engine_name()) != 0) {
    return std::printf("%s: not for this processor\n", wanted), 0;
  }
  prepare_threads();
  set_threads(3);
  memory::set_limit(std::size_t{16} << 20);
  Shared shared;
  std::atomic<bool> stop{false};
  std::thread settings([&] {
    for (int n = 0; !stop; ++n) {
      set_threads(1 + n % 5);
      memory::set_limit(static_cast<std::size_t>(n % 4) << 22);
      if (n % 7 == 0) memory::release_kept();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::vector<std::thread> workers;
  for (int worker = 0; worker < threads; ++worker) {
    const auto seed = static_cast<unsigned long long>(worker) * 1'000'000;
    workers.emplace_back(work, seed, calls, std::ref(shared));
  }
  for (std::thread& worker : workers) worker.join();
  stop = true;
  settings.join();
  memory::release_kept();
  std::printf("%s: %d threads made %d calls each\n", engine_name(), threads, calls);
  return 0;
}
