// random_call.cpp - random operators, modes, dtypes, layouts and numbers of threads, chosen by bytes; the bytes in
// gaps between elements are also compared.
#include "random_call.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "operators.h"
#include "run.h"

namespace ndgather::random_calls {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "random call: %s\n", what);
  std::abort();
}

// The code paths of the core, and the number of calls that took each.
struct Crossing {
  const char* border;
  std::atomic<long> calls{0};
};
enum Border {
  kUnscheduled, kBlocks, kShared, kTasks, kSlicesAhead, kRowsAhead, kIndicesAhead, kPastCaches, kSums, kPacked, kTiles, kSwapped, kNarrow,
  kWide, kRounds, kLast, kSplit, kParts, kJoined, kRepeated, kLongRuns, kSpread, kAlike, kBorders
};
Crossing crossings[kBorders] = {
    {"so few positions that nothing is scheduled"}, {"several blocks of offsets"}, {"several threads"}, {"several tasks"},
    {"slices are prefetched"}, {"the next row is prefetched"}, {"indices are prefetched"}, {"written past the caches"},
    {"offsets are summed up in few bits"}, {"panels are packed"}, {"bands are walked by tiles"}, {"bands along the outer of two dims"},
    {"owners, of narrow offsets"}, {"owners, of wide offsets"}, {"owners, in several rounds"},
    {"the last update of each slice alone"},
    {"a scatter is split along a dim"}, {"slices fall into parts"}, {"runs are joined"}, {"joined runs share indices"},
    {"runs too long to be joined"}, {"slices are walked by their elements"},
    {"several threads and planes that write to the same elements"}};

// Counts the code paths that a call is about to take.
void count_crossings(Plan plan, bool writes, bool assigns) {
  const auto count = [](Border border, bool crossed) {
    if (crossed) crossings[border].calls.fetch_add(1, std::memory_order_relaxed);
  };
  simplify(plan);
  if (plan.is_empty()) return;
  count(kUnscheduled, is_small(plan));
  if (is_small(plan)) return;
  plan.any_order |= !writes;
  const int slices = plan.slice_rank;
  arrange(plan, !writes);
  count(kSpread, plan.slice_rank < slices);
  const Schedule schedule = writes ? schedule_scatter(plan, assigns, threads()) : schedule_gather(plan, threads());
  const Split split = schedule.split;
  const bool shared = schedule.threads > 1;
  const bool owners = split == Split::owners, tiles = split == Split::tiles, panels = split == Split::panels;
  count(kShared, shared);
  count(kTasks, schedule.tasks > 1);
  count(kSlicesAhead, schedule.prefetch);
  count(kRowsAhead, schedule.prefetch_rows);
  count(kIndicesAhead, schedule.prefetch_indices);
  count(kPastCaches, schedule.nontemporal);
  count(kSums, plan.narrow);
  count(kPacked, panels);
  count(kTiles, tiles);
  count(kSwapped, (panels || tiles) && schedule.bands.swapped);
  count(kNarrow, owners && schedule.records.narrow);
  count(kWide, owners && !schedule.records.narrow);
  count(kRounds, owners && schedule.round < plan.positions);
  count(kLast, owners && schedule.mark_words > 0);
  count(kSplit, split == Split::dim);
  count(kParts, schedule.part_bytes > 0 || schedule.part_elements > 0);
  if (panels || tiles) return;
  if (writes && plan.loop_rank > 2 && shared) {  // bands in all dims except the first
    const Dim &plane = plan.loop[plan.loop_rank - 3], &along = (&plan.inner())[-1], &across = plan.inner();
    count(kAlike, plane.indexed == 0 && across.dense == plan.width && std::abs(across.index) >= kLine / 2 &&
                      std::abs(along.index) < kLine && std::abs(along.dense) >= kLine);
  }
  if (writes || plan.width <= 16) join_runs(plan, kTuning.short_run);
  count(kBlocks, plan.positions > kLimits.block);
  count(kJoined, plan.joined.run > 0);
  count(kRepeated, plan.joined.index != 0);
  count(kLongRuns, plan.joined.run == 0 && plan.loop_rank > 1);
}

// The amount of data: sizes of axes, and the maximum number of elements. All planes address the same elements.
enum class Scale { small, large, columns, planes };

Size most_elements(Scale scale) {
  return scale == Scale::small ? Size{1} << 12 : scale == Scale::large ? Size{1} << 16 : Size{1} << 18;
}

Size some_size(Choices& choices, Scale scale, Size most) {
  constexpr Size kSmall[] = {1, 2, 3, 0, 4, 5, 2, 7, 1, 3, 8, 9, 2, 16, 6, 17};
  constexpr Size kLarge[] = {64, 1, 128, 2, 300, 33, 512, 4, 1000, 16, 257, 3, 2048, 8, 100, 4096};
  const bool small = scale == Scale::small || choices.one_in(3);
  return std::min(small ? choices.one_of(kSmall) : choices.one_of(kLarge), most);
}

Sizes some_shape(Size rank, Choices& choices, Scale scale, Size most) {
  Sizes shape;
  for (Size d = 0; d < rank; ++d) {
    const Size left = std::max<Size>(most, 1);
    shape.push_back(rank > 7 ? (choices.one_in(10) ? 2 : 1) : some_size(choices, scale, left));
    most = left / std::max<Size>(shape.back(), 1);
  }
  return shape;
}

Sizes data_shape(const Call& call, Choices& choices, Scale scale) {
  constexpr Size kRanks[] = {2, 1, 3, 2, 4, 1, 3, 2, 5, 0, 2, 3, 6, 7, 33, 64};
  // Many rows on consecutive pages.
  if (scale == Scale::columns && kTiny) return {4 + choices.below(29), 4 + choices.below(60)};
  if (scale == Scale::columns) return {256 + 4 * choices.below(200), 4096 / call.type.element};
  if (scale == Scale::planes) {
    const Size least = kTiny ? 4 : 24;
    return {2 + choices.below(3), least + choices.below(13), least + choices.below(41)};
  }
  // Around the reach of narrow offsets, plus or minus a step. Only one-byte elements hit the limit exactly.
  if (kTiny && call.writes() && choices.one_in(call.type.element == 1 ? 2 : 6)) {
    return {Size{kNarrowOutside} / call.type.element + choices.below(3)};
  }
  Sizes shape = some_shape(choices.one_of(kRanks), choices, scale, most_elements(scale));
  if (!call.writes() && !shape.empty() && choices.one_in(16)) {
    constexpr Size kHuge[] = {Size{1} << 31, Size{1} << 32,           (Size{1} << 31) - 1, Size{1} << 53,
                              Size{1} << 62, Size{PTRDIFF_MAX}, (Size{1} << 32) + 1, 65536};
    shape[static_cast<std::size_t>(choices.below(rank(shape)))] = choices.one_of(kHuge);
  }
  return shape;
}

// Occasionally makes the options and the shape of indices invalid.
void spoil(Call& call, Sizes& shape, Choices& choices) {
  switch (choices.below(24)) {
    case 1: call.axis += 1 - choices.below(3); break;
    case 2: call.batch_dims += 1 - choices.below(3); break;
    case 3:
      if (!shape.empty()) {
        Size& size = shape[static_cast<std::size_t>(choices.below(rank(shape)))];
        size += Size{size < PTRDIFF_MAX};
      }
      break;
    case 4:
      if (!shape.empty()) shape.pop_back();
      break;
    case 5: shape.push_back(choices.below(3)); break;
    case 6: call.axis = PTRDIFF_MIN + choices.below(2); break;
    case 7: call.batch_dims = choices.one_in(2) ? PTRDIFF_MAX : PTRDIFF_MIN; break;
    default: break;
  }
}

// Chooses options and a matching shape of indices.
Sizes index_shape(Call& call, const Sizes& data, Choices& choices, Scale scale) {
  const Size r = rank(data);
  if (scale == Scale::columns) return {(data[0] + 1) / 2 + choices.below(40), data[1] - choices.below(3)};
  if (scale == Scale::planes) return {2 + choices.below(7), data[1] - choices.below(2), data[2] - choices.below(2)};
  if (!call.has_tuples() && r > 0) call.axis = choices.below(2 * r) - r;
  const Size axis = axis_of(call, data);
  Sizes shape;
  if (call.has_elements()) {
    for (Size d = 0; d < r; ++d) {
      if (d == axis) {
        shape.push_back(some_size(choices, scale, most_elements(scale)));
      } else {
        shape.push_back(choices.below(4) < 3 ? at(data, d) : std::max<Size>(at(data, d) - choices.below(3), 0));
      }
    }
    return shape;
  }
  const bool nd = call.has_tuples();
  const Size b = choices.one_in(2) ? choices.below((nd ? r : axis) + 1) : 0;
  const Size depth = nd ? choices.below(r - b + 1) : 1;
  Size most = most_elements(scale);
  for (Size d = 0; d < r; ++d) {
    if (nd ? d < b || d >= b + depth : d != axis) most /= std::max<Size>(at(data, d), 1);
  }
  for (Size c = 0; call.has_windows() && c < depth; ++c) {
    const Size size = at(data, b + c);
    call.window.push_back(std::min(size, choices.below(4)) + Size{choices.one_in(16)});
    most /= std::max<Size>(call.window.back(), 1);
  }
  shape.assign(data.begin(), data.begin() + b);
  const Sizes rest = some_shape(choices.one_in(16) ? 60 : choices.below(4), choices, scale, most);
  shape.insert(shape.end(), rest.begin(), rest.end());
  if (nd) shape.push_back(depth);
  call.batch_dims = !nd && b < rank(shape) && choices.one_in(4) ? b - rank(shape) : b;
  return shape;
}

std::uint64_t index_value(int style, Size extent, Size entry, IndexType type, Choices& choices) {
  const auto size = static_cast<std::uint64_t>(std::max<Size>(extent, 1));
  switch (style) {
    case 0: return choices.random() % size;
    case 1: return choices.random() % (2 * size) - size;
    case 2: return choices.random();
    case 3: return static_cast<std::uint64_t>(entry) % size;
    case 4: return choices.random() % std::min<std::uint64_t>(size, 3);  // few positions, at the beginning or the end
    case 7: return size - 1 - choices.random() % std::min<std::uint64_t>(size, 3);
    case 5: {  // occasionally out of bounds
      const std::uint64_t value = choices.random() % size;
      return choices.random() % 64 != 0 ? value : value + size;
    }
    case 6: {  // at the limits of the axis and of the type
      const std::uint64_t half = std::uint64_t{1} << (8 * bytes_of(type) - 1);
      const std::uint64_t limits[] = {0, size - 1, size, -size, -size - 1, half, half - 1, 2 * half - 1};
      return limits[choices.random() % 8];
    }
    default: return choices.byte();
  }
}

std::optional<Tensor> some_indices(const Call& call, const Sizes& data, const Sizes& shape, Choices& choices,
                                   Scale scale) {
  auto tensor = lay_out(shape, bytes_of(call.index_type), false, choices, scale == Scale::planes && rank(shape) > 1);
  if (!tensor) return tensor;
  choices.fill(tensor->memory.get(), tensor->bytes);
  const int style = static_cast<int>(choices.below(9));
  Size entry = 0;
  each(shape, [&](const Sizes& where) {
    const Size extent = extent_of(call, data, where);
    store_integer(tensor->place(where), call.index_type, index_value(style, extent, entry++, call.index_type, choices));
  });
  return tensor;
}

// Random elements. Long doubles are converted from doubles, because not every bit pattern is a number.
std::optional<Tensor> some_elements(const Call& call, const Sizes& shape, bool written, Choices& choices) {
  auto tensor = lay_out(shape, call.type.element, written, choices);
  if (!tensor) return tensor;
  choices.fill(tensor->memory.get(), tensor->bytes);
  if (call.type.type != ElementType::long_double && call.type.type != ElementType::complex_long_double) return tensor;
  each(shape, [&](const Sizes& where) {
    for (Size part = 0; part < call.type.element; part += Size{sizeof(long double)}) {
      const auto value = static_cast<double>(static_cast<std::int64_t>(choices.random()));
      put(tensor->place(where) + part, static_cast<long double>(value * 0x1p-32));
    }
  });
  return tensor;
}

Options options_of(const Call& call) {
  Options options{call.axis, call.batch_dims, static_cast<int>(call.window.size()), {}};
  std::copy(call.window.begin(), call.window.end(), options.window);
  return options;
}

// Whether the shape rule of the core agrees with the operator; it also normalizes the options.
void compare_shapes(Call& call, const Sizes& data, const Sizes& indices, const std::optional<Sizes>& wanted) {
  const Sizes unread(2 * kMaxRank, 0);
  const Array data_view{nullptr, static_cast<int>(data.size()), data.data(), unread.data()};
  const Array indices_view{nullptr, static_cast<int>(indices.size()), indices.data(), unread.data()};
  Shape shape;
  Options options = options_of(call);
  const Refusal refusal = slices_shape(call.kind, data_view, indices_view, options, shape);
  call.axis = options.axis;
  call.batch_dims = options.batch_dims;
  require(static_cast<bool>(refusal) != wanted.has_value(), "the shape rule refuses other shapes");
  if (refusal) return;
  require(std::equal(wanted->begin(), wanted->end(), shape.size, shape.size + shape.rank), "the shape differs");
}

void plan_by(const Call& call, Plan& plan, const Array& indexed, const Array& indices, const Array& dense) {
  plan_slices(plan, call.kind, indexed, indices, dense, options_of(call));
  for (int c = 0; c < plan.column_count && !call.negative; ++c) plan.column[c].wrap = 0;
}

// Compares every element of `got` with `wanted`, and every byte between elements.
void require_same(const Tensor& got, Block wanted, const Call& call) {
  if (got.equals(wanted)) return;
  each(got.shape, [&](const Sizes& where) {
    char* const expected = wanted.data() + got.offset(where);
    require(same_element(call.reduction, call.type, got.place(where), expected), "an element differs");
    std::memcpy(expected, got.place(where), static_cast<std::size_t>(got.element));
  });
  require(got.equals(wanted), "a byte between elements was written");
}

// After a refusal, elements may have any value, but the bytes between them must be unchanged.
void require_gaps_untouched(const Tensor& got, Block before) {
  each(got.shape, [&](const Sizes& where) {
    std::memcpy(before.data() + got.offset(where), got.place(where), static_cast<std::size_t>(got.element));
  });
  require(got.equals(before), "a byte between elements was written");
}

// Computes the expected contents of the written array from `before`, its previous contents.
void carry_out(const Call& call, const Plan& plan, const Tensor& data, const Tensor& indices, const Tensor& dense,
               Block& before) {
  const auto element = static_cast<std::size_t>(call.type.element);
  const Block zeros(element, 0);
  Meeting meeting{call, data, indices};
  each(dense.shape, [&](const Sizes& to) {
    const bool inside = meeting.find(to);
    if (call.writes()) {
      if (!inside) return;
      apply(call.reduction, call.type, plan.table, before.data() + data.offset(meeting.found), dense.place(to));
    } else {
      const char* const fill = plan.fill != nullptr ? plan.fill : zeros.data();
      std::memcpy(before.data() + dense.offset(to), inside ? data.place(meeting.found) : fill, element);
    }
  });
}

bool copy_whole(const Call& call, const Sizes& shape, Choices& choices) {
  const auto elements = product(shape, call.type.element);
  if (!elements || *elements > most_elements(Scale::small) || *elements == 0) return false;
  const auto from = some_elements(call, shape, false, choices), to = some_elements(call, shape, true, choices);
  if (!from || !to) return false;
  Block wanted = to->copy();
  each(shape, [&](const Sizes& where) {
    std::memcpy(wanted.data() + to->offset(where), from->place(where), static_cast<std::size_t>(call.type.element));
  });
  Plan plan;
  plan_copy(plan, from->view(), to->view(), call.type.element);
  require(run_gather(plan), "a copy was refused");
  require(to->equals(wanted), "a copy differs");
  return true;
}

struct Arrays {
  Tensor data, indices, dense;  // dense: the result, or updates
};

std::optional<Arrays> some_arrays(Call& call, const Sizes& data, const Sizes& indices, const Sizes& result,
                                  Choices& choices, Scale scale) {
  const auto results = product(result, call.type.element), entries = product(indices, 8);
  const Size most = most_elements(scale);
  if (!results || !entries || *results > most || *entries > most) return {};
  auto first = some_elements(call, data, call.writes(), choices);
  auto second = some_indices(call, data, indices, choices, scale);
  auto third = some_elements(call, result, !call.writes(), choices);
  if (!first || !second || !third) return {};
  return Arrays{std::move(*first), std::move(*second), std::move(*third)};
}

void compare(const Call& call, Arrays& arrays, Choices& choices) {
  auto& [data, indices, dense] = arrays;
  Block fill(static_cast<std::size_t>(call.type.element)), table(call.type.type == ElementType::table ? 65536 : 0);
  choices.fill(fill.data(), Size(fill.size()));
  choices.fill(table.data(), Size(table.size()));
  Plan plan;
  plan.index_type = call.index_type;
  plan.mode = call.mode;
  plan.element = plan.width = call.type.element;
  if (!call.writes() && choices.one_in(2)) plan.fill = fill.data();
  if (!table.empty()) plan.table = table.data();
  plan_by(call, plan, data.view(), indices.view(), dense.view());

  const Tensor &target = call.writes() ? data : dense, &source = call.writes() ? dense : data;
  Block wanted = target.copy();
  const Block source_before = source.copy(), indices_before = indices.copy();
  const Outside bad = look(call, data, indices);
  Plan check;
  plan_check(check, plan, indices.view());
  const Outside found = run_check(check);
  require(found.count == bad.count && found.entry == bad.entry && found.value == bad.value, "the bad entries differ");
  require(target.equals(wanted), "a look changed the array that is written to");

  if (call.mode == Mode::raise && choices.one_in(3)) {  // as if writing to the caller's memory
    if (bad.count > 0) return;
    plan.checked = true;
  }
  count_crossings(plan, call.writes(), call.reduction == Reduction::none);
  const bool stops = choices.one_in(16);
  Stop stop([](void*) noexcept { return true; }, nullptr, std::chrono::milliseconds(0));
  const bool good = call.writes() ? run_scatter(plan, call.reduction, call.type.type, stops ? &stop : nullptr)
                                  : run_gather(plan, stops ? &stop : nullptr);
  require(source.equals(source_before) && indices.equals(indices_before), "an input changed");
  if (stop.wanted()) return require_gaps_untouched(target, std::move(wanted));
  if (!is_empty(dense.shape)) require(good == (bad.count == 0 || call.mode == Mode::fill), "refused, or not refused");
  if (!good) return require_gaps_untouched(target, std::move(wanted));
  carry_out(call, plan, data, indices, dense, wanted);
  require_same(target, std::move(wanted), call);
}

Scale some_scale(Choices& choices) {
  const Size n = choices.below(kTiny ? 10 : 128);
  if (n == (kTiny ? 9 : 120)) return Scale::planes;
  if (kTiny && n == 8) return Scale::columns;
  return n == 127 ? Scale::columns : n >= 121 ? Scale::large : Scale::small;
}

}  // namespace

bool set_is_missing() {
  const char* const wanted = std::getenv("NDGATHER_INSTRUCTION_SET");
  const bool missing = wanted != nullptr && std::strcmp(wanted, loops().name) != 0;
  if (missing) std::printf("%s: not for this processor\n", wanted);
  return missing;
}

void print_crossings() {
  for (const Crossing& each : crossings) std::printf("%8ld  %s\n", each.calls.load(), each.border);
}

bool random_call(const std::uint8_t* bytes, std::size_t count) {
  Choices choices(bytes, count);
  Call call;
  const Scale scale = some_scale(choices);
  const auto what = static_cast<Kind>(choices.below(7));
  const bool copies = what > Kind::gather_windows;
  call.kind = copies ? Kind::gather : what;
  if (scale == Scale::columns) call.kind = scatters(what) ? Kind::scatter_elements : Kind::gather_elements;
  if (scale == Scale::planes) call.kind = Kind::scatter_elements;
  call.index_type = static_cast<IndexType>((choices.below(8) + 3) % 8);
  call.mode = static_cast<Mode>(choices.below(4));
  call.negative = choices.below(4) != 3;
  constexpr int kThreads[] = {1, 2, 3, 7};
  set_threads(choices.one_of(kThreads));
  if (call.writes() && choices.one_in(2)) {
    call.reduction = static_cast<Reduction>(1 + choices.below(5));
    call.type = choices.one_of(kTypes);
    if (!has_meaning(call.reduction, call.type.type)) return false;
  } else {
    constexpr Size kWidths[] = {4, 8, 1, 2, 16, 12, 3, 5, 24, 32, 40, 64, 7, 17, 33, 63};
    call.type.element = choices.one_in(4) ? 1 + choices.below(130) : choices.one_of(kWidths);
  }
  const Sizes data = data_shape(call, choices, scale);
  if (!product(data, call.type.element)) return false;
  if (copies) return copy_whole(call, data, choices);
  Sizes indices = index_shape(call, data, choices, scale);
  spoil(call, indices, choices);
  if (rank(indices) > kMaxRank) return false;
  auto result = result_shape(call, data, indices);
  if (result && rank(*result) > kMaxRank) result.reset();
  compare_shapes(call, data, indices, result);
  if (!result) return true;
  auto arrays = some_arrays(call, data, indices, *result, choices, scale);
  if (!arrays) return false;
  compare(call, *arrays, choices);
  return true;
}

}  // namespace ndgather::random_calls
