// dlpack.h - the data structures of DLPack 1.3 (https://dmlc.github.io/dlpack): a description of an array in memory, and the
// table of functions with which a library exchanges arrays in C.
#pragma once

#include <cstdint>

namespace ndgather::dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::int32_t kCpu = 1;           // device type
inline constexpr std::uint64_t kReadOnly = 1;     // flag
inline constexpr const char* kTableName = "dlpack_exchange_api";

enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct Version {
  std::uint32_t major, minor;
};

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
  bool operator==(const DataType&) const = default;
};

struct Tensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t rank;
  DataType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

// A tensor with an owner, which `deleter` releases.
struct Managed {
  Version version;
  void* context;
  void (*deleter)(Managed* self);
  std::uint64_t flags;
  Tensor tensor;
};

// Functions return 0, or -1 with a Python exception set.
struct Table {
  Version version;
  const Table* previous;  // table of an older version, or null
  int (*allocate)(Tensor* like, Managed** made, void* context, void (*fail)(void*, const char*, const char*));
  int (*export_managed)(void* object, Managed** made);
  int (*import_managed)(Managed* taken_over, void** object);
  int (*borrow)(void* object, Tensor* view);  // may be null; the view is valid until control returns to Python
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

}  // namespace ndgather::dlpack
