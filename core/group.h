// group.h - points by chunk, for arrays that are stored in chunks.
//
// The loops that check index values know strides alone. Where the stride of every axis is a power of two that no other
// axis reaches, the offset of a position holds all of its coordinates, in fields of bits:
//
//   data (10, 8) in chunks of (4, 4)    offset   r r r r c c c     strides 8 and 1: 4 bits for a row, 3 for a column
//   row 9, column 6                              1 0 0 1 1 1 0     chunk (9 / 4, 6 / 4) = (2, 1): number 2 * 2 + 1
//                                       place    r r c c           row 9 - 8, column 6 - 4
//                                                0 1 1 0
//
// Offsets are split into the number of a chunk and the place in it, and the positions are sorted by chunk, stably.
// Memory is taken by the number of points, never by the size of the grid.
#pragma once

#include "loops.h"
#include "pool.h"

namespace ndgather {

// Where one axis is cut.
struct GridAxis {
  Size size, chunks;
  Size step;         // length of all chunks but the last; 0: chunk c goes from cuts[c] to cuts[c + 1]
  const Size* cuts;  // rising, from 0 to the size
  int bits, shift;              // of a coordinate, and where it stands in an offset
  int local_bits, local_shift;  // of a coordinate within its chunk, and where it stands in a place
};

// The axes that positions address. Chunks are numbered in C order; the number behind the last stands for positions
// whose index is outside.
struct PointGrid {
  int rank = 0, local_bits = 0;
  std::uint64_t chunks = 1;
  GridAxis axis[kMaxRank];

  // Sets what follows from the sizes and cuts. False: the coordinates do not fit into an offset.
  bool complete();
  bool is_wide() const { return local_bits > 32; }  // a place has 8 bytes then, or else 4
};

// Memory for n points, and their chunks once they are sorted.
struct SortedPoints {
  explicit SortedPoints(Size points) noexcept : n(points), memory(n * 28 + 1) {}

  Size n, groups = 0;
  pool::Scratch memory;  // keys, other keys and places of 8 bytes for a point, and a position of 4
  std::uint64_t *keys = nullptr, *other_keys = nullptr;
};

// Sorts the n positions of a plan from `begin` on: writes the place of each, and its position counted from `begin`.
// False: an index is outside its axis, and the mode has no answer to that.
bool sort_points(const Plan& plan, const PointGrid& grid, Size begin, SortedPoints& sorted, char* places,
                 std::uint32_t* positions) noexcept;

// The numbers of the chunks of sorted points, and where the points of each begin.
void list_groups(const SortedPoints& sorted, Size* chunks, Size* starts) noexcept;

// Points that lie at places in a chunk, and at positions in the dense array of a plan.
struct PointMove {
  struct Dim {
    Size size, stride;
    int bits;  // of a coordinate in a place
  };
  Plan plan;      // its slice, the dims of the dense array as loop dims, and both arrays as the store wants them
  Store store;
  bool to_dense;  // whether the dense array is what the store writes to
  bool is_wide;
  int chunk_rank = 0;
  Dim chunk[kMaxRank];

  // Moves n points; positions are counted from `base`. False: one lies outside of an array; those before it may have
  // been moved.
  bool run(const char* places, const std::uint32_t* positions, Size n, Size base) const noexcept;
};

}  // namespace ndgather
