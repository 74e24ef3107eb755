// loops.cpp - the loops for the instruction set that the macro NDGATHER_ISA names; see CMakeLists.txt.
#include "check.h"
#include "panels.h"

#define NDGATHER_JOINED(a, b) a##b
#define NDGATHER_NAMED(a, b) NDGATHER_JOINED(a, b)
#define NDGATHER_LOOPS NDGATHER_NAMED(loops_, NDGATHER_ISA)
#define NDGATHER_QUOTED(a) #a
#define NDGATHER_NAME(a) NDGATHER_QUOTED(a)

namespace ndgather {

extern const Loops NDGATHER_LOOPS;
const Loops NDGATHER_LOOPS{
    .name = NDGATHER_NAME(NDGATHER_ISA),
    .gather = NDGATHER_ISA::gather,
    .scatter = NDGATHER_ISA::scatter,
    .run_band = NDGATHER_ISA::run_band,
    .record_offsets = NDGATHER_ISA::record_offsets,
    .apply_owned = NDGATHER_ISA::apply_owned,
    .check = NDGATHER_ISA::check,
    .shares_lines = NDGATHER_ISA::shares_lines,
    .pick_store = NDGATHER_ISA::pick_store,
};

}  // namespace ndgather
