// engine_baseline.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA baseline
#include "apply.h"
#include "check.h"
#include "engine.h"
#include "places.h"
#include "repeats.h"
#include "sample.h"
#include "scatter.h"
#include "tiles.h"

namespace ndgather {

extern const Engine engine_baseline;
const Engine engine_baseline{
    .gather = baseline::gather,
    .gather_bands = baseline::gather_bands,
    .gather_tiles = baseline::gather_tiles,
    .scatter = baseline::scatter,
    .note = baseline::note,
    .divide = baseline::divide,
    .apply = baseline::apply,
    .mark = baseline::mark,
    .join_later = baseline::join_later,
    .drop_marked = baseline::drop_marked,
    .apply_noted = baseline::apply_noted,
    .scatter_bands = baseline::scatter_bands,
    .check = baseline::check,
    .sample = baseline::sample,
    .pick_store = baseline::pick_store,
};

}  // namespace ndgather
