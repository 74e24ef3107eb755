// loops.cpp - the loops, compiled for the instruction set that NDGATHER_ISA names; see CMakeLists.txt.
#include "check.h"
#include "panels.h"
#include "partition.h"

#define NDGATHER_JOINED(a, b) a##b
#define NDGATHER_NAMED(a, b) NDGATHER_JOINED(a, b)
#define NDGATHER_LOOPS NDGATHER_NAMED(loops_, NDGATHER_ISA)

namespace ndgather {

extern const Loops NDGATHER_LOOPS;
const Loops NDGATHER_LOOPS{
    .gather = NDGATHER_ISA::gather,
    .scatter = NDGATHER_ISA::scatter,
    .gather_panel = NDGATHER_ISA::gather_panel,
    .scatter_panel = NDGATHER_ISA::scatter_panel,
    .record_offsets = NDGATHER_ISA::record_offsets,
    .apply_owned = NDGATHER_ISA::apply_owned,
    .check = NDGATHER_ISA::check,
    .shares_lines = NDGATHER_ISA::shares_lines,
    .pick_store = NDGATHER_ISA::pick_store,
};

}  // namespace ndgather
