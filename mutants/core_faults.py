"""The faults that are put into the core, one at a time: an old text and a new one.

Each text has to stand in its file exactly once; where the core has moved on, this says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A change to one file of the core."""

    name: str
    file: str
    old: str
    new: str


FAULTS = (
    Fault("a comparison turned: the size itself is a place", "index_rule.h",
          "return at < static_cast<std::uint64_t>(column.extent);",
          "return at <= static_cast<std::uint64_t>(column.extent);"),
    Fault("the lift of negative values is one too small", "index_rule.h",
          "((wide >> 63) & column.lift)", "((wide >> 63) & (column.lift - 1))"),
    Fault("negative values are not lifted", "index_rule.h",
          "wide + ((wide >> 63) & column.lift)", "wide + (0 & column.lift)"),
    Fault("uint64 values are taken as signed ones", "index_rule.h",
          "std::is_same_v<Index, std::uint64_t>;", "std::is_same_v<Index, void>;"),
    Fault("clip ends one before the last", "index_rule.h",
          "static_cast<std::uint64_t>(column.extent - 1)",
          "static_cast<std::uint64_t>(column.extent > 1 ? column.extent - 2 : 0)"),
    Fault("wrap leaves negative values negative", "index_rule.h",
          "rest + ((rest >> 63) & column.extent)", "rest & (column.extent - 1)"),
    Fault("a stride swapped: columns step as positions", "offsets.h",
          "load<Index>(index + i * step + c * column_step)",
          "load<Index>(index + i * column_step + c * step)"),
    Fault("the base of a position is left out", "offsets.h",
          "static_cast<std::uint64_t>(far + bases[i])",
          "static_cast<std::uint64_t>(far + 0 * bases[i])"),
    Fault("one good column is enough", "offsets.h",
          "good &= inside;", "good |= inside;"),
    Fault("the fill value is not applied", "copy.h",
          "std::memcpy(to + b, plan.fill, element);", "std::memset(to + b, 0, element);"),
    Fault("the last line of a row is not copied", "copy.h",
          "std::memcpy(to + last, from + last, kLine);", "(void)last;"),
    Fault("the second half of an odd width begins one early", "copy.h",
          "std::memcpy(high, far + at[i] + second, Half);",
          "std::memcpy(high, far + at[i] + second - 1, Half);"),
    Fault("slices with gaps walk far and near alike", "slice.h",
          "near += dim.near;", "near += dim.far;"),
    Fault("a block of joined runs begins with a run", "cursor.h",
          "far + done % plan.run", "far"),
    Fault("all joined runs are one", "cursor.h", "done / plan.run * plan.runs_far", "0"),
    Fault("joined runs are not in the span of the places", "plan.h",
          "if (run > 0) span.add", "if (false) span.add"),
    Fault("the last position of a block is dropped", "gather.h",
          "(plan, block.at, block.n, block.near, step);",
          "(plan, block.at, block.n > 1 ? block.n - 1 : 1, block.near, step);"),
    Fault("the last block that was asked for is not used", "gather.h",
          "if (asked_) use", "if (false) use"),
    Fault("a block that was asked for is used before the one before it", "gather.h",
          "use(blocks_[1 - current_])", "use(blocks_[current_])"),
    Fault("a run ends without the next one", "cursor.h",
          "if (++coordinate[d] < dim.size) return;", "if (++coordinate[d] <= dim.size) return;"),
    Fault("what an owner has applied is applied again", "places.h",
          "own.n = 0;", "own.n = own.n > 300 ? 1 : 0;"),
    Fault("two owners share a hash", "places.h",
          "beyond_first(begin(owner + 1, places.owners) - 1 - first)",
          "beyond_first(begin(owner + 1, places.owners) - first)"),
    Fault("places are not counted from the lowest", "places.h",
          "lowest + static_cast<Size>(places[i])", "static_cast<Size>(places[i])"),
    Fault("what names no place is kept for a scatter", "scatter.h",
          "kept += Size{at != kNowhere};", "kept += 1;"),
    Fault("what names no place has an owner", "places.h",
          "Size{places[i] != kNotedNowhere<At> && hashes.have(places[i])}",
          "Size{hashes.have(places[i])}"),
    Fault("the columns of a band are one too few", "bands.h",
          "const Size first = unit % bands.per_plane * bands.columns;",
          "const Size first = unit % bands.per_plane * (bands.columns - 1);"),
    Fault("a band of updates is written back without its last row", "scatter.h",
          "for (Size e = 0; e < column.extent; ++e) {",
          "for (Size e = 0; e + 1 < column.extent; ++e) {"),
    Fault("a reduction swapped: sums are differences", "apply.h",
          "return static_cast<T>(U(old) + U(update));",
          "return static_cast<T>(U(old) - U(update));"),
    Fault("the larger is taken for the smaller", "apply.h",
          "return select(update < old, update, old);", "return select(update > old, update, old);"),
    Fault("NaN does not win", "apply.h",
          "return !(update >= old) & (old == old);", "return (update < old) & (old == old);"),
    Fault("halves of float16 are rounded down", "apply.h",
          "(magnitude - 0x38000000u + 0xfff + even) >> 13",
          "(magnitude - 0x38000000u + even) >> 13"),
    Fault("the first bad entry is not the first", "check.h",
          "if (found.count > 0 && all.count == 0) {", "if (found.count > 0) {"),
    Fault("entries of tuples are counted as positions", "check.h",
          "found.entry = i * plan.column_count + c;", "found.entry = i + c;"),
    Fault("a gap between the pieces of threads", "run.cpp",
          "const Size begin = unit / cut.slice_parts * cut.per_unit;",
          "const Size begin = unit / cut.slice_parts * cut.per_unit + (unit > 0);"),
    Fault("repeated bad entries are counted once", "run.cpp",
          "all.count *= repeats;", "all.count *= 1;"),
    Fault("the depth may be one more than the axes", "plan.cpp",
          "if (depth > data.rank - batch_dims)", "if (depth > data.rank - batch_dims + 1)"),
    Fault("axes are merged that are not neighbours", "plan.cpp",
          "if (outer.far == inner.size * inner.far && outer.near == inner.size * inner.near) {",
          "if (outer.near == inner.size * inner.near) {"),
    Fault("a batch axis does not move the data", "plan.cpp",
          "d < batch_dims ? far.strides[d] : 0", "d < batch_dims - 1 ? far.strides[d] : 0"),
    Fault("the axes that are not gathered may be too long", "plan.cpp",
          "indices.shape[d] > data.shape[d]", "indices.shape[d] > data.shape[d] + 1"),
)  # fmt: skip
