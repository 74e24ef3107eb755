// engine_baseline.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA baseline
#include "check.h"
#include "engine.h"
#include "scatter.h"

namespace ndgather {

extern const Engine engine_baseline;
const Engine engine_baseline{baseline::gather, baseline::gather_bands, baseline::scatter,
                          baseline::spreads, baseline::scatter_bands, baseline::check};

}  // namespace ndgather
