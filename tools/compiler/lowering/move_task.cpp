// SPDX-License-Identifier: Apache-2.0
// Moves: transfers from HBM to HBM, one or more for each region.
#include <algorithm>

#include "tools/compiler/lowering/interleave.h"
#include "tools/compiler/lowering/lanes.h"
#include "tools/compiler/lowering/resident_move.h"
#include "tools/compiler/lowering/tasks.h"
#include "tools/compiler/lowering/turn.h"

namespace neuron::lowering {
namespace {

using graph::Region;

// Dimensions of one side, innermost first, neighbours that are contiguous merged.
struct Side {
  BufferAccess access;
  bool fits = true;
};

Side side_of(const Buffer& buffer, int64_t first, const std::vector<Region::Dimension>& dimensions,
             bool to) {
  Side side;
  BufferAccess& access = side.access;
  access.buffer = buffer.index;
  access.dtype = buffer.dtype;
  access.offset = static_cast<uint64_t>(first) * 4;
  access.ndim = 1;
  access.size[0] = 4;
  access.step[0] = 1;
  for (size_t i = dimensions.size(); i-- > 0;) {
    const Region::Dimension& d = dimensions[i];
    const int64_t step = (to ? d.to_step : d.from_step) * 4;
    const auto size = static_cast<uint64_t>(d.size);
    if (size == 1) continue;
    if (access.ndim == 1 && step == static_cast<int64_t>(access.size[0])) {
      access.size[0] *= size;
    } else if (access.ndim == 4) {
      side.fits = false;
    } else {
      access.size[access.ndim] = size;
      access.step[access.ndim++] = step;
    }
  }
  return side;
}

uint64_t runs_of(const BufferAccess& access) {
  uint64_t runs = 1;
  for (uint32_t d = 1; d < access.ndim; ++d) runs *= access.size[d];
  return runs;
}

// Copies the region; dimensions and runs beyond those of a transfer become several transfers.
void copy_region(Workspace& work, const Buffer& to, int64_t to_first, const Buffer& from,
                 int64_t from_first, const std::vector<Region::Dimension>& dimensions) {
  if (!work.program.ok()) return;
  const Side target = side_of(to, to_first, dimensions, true);
  const Side source = side_of(from, from_first, dimensions, false);
  if (emit_turn(work, {to, to_first}, {from, from_first}, dimensions)) return;
  const bool fits = target.fits && source.fits;
  if (fits && std::max(runs_of(target.access), runs_of(source.access)) > Workspace::kMostRuns) {
    const auto largest =
        std::max_element(dimensions.begin(), dimensions.end(),
                         [](const auto& a, const auto& b) { return a.size < b.size; });
    std::vector<Region::Dimension> half = dimensions;
    Region::Dimension& cut = half[static_cast<size_t>(largest - dimensions.begin())];
    cut.size = largest->size / 2;
    copy_region(work, to, to_first, from, from_first, half);
    to_first += cut.size * cut.to_step;
    from_first += cut.size * cut.from_step;
    cut.size = largest->size - cut.size;
    return copy_region(work, to, to_first, from, from_first, half);
  }
  if (fits) return work.copy(target.access, source.access);
  // The smallest dimension makes the fewest transfers.
  size_t split = 0;
  for (size_t i = 1; i + 1 < dimensions.size(); ++i) {
    if (dimensions[i].size < dimensions[split].size) split = i;
  }
  std::vector<Region::Dimension> rest = dimensions;
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(split));
  for (int64_t i = 0; i < dimensions[split].size; ++i) {
    copy_region(work, to, to_first + i * dimensions[split].to_step, from,
                from_first + i * dimensions[split].from_step, rest);
  }
}

void fill(Workspace& work, const Buffer& buffer, uint64_t elements, const Node& node) {
  Workspace::for_pieces(elements, [&](uint64_t first, uint32_t parts, uint32_t columns) {
    Lanes lanes(work, parts, columns);
    const Lane lane =
        graph::is_real(node.type)
            ? lanes.number(static_cast<float>(node.fill))
            : lanes.whole_number(static_cast<int32_t>(graph::truncated(node.type, node.fill)));
    lanes.store(buffer, first, lane);
  });
}

}  // namespace

void emit_move(Workspace& work, Value value) {
  const Node& node = work.node(value);
  const Resident from = work.residents.find(node.operands[0]);
  if (graph::renames(node, work.graph)) {
    if (from.present()) work.residents.set(value, from);
    if (from.present() && !work.has_place(node.operands[0])) return;
    const Buffer place = work.place(node.operands[0]);
    return work.set_place(value, place);
  }
  work.program.section(node.origin);
  if (emit_resident_move(work, value)) return;
  const Buffer to = work.make_place(value);
  const auto elements = static_cast<uint64_t>(graph::elements_of(node.shape));
  uint64_t covered = 0;
  for (const Region& region : node.regions) {
    uint64_t count = 1;
    for (const Region::Dimension& d : region.dimensions) count *= static_cast<uint64_t>(d.size);
    covered += count;
  }
  if (covered < elements) fill(work, to, elements, node);
  if (emit_interleave(work, node, to)) return;
  for (const Region& region : node.regions) {
    const Buffer from = work.place(node.operands[region.operand]);
    copy_region(work, to, region.to, from, region.from, region.dimensions);
  }
}

}  // namespace neuron::lowering
