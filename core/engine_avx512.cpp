// engine_avx512.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA avx512
#include "check.h"
#include "engine.h"
#include "scatter.h"

namespace ndgather {

extern const Engine engine_avx512;
const Engine engine_avx512{avx512::gather, avx512::gather_bands, avx512::scatter,
                          avx512::spreads, avx512::scatter_bands, avx512::check};

}  // namespace ndgather
