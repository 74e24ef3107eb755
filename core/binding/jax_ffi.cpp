// jax_ffi.cpp - the function that XLA calls for JAX gathers and scatters on a CPU. It runs on XLA's threads, so it must not
// use Python and formats its own errors.
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <string>

#include "call.h"

namespace ndgather {
namespace {

namespace ffi = xla::ffi;

// The attributes of a call. Axes include those added by vmap.
struct Attributes {
  Kind kind;
  Mode mode;
  Reduction reduction;
  Options options;
  Size lead;      // number of leading axes added by vmap; buffers with size 1 there are broadcast
  Size skip;      // number of axes of data that the caller did not pass
  bool negative;  // whether negative indices count from the end
  ffi::Span<const std::uint8_t> fill;
  std::string_view caller;
};

// A C-contiguous buffer as an array of the core.
struct Operand {
  explicit Operand(const ffi::AnyBuffer& buffer)
      : array{static_cast<char*>(buffer.untyped_data()), static_cast<int>(buffer.dimensions().size()), shape, strides} {
    Size stride = static_cast<Size>(ffi::ByteWidth(buffer.element_type()));
    for (int d = std::min(array.rank, kMaxRank) - 1; d >= 0; --d) {
      shape[d] = buffer.dimensions()[static_cast<std::size_t>(d)];
      strides[d] = stride;
      stride *= shape[d];
    }
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  void repeat_as(const Operand& other, Size lead) {
    for (Size d = 0; d < lead; ++d) {
      if (shape[d] != 1 || other.shape[d] == 1) continue;
      shape[d] = other.shape[d];
      strides[d] = 0;
    }
  }

  Size shape[kMaxRank], strides[kMaxRank];
  Array array;
};

bool read_type(ffi::DataType type, bool with_table, ElementType& element) {
  using enum ffi::DataType;
  static constexpr struct {
    ffi::DataType given;
    ElementType element;
  } kTypes[] = {{S8, ElementType::i8},   {S16, ElementType::i16},   {S32, ElementType::i32},     {S64, ElementType::i64},
                {U8, ElementType::u8},   {U16, ElementType::u16},   {U32, ElementType::u32},     {U64, ElementType::u64},
                {F16, ElementType::f16}, {F32, ElementType::f32},   {BF16, ElementType::bf16},   {F64, ElementType::f64},
                {C64, ElementType::c64}, {C128, ElementType::c128}, {PRED, ElementType::boolean}};
  element = with_table ? ElementType::table : ElementType::opaque;
  for (const auto& known : kTypes) {
    if (known.given == type) element = known.element;
  }
  return element <= ElementType::u64;
}

// Whether elements are whole bytes. XLA packs several smaller elements into one byte.
bool has_whole_bytes(const ffi::AnyBuffer& buffer) {
  using enum ffi::DataType;
  static constexpr ffi::DataType kTypes[] = {
      PRED, S8,  S16,  S32,    S64,    U8,       U16,           U32,        U64,        F16,    BF16,     F32,
      F64,  C64, C128, F8E5M2, F8E4M3, F8E4M3FN, F8E4M3B11FNUZ, F8E5M2FNUZ, F8E4M3FNUZ, F8E3M4, F8E8M0FNU};
  return std::find(std::begin(kTypes), std::end(kTypes), buffer.element_type()) != std::end(kTypes);
}

// Formats the same error text as Python, because Python does not run here.
std::string text_of(const Attributes& call, const Outside& bad, const Plan& plan, const Array& data, const Array& indices) {
  const bool windows = call.kind == Kind::gather_windows;
  const std::string name = windows ? "starts" : "indices";
  const BadEntry entry = locate(bad, plan, data, indices, call.options);
  std::string where;
  for (int d = 0; d < indices.rank; ++d) {
    if (d < call.lead && indices.shape[d] == 1) continue;  // vmap over other arguments
    where += (where.empty() ? "" : ", ") + std::to_string(entry.position[d]);
  }
  const bool is_signed = plan.index_type != IndexType::u64;
  const Size wide = windows ? call.options.window[entry.column] : 1;
  const Size first = windows || !call.negative ? 0 : -entry.size;
  std::string text = std::string(call.caller) + ": " + name + "[" + where + "] = ";
  text += is_signed ? std::to_string(static_cast<std::int64_t>(bad.value)) : std::to_string(bad.value);
  text += windows ? " makes a window of size " + std::to_string(wide) + " extend past axis " : " is outside axis ";
  text += std::to_string(entry.axis - call.skip) + " of data, which has size " + std::to_string(entry.size);
  text += !windows && entry.size == 0
              ? " (the axis is empty)"
              : " (allowed: " + std::to_string(first) + ".." + std::to_string(entry.size - wide) + ")";
  if (bad.count > 1) {
    text += "; " + std::to_string(bad.count) + " of " + std::to_string(entry.total) + " entries of " + name +
            " are out of bounds";
  }
  return text;
}

ffi::Error refuse(const Attributes& call, const char* what) {
  return ffi::Error::InvalidArgument(std::string(call.caller) + ": " + what);
}

// Whether the attributes of a call are valid. An exported program may have been modified before it runs.
bool is_sound(const Attributes& call, ffi::Span<const std::int64_t> window, const ffi::AnyBuffer& data,
              const ffi::AnyBuffer& indices, const ffi::AnyBuffer& updates, const ffi::AnyBuffer& result) {
  const auto in = [](auto value, auto last) { return static_cast<std::uint64_t>(value) <= static_cast<std::uint64_t>(last); };
  const std::size_t lowest = std::min(
      {data.dimensions().size(), indices.dimensions().size(), updates.dimensions().size(), result.dimensions().size()});
  return in(call.kind, Kind::gather_windows) && in(call.mode, Mode::fill) &&
         in(call.reduction, std::size(kReductionNames) - 1) && in(call.lead, lowest) &&
         std::all_of(window.begin(), window.end(), [](Size w) { return w >= 0; }) && in(window.size(), kMaxRank) &&
         (window.size() == 0 || call.kind == Kind::gather_windows) && in(call.skip, INT32_MAX) &&
         data.element_type() == result.element_type() && data.element_type() == updates.element_type() &&
         (call.fill.size() == 0 || call.fill.size() == ffi::ByteWidth(data.element_type()));
}

// Executes a call. For a scatter, `rest` contains the updates and, for some element types, a table of results.
ffi::Error carry_out(Attributes call, ffi::Span<const std::int64_t> window, const ffi::AnyBuffer& given_data,
                     const ffi::AnyBuffer& given_indices, const ffi::RemainingArgs& rest, const ffi::AnyBuffer& result) {
  const bool scatter = scatters(call.kind);
  if (scatter && rest.size() == 0) return refuse(call, "there are no updates");
  const ffi::AnyBuffer given_updates = scatter ? rest.get<ffi::AnyBuffer>(0).value() : given_data;
  const ffi::AnyBuffer table = rest.size() > 1 ? rest.get<ffi::AnyBuffer>(1).value() : given_data;
  if (!has_whole_bytes(given_data) || !has_whole_bytes(table))
    return refuse(call, "the types of elements do not fit (allowed: whole bytes)");
  if (!is_sound(call, window, given_data, given_indices, given_updates, result)) {
    return refuse(call, "attributes do not fit");
  }
  call.options.window_rank = static_cast<int>(window.size());
  std::copy(window.begin(), window.end(), call.options.window);
  Operand data(given_data), once(given_indices), indices(given_indices), updates(given_updates), out(result);
  for (const Operand* each : {&data, &indices, &updates, &out}) {
    if (each->array.rank > kMaxRank) return refuse(call, "an array has more than 64 axes");
  }
  for (Operand* each : {&data, &indices, &updates}) each->repeat_as(out, call.lead);
  const Array& indexed = scatter ? out.array : data.array;
  const Array& dense = scatter ? updates.array : out.array;
  Shape slices;
  if ((scatter && (data.array.rank != out.array.rank || !std::equal(data.shape, data.shape + data.array.rank, out.shape))) ||
      slices_shape(call.kind, data.array, indices.array, call.options, slices) || slices.rank != dense.rank ||
      !std::equal(slices.size, slices.size + slices.rank, dense.shape)) {
    return refuse(call, "the shapes do not fit");
  }
  Plan plan;
  ElementType index_type, type;
  if (!read_type(given_indices.element_type(), false, index_type)) return refuse(call, "indices are no integers");
  read_type(given_data.element_type(), rest.size() > 1, type);
  plan.index_type = static_cast<IndexType>(index_type);
  plan.mode = call.mode;
  plan.element = plan.width = static_cast<Size>(ffi::ByteWidth(given_data.element_type()));
  if (call.fill.size() > 0) plan.fill = reinterpret_cast<const char*>(call.fill.begin());
  plan.table = static_cast<const char*>(table.untyped_data());
  if (type == ElementType::table && (plan.width != 1 || table.size_bytes() < 256 * 256)) {
    return refuse(call, "the type and its table do not fit");
  }
  if (scatter && loops().pick_store(plan, call.reduction, type, false) == nullptr) {
    return refuse(call, "the reduction and the type do not fit");
  }
  if (scatter && out.array.bytes != data.array.bytes) {
    Plan copy;
    plan_copy(copy, data.array, out.array, plan.element);
    run_gather(copy);
  }
  plan_slices(plan, call.kind, indexed, indices.array, dense, call.options);
  if (!call.negative) plan.refuse_negative();
  if (plan.is_empty() ? plan.mode == Mode::fill : scatter ? run_scatter(plan, call.reduction, type) : run_gather(plan)) {
    return ffi::Error::Success();
  }
  Plan check;
  plan_check(check, plan, once.array);
  const Outside bad = run_check(check);
  if (bad.count == 0) return ffi::Error::Success();  // an empty result with valid indices
  return ffi::Error(ffi::ErrorCode::kOutOfRange, text_of(call, bad, plan, data.array, once.array));
}

ffi::Error handle(ffi::AnyBuffer data, ffi::AnyBuffer indices, ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> result,
                  std::int64_t kind, std::int64_t mode, std::int64_t reduction, std::int64_t axis, std::int64_t batch_dims,
                  std::int64_t lead, std::int64_t skip, bool negative, ffi::Span<const std::int64_t> window,
                  ffi::Span<const std::uint8_t> fill, std::string_view caller) {
  if (window.size() > 0 && static_cast<Kind>(kind) == Kind::gather_nd) kind = static_cast<int>(Kind::gather_windows);
  // clang-format off
  const Attributes call{static_cast<Kind>(kind), static_cast<Mode>(mode), static_cast<Reduction>(reduction),
                        {axis, batch_dims, 0, {}}, lead, skip, negative, fill, caller};
  // clang-format on
  return carry_out(call, window, data, indices, rest, *result);
}

XLA_FFI_DEFINE_HANDLER(handler, handle,
                       ffi::Ffi::Bind()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .RemainingArgs()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<std::int64_t>("kind")
                           .Attr<std::int64_t>("mode")
                           .Attr<std::int64_t>("reduction")
                           .Attr<std::int64_t>("axis")
                           .Attr<std::int64_t>("batch_dims")
                           .Attr<std::int64_t>("lead")
                           .Attr<std::int64_t>("skip")
                           .Attr<bool>("negative")
                           .Attr<ffi::Span<const std::int64_t>>("window")
                           .Attr<ffi::Span<const std::uint8_t>>("fill")
                           .Attr<std::string_view>("caller"));

}  // namespace

PyObject* make_jax_handler() {
  return Py_BuildValue("(Nii)", PyCapsule_New(reinterpret_cast<void*>(handler), nullptr, nullptr), XLA_FFI_API_MAJOR,
                       XLA_FFI_API_MINOR);
}

}  // namespace ndgather
