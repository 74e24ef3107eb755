// engine_avx2.cpp - the loops, compiled for one instruction set; see engine.h and CMakeLists.txt.
#define NDGATHER_ISA avx2
#include "apply.h"
#include "check.h"
#include "engine.h"
#include "places.h"
#include "repeats.h"
#include "sample.h"
#include "scatter.h"
#include "tiles.h"

namespace ndgather {

extern const Engine engine_avx2;
const Engine engine_avx2{
    .gather = avx2::gather,
    .gather_bands = avx2::gather_bands,
    .gather_tiles = avx2::gather_tiles,
    .scatter = avx2::scatter,
    .note = avx2::note,
    .divide = avx2::divide,
    .apply = avx2::apply,
    .mark = avx2::mark,
    .join_later = avx2::join_later,
    .drop_marked = avx2::drop_marked,
    .apply_noted = avx2::apply_noted,
    .scatter_bands = avx2::scatter_bands,
    .check = avx2::check,
    .sample = avx2::sample,
    .pick_store = avx2::pick_store,
};

}  // namespace ndgather
