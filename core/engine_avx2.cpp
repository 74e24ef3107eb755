// engine_avx2.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA avx2
#include "check.h"
#include "engine.h"
#include "scatter.h"

namespace ndgather {

extern const Engine engine_avx2;
const Engine engine_avx2{avx2::gather, avx2::gather_bands, avx2::scatter,
                          avx2::spreads, avx2::scatter_bands, avx2::check};

}  // namespace ndgather
