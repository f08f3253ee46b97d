// SPDX-License-Identifier: Apache-2.0
#include "runtime/queue/ring_plan.h"

#include <algorithm>

#include "hw/udma.h"

namespace neuron::runtime {
namespace {

// Walks the contiguous runs of one side.
class RunCursor {
 public:
  explicit RunCursor(const neff::DmaAccess& access) : access_(access) {}

  std::uint64_t offset() const {
    std::uint64_t offset = access_.offset + position_;
    for (int d = 1; d < 4; ++d) {
      offset += static_cast<std::uint64_t>(access_.steps[d]) * index_[d];
    }
    return offset;
  }
  std::uint64_t left() const { return access_.sizes[0] - position_; }
  void advance(std::uint64_t bytes) {
    position_ += bytes;
    if (position_ < access_.sizes[0]) return;
    position_ = 0;
    for (int d = 1; d < 4; ++d) {
      if (++index_[d] < access_.sizes[d]) return;
      index_[d] = 0;
    }
  }

 private:
  const neff::DmaAccess& access_;
  std::uint64_t position_ = 0;
  std::array<std::uint64_t, 4> index_{};
};

std::vector<Packet> rows_of(const neff::DmaTransfer& transfer) {
  const neff::DmaAccess& from = transfer.from[0];
  const neff::DmaAccess& to = transfer.to;
  RunCursor source(from);
  RunCursor target(to);
  std::vector<Packet> rows;
  for (std::uint64_t left = to.bytes(); left > 0;) {
    const std::uint64_t length =
        std::min({source.left(), target.left(), std::uint64_t{NEURON_UDMA_MAX_DESC_BYTES}});
    rows.push_back({source.offset(), target.offset(), from.variable, to.variable,
                    static_cast<std::uint32_t>(length), false});
    source.advance(length);
    target.advance(length);
    left -= length;
  }
  return rows;
}

Result<void> check_supported(std::uint32_t engine, const neff::DmaTransfer& transfer) {
  const char* unknown = nullptr;
  if (transfer.operation != neff::DmaOperation::kCopy) unknown = "an operation other than copy";
  if (transfer.from.size() != 1) unknown = "several sources";
  if (transfer.event) unknown = "an event; a semaphore does the same";
  if (!transfer.remote_semaphores.empty()) unknown = "a semaphore of another core";
  if (!transfer.instance.empty()) unknown = "a queue instance";
  if (transfer.function || transfer.starts_section) unknown = "a section of a function";
  if (unknown != nullptr) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "transfer {} of engine {} uses {}, which this runtime does not run on generation 2",
                transfer.id, neff::engine_name(static_cast<std::uint8_t>(engine)), unknown);
  }
  return {};
}

}  // namespace

Result<EngineCounts> RingPlan::add(const neff::Subgraph& subgraph, std::uint32_t engine,
                                   const neff::DmaTransfer& transfer, QueuePlan& queue) {
  NEURON_CHECK(check_supported(engine, transfer));
  const std::uint32_t engines = subgraph.queues[transfer.queue].num_queues;
  // Known before any row is made: a file of a few bytes can ask for any number of them.
  const std::uint64_t most = transfer.from[0].runs() + transfer.to.runs() +
                             transfer.to.bytes() / NEURON_UDMA_MAX_DESC_BYTES + engines;
  if (most > kMaxPackets - packets_) {
    return fail(NRT_RESOURCE,
                "the transfers up to {} of engine {} need more than {} DMA descriptors; use longer "
                "contiguous runs",
                transfer.id, neff::engine_name(static_cast<std::uint8_t>(engine)), kMaxPackets);
  }
  const std::vector<Packet> rows = rows_of(transfer);
  packets_ += rows.size() + (transfer.semaphore ? engines : 0);
  EngineCounts counts{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t e = r * engines / rows.size();
    queue.packets[e].push_back(rows[r]);
    if (counts[e] == UINT16_MAX - 1) {
      return fail(NRT_INVALID,
                  "transfer {} of engine {} has {} contiguous runs; a trigger can push 65534 "
                  "descriptors to each of {} DMA engines",
                  transfer.id, neff::engine_name(static_cast<std::uint8_t>(engine)), rows.size(),
                  engines);
    }
    ++counts[e];
  }
  if (transfer.semaphore) {
    for (std::uint32_t e = 0; e < engines; ++e) {
      // The barrier makes the data visible before the semaphore says so.
      const bool bare = counts[e] == 0;
      if (!bare) queue.packets[e].back().barrier = true;
      queue.packets[e].push_back(
          {0, *transfer.semaphore * 4ull, one_index(), semaphore_index(), 4, bare});
      ++counts[e];
    }
  }
  return counts;
}

Result<RingPlan> RingPlan::build(const neff::Subgraph& subgraph) {
  if (subgraph.queues.size() > kMaxQueues) {
    return fail(NRT_INVALID, "{} queue sets; a core has {} queues for programs",
                subgraph.queues.size(), kMaxQueues);
  }
  RingPlan plan;
  plan.one_ = static_cast<std::uint32_t>(subgraph.variables.size());
  std::vector<QueuePlan> queues(subgraph.queues.size());
  for (std::size_t q = 0; q < queues.size(); ++q) {
    queues[q].number = static_cast<std::uint8_t>(q);
    queues[q].engines = static_cast<std::uint8_t>(subgraph.queues[q].num_queues);
  }
  for (std::uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const neff::DmaTransfer& transfer : subgraph.engines[engine].dma) {
      NEURON_TRY(counts, plan.add(subgraph, engine, transfer, queues[transfer.queue]));
      const auto [known, added] = plan.blocks_.try_emplace(key(engine, transfer.id), counts);
      if (!added && known->second != counts) {
        return fail(NRT_INVALID,
                    "transfers with id {} of engine {} need different numbers of descriptors, but "
                    "one trigger stands for all of them; give them different ids",
                    transfer.id, neff::engine_name(static_cast<std::uint8_t>(engine)));
      }
    }
  }
  for (QueuePlan& queue : queues) {
    std::size_t longest = 0;
    for (const auto& packets : queue.packets) longest = std::max(longest, packets.size());
    if (longest == 0) continue;
    // One slot more than descriptors: a full ring would look like an empty one.
    const std::uint64_t slots = (longest + NEURON_UDMA_RING_MULTIPLE) / NEURON_UDMA_RING_MULTIPLE *
                                NEURON_UDMA_RING_MULTIPLE;
    queue.length = static_cast<std::uint32_t>(std::max<std::uint64_t>(slots, NEURON_UDMA_RING_MIN));
    if (slots > NEURON_UDMA_RING_MAX) {
      return fail(NRT_INVALID, "queue set {} needs rings of {} descriptors; the most is {}",
                  subgraph.queues[queue.number].name, slots, NEURON_UDMA_RING_MAX);
    }
    plan.queues_.push_back(std::move(queue));
  }
  return plan;
}

const QueuePlan* RingPlan::queue(std::uint32_t number) const {
  for (const QueuePlan& queue : queues_) {
    if (queue.number == number) return &queue;
  }
  return nullptr;
}

const EngineCounts& RingPlan::counts(std::uint32_t engine, std::uint32_t id) const {
  static const EngineCounts none{};
  const auto found = blocks_.find(key(engine, id));
  if (found != blocks_.end()) return found->second;
  return none;
}

}  // namespace neuron::runtime
