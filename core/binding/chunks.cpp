// chunks.cpp - functions for tables of chunks in memory, and a decoder for LZF, which some HDF5 files use.
#include <algorithm>
#include <cstring>
#include <utility>

#include "../group.h"
#include "call.h"
#include "gil.h"

namespace ndgather {
namespace {

constexpr const char* kName = "ndgather.chunk_table";

ChunkTable* table_of(PyObject* capsule) { return static_cast<ChunkTable*>(PyCapsule_GetPointer(capsule, kName)); }

// Whether an array has the shape of chunk `number` and the strides of a whole chunk.
bool is_chunk(const ChunkTable& table, Size number, PyArrayObject* values) {
  const int rank = table.grid.rank;
  bool fits = PyArray_CheckExact(object(values)) && PyArray_NDIM(values) == rank && PyArray_ITEMSIZE(values) == table.element;
  for (int d = rank - 1; fits && d >= 0; --d) {
    const GridAxis& axis = table.grid.axis[d];
    const Size chunk = number % axis.chunks;
    number /= axis.chunks;
    fits = PyArray_DIM(values, d) == std::min(axis.step, axis.size - chunk * axis.step) &&
           (PyArray_DIM(values, d) <= 1 || PyArray_STRIDE(values, d) == static_cast<Size>(axis.local_stride));
  }
  return fits;
}

// A gather of single elements from the chunks of a table. Only the shape and dtype of the `data` argument are used.
class TableCall : Call {
 public:
  TableCall(Kind kind, PyObject* const* given) : Call(kind, given) {}
  PyObject* run(ChunkTable& table, bool again);

 private:
  Refusal plan_elements(const ChunkTable& table);
};

// Plans offsets that contain the coordinates on all axes.
Refusal TableCall::plan_elements(const ChunkTable& table) {
  const Array &data = data_.array(), &indices = indices_.array();
  Size depth = kind_ == Kind::gather_elements ? data.rank : options_.batch_dims + 1;
  if (kind_ == Kind::gather_nd) depth = options_.batch_dims + indices.shape[indices.rank - 1];
  bool fits = depth == data.rank && table.grid.rank == data.rank && table.element == plan_.element;
  Size strides[kMaxRank];
  for (int d = 0; fits && d < data.rank; ++d) {
    fits = data.shape[d] == table.grid.axis[d].size;
    strides[d] = data.shape[d] > 1 ? Size{1} << table.grid.axis[d].shift : 0;
  }
  if (!fits || library_ != nullptr) return {Rule::fallback};  // nothing keeps the memory of other libraries alive
  if (auto refusal = provide_out()) return refusal;
  if (!PyArray_CheckExact(result_) || !PyArray_ISCARRAY(array(result_))) return {Rule::fallback};
  plan_coordinates({nullptr, data.rank, data.shape, strides}, options_);
  plan_.dense = out_.array().bytes;
  return plan_.positions == 0 || callers_out_ ? check_first() : Refusal{};
}

PyObject* TableCall::run(ChunkTable& table, bool again) {
  Refusal refusal = read_arguments();
  if (!refusal) refusal = plan_elements(table);
  bool inside = true;
  Size listed[kLimits.listed_chunks];
  ChunkTable::Found found;
  if (!refusal) {
    GilRelease release(static_cast<double>(plan_.positions) * 5, false);
    inside = table.look_up(plan_, listed, kLimits.listed_chunks, found);
  }
  if (!inside) refusal = first_bad();
  if (refusal) return refused(refusal);
  if (found.missing == 0) {
    if (!again) table.hits.fetch_add(static_cast<std::uint64_t>(found.hits), std::memory_order_relaxed);
    return std::exchange(result_, nullptr);
  }
  npy_intp count = found.listed;
  PyObject* const numbers = PyArray_SimpleNew(1, &count, NPY_INTP);
  if (numbers != nullptr) std::copy_n(listed, count, static_cast<Size*>(PyArray_DATA(array(numbers))));
  return Py_BuildValue("(Nn)", numbers, found.hits);
}

// Decodes LZF, and writes at most `room` bytes. Returns the decoded size, or -1 if the input is not LZF. A head below 32 is
// followed by head + 1 literal bytes. Any other head contains a length (3 bits) and the upper 5 bits of a distance, and
// repeats decoded bytes. If the length is 7, the next byte is added to it. The last byte has the low bits of the distance.
Size unpack(const unsigned char* in, Size count, unsigned char* out, Size room) {
  Size at = 0, done = 0;
  while (at < count) {
    const Size head = in[at++];
    Size length = head < 32 ? head + 1 : (head >> 5) + 2;
    if (head < 32) {
      if (length > count - at) return -1;
      if (done + length <= room) std::memcpy(out + done, in + at, static_cast<std::size_t>(length));
      at += length;
    } else {
      if (at + 1 + (length == 9) > count) return -1;
      if (length == 9) length += in[at++];
      const Size distance = (head % 32 << 8) + in[at++] + 1;
      if (distance > done) return -1;
      if (done + length <= room && distance >= length) {
        std::memcpy(out + done, out + done - distance, static_cast<std::size_t>(length));
      } else if (done + length <= room) {  // the copy repeats itself
        for (Size n = 0; n < length; ++n) out[done + n] = out[done + n - distance];
      }
    }
    done += length;
  }
  return done;
}

}  // namespace

PyObject* unpack_lzf(PyObject*, PyObject* args) {
  Py_buffer in, out;
  if (!PyArg_ParseTuple(args, "y*w*", &in, &out)) return nullptr;
  Size size = 0;
  or_sleep([&] {
    GilRelease release(static_cast<double>(out.len), false);
    size = unpack(static_cast<unsigned char*>(in.buf), in.len, static_cast<unsigned char*>(out.buf), out.len);
    return true;
  });
  PyBuffer_Release(&in);
  PyBuffer_Release(&out);
  return PyLong_FromSsize_t(size);
}

PyObject* make_chunk_table(PyObject*, PyObject* args) {
  PyObject *shape, *steps;
  Size sizes[2][kMaxRank], element;
  int rank = 0, step_rank = 0;
  if (!PyArg_ParseTuple(args, "O!O!n", &PyTuple_Type, &shape, &PyTuple_Type, &steps, &element) ||
      !read_shape(shape, sizes[0], rank) || !read_shape(steps, sizes[1], step_rank)) {
    return nullptr;
  }
  const auto is_positive = [](Size step) { return step > 0; };
  if (rank != step_rank || element <= 0 || !std::all_of(sizes[1], sizes[1] + rank, is_positive)) return do_not_fit();
  auto table = std::make_unique<ChunkTable>();
  if (!table->set_up(rank, sizes[0], sizes[1], element)) Py_RETURN_NONE;
  PyObject* const capsule = PyCapsule_New(table.get(), kName, [](PyObject* dying) { delete table_of(dying); });
  if (capsule != nullptr) (void)table.release();
  return capsule;
}

PyObject* set_chunk(PyObject*, PyObject* args) {
  PyObject *capsule, *values;
  Size number;
  if (!PyArg_ParseTuple(args, "OnO", &capsule, &number, &values)) return nullptr;
  ChunkTable* const table = table_of(capsule);
  if (table == nullptr) return nullptr;
  const bool all = number == -1 && values == Py_None;
  if (!all && (number < 0 || number >= table->count)) return do_not_fit();
  if (values != Py_None && !is_chunk(*table, number, array(values))) return do_not_fit();
  const char* const bytes = values == Py_None ? nullptr : PyArray_BYTES(array(values));
  {
    GilRelease release(table->users.load() == 0 ? 0 : 1e9, false);
    table->set(all ? 0 : number, all ? table->count : number + 1, bytes);
  }
  Py_RETURN_NONE;
}

PyObject* count_hits(PyObject*, PyObject* capsule) {
  ChunkTable* const table = table_of(capsule);
  return table == nullptr ? nullptr : PyLong_FromUnsignedLongLong(table->hits.load(std::memory_order_relaxed));
}

PyObject* last_use_of_chunk(PyObject*, PyObject* args) {
  PyObject* capsule;
  Size number;
  if (!PyArg_ParseTuple(args, "On", &capsule, &number)) return nullptr;
  if (capsule == Py_None) return PyLong_FromUnsignedLongLong(next_use());
  ChunkTable* const table = table_of(capsule);
  if (table == nullptr) return nullptr;
  if (number < 0 || number >= table->count) return do_not_fit();
  return PyLong_FromUnsignedLongLong(table->entries[number].last_use.load(std::memory_order_relaxed));
}

PyObject* look_up(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Given given;
  if (count != 4) return do_not_fit();
  ChunkTable* const table = table_of(args[0]);
  if (table == nullptr || !given.read(args[1])) return nullptr;
  given.each[kData] = args[2];
  if (!given.is_gather_of_arrays()) return refused_for_python();
  return begun_anew_in_a_child([&] {
    TableCall call(given.kind, given.each);
    return or_sleep([&] { return call.run(*table, args[3] == Py_True); });
  });
}

}  // namespace ndgather
