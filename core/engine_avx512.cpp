// engine_avx512.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA avx512
#include "apply.h"
#include "check.h"
#include "engine.h"
#include "places.h"
#include "repeats.h"
#include "sample.h"
#include "scatter.h"
#include "tiles.h"

namespace ndgather {

extern const Engine engine_avx512;
const Engine engine_avx512{
    .gather = avx512::gather,
    .gather_bands = avx512::gather_bands,
    .gather_tiles = avx512::gather_tiles,
    .scatter = avx512::scatter,
    .note = avx512::note,
    .divide = avx512::divide,
    .apply = avx512::apply,
    .mark = avx512::mark,
    .join_later = avx512::join_later,
    .drop_marked = avx512::drop_marked,
    .apply_noted = avx512::apply_noted,
    .scatter_bands = avx512::scatter_bands,
    .check = avx512::check,
    .sample = avx512::sample,
    .pick_store = avx512::pick_store,
};

}  // namespace ndgather
