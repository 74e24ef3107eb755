// gather.h - the loop over copies.
#pragma once

#include "copy.h"

namespace ndgather::NDGATHER_ISA {

// Gathers the positions [begin, end). False: an index is outside its axis; nothing outside of the indexed array was
// read, and the dense array is partly written.
inline bool gather(const Plan& plan, const Schedule& schedule, Size begin, Size end) noexcept {
  const Copy copy = pick_copy(plan, schedule.nontemporal);
  const Size step = plan.inner().dense;
  const bool good = walk_blocks<Block, false>(plan, schedule, begin, end, [&](const Block& block) {
    (block.good ? copy : copy_or_fill)(plan, block.at, block.n, plan.dense + block.dense, step);
  });
  if (schedule.nontemporal) finish_writes();
  return good;
}

}  // namespace ndgather::NDGATHER_ISA
