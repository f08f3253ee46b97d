// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/ring_plan.h"

#include <algorithm>
#include <numeric>

#include "hw/udma.h"
#include "runtime/rings/function_calls.h"

namespace neuron::runtime {
namespace {

// How many calls of a function may be outstanding before the transfers of the first have moved.
constexpr uint32_t kCallsInFlight = 4;

const char* engine_text(uint32_t engine) { return neff::engine_name(static_cast<uint8_t>(engine)); }

std::string words(uint32_t engine, const neff::DmaTransfer& transfer) {
  return format("transfer {} of engine {}", transfer.id, engine_text(engine));
}

Result<void> check_supported(uint32_t engine, const neff::DmaTransfer& transfer,
                             const neff::QueueSet& set) {
  if (set.kind == neff::QueueKind::kDynamic) {
    return fail(NRT_INVALID,
                "{} goes to queue set '{}', which is dynamic: the program makes its descriptors; "
                "give the transfer a queue set of another type",
                words(engine, transfer), set.name);
  }
  return {};
}

// Adds a copy of one word from `from` to `base` + offset; with `barrier`, after everything before
// it on this queue.
void add_word(RingPair& ring, uint32_t from, uint32_t base, uint64_t offset, bool barrier,
              uint8_t priority) {
  ring.m2s.push_back({.offset = 0,
                      .base = from,
                      .length = 4,
                      .priority = priority,
                      .first = true,
                      .last = true,
                      .barrier = barrier});
  ring.s2m.push_back({.offset = offset, .base = base, .length = 4});
}

}  // namespace

std::optional<uint8_t> completion_semaphore(const neff::DmaTransfer& transfer,
                                            const neff::QueueSet& set, uint32_t e) {
  if (transfer.semaphore) return transfer.semaphore;
  if (set.semaphore) return set.semaphore;
  if (e < set.semaphore_set.size()) return set.semaphore_set[e];
  return std::nullopt;
}

RingPlan::RingKey RingPlan::ring_key(uint32_t engine, const neff::DmaTransfer& transfer) {
  if (!transfer.function) return {transfer.queue, transfer.instance, 0, 0};
  return {transfer.queue, transfer.instance, engine, *transfer.function + 1};
}

RingPlan::BlockKey RingPlan::block_key(uint32_t engine, const neff::DmaTransfer& transfer) {
  return {engine, transfer.function ? *transfer.function + 1 : 0, transfer.id};
}

QueuePlan& RingPlan::ring(const neff::Subgraph& subgraph, uint32_t engine,
                          const neff::DmaTransfer& transfer) {
  const auto [place, added] =
      rings_.try_emplace(ring_key(engine, transfer), static_cast<uint32_t>(queues_.size()));
  if (added) {
    const neff::QueueSet& set = subgraph.queues[transfer.queue];
    QueuePlan queue;
    queue.engines = static_cast<uint8_t>(set.num_queues);
    queue.name = set.name;
    if (!transfer.instance.empty()) queue.name += ", instance " + transfer.instance;
    if (transfer.function) {
      queue.name +=
          format(", function {} of {}", subgraph.engines[engine].entries[*transfer.function].name,
                 engine_text(engine));
    }
    queues_.push_back(std::move(queue));
  }
  return queues_[place->second];
}

Result<TriggerCounts> RingPlan::add(const neff::Subgraph& subgraph,
                                    const neff::DmaTransfer& transfer, QueuePlan& queue) {
  const neff::QueueSet& set = subgraph.queues[transfer.queue];
  const uint32_t engines = set.num_queues;
  // The queues of a set advance independently. A transfer that sets an event or starts a section
  // therefore uses one queue.
  const uint32_t spread = transfer.event || transfer.starts_section ? 1 : engines;
  const uint64_t words_after = 2ull * engines * (1 + transfer.remote_semaphores.size()) + 2;
  // The limit is checked before any row is made: a file of a few bytes can ask for any number of
  // rows. The check below, against what a trigger can push, would come when all were in memory.
  const uint64_t most =
      std::min<uint64_t>(2 * kMaxPackets - std::min(2 * kMaxPackets, descriptors_ + words_after),
                         2ull * spread * UINT16_MAX);
  if (transfer.operation == neff::DmaOperation::kCopy &&
      2 * std::max(transfer.from[0].runs(), transfer.to.runs()) > most) {
    return fail(NRT_RESOURCE,
                "needs more than {} DMA descriptors; use longer contiguous runs, or several "
                "transfers",
                most);
  }
  NEURON_TRY(list, cut_into_packets(transfer, spread, most));
  std::array<std::array<uint64_t, 2>, kDmaEngines> before{};
  for (uint32_t e = 0; e < engines; ++e) {
    before[e] = {queue.rings[e].m2s.size(), queue.rings[e].s2m.size()};
  }
  PacketList::End begin;
  for (size_t p = 0; p < list.ends.size(); ++p) {
    RingPair& ring = queue.rings[p * spread / list.ends.size()];
    const PacketList::End end = list.ends[p];
    ring.m2s.insert(ring.m2s.end(), list.m2s.begin() + begin.m2s, list.m2s.begin() + end.m2s);
    ring.s2m.insert(ring.s2m.end(), list.s2m.begin() + begin.s2m, list.s2m.begin() + end.s2m);
    begin = end;
  }
  TriggerCounts counts;
  for (uint32_t e = 0; e < engines; ++e) {
    RingPair& ring = queue.rings[e];
    const auto semaphore = completion_semaphore(transfer, set, e);
    const bool event = e == 0 && transfer.event;
    const std::vector<uint8_t>& remote = transfer.remote_semaphores;
    if (semaphore || event || !remote.empty()) {
      // The barrier makes the data visible before the semaphore says so.
      const bool bare = ring.m2s.size() == before[e][0];
      if (!bare) ring.m2s.back().barrier = true;
      const auto add = [&](uint32_t base, uint64_t offset) {
        add_word(ring, one_index(), base, offset, bare, transfer.priority);
      };
      if (semaphore) add(semaphore_index(), *semaphore * 4ull);
      if (event) add(event_index(), *transfer.event * 4ull);
      for (const uint8_t number : remote) add(peer_semaphore_index(), number * 4ull);
    }
    const uint64_t m2s = ring.m2s.size() - before[e][0];
    const uint64_t s2m = ring.s2m.size() - before[e][1];
    if (std::max(m2s, s2m) > UINT16_MAX) {
      return fail(NRT_INVALID,
                  "needs {} descriptors on one of {} DMA engines; a trigger can push {} to each; "
                  "use longer contiguous runs, or several transfers",
                  std::max(m2s, s2m), engines, UINT16_MAX);
    }
    counts.m2s[e] = static_cast<uint16_t>(m2s);
    counts.s2m[e] = static_cast<uint16_t>(s2m);
    descriptors_ += m2s + s2m;
  }
  return counts;
}

Result<void> RingPlan::add_transfers(const neff::Subgraph& subgraph) {
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const neff::DmaTransfer& transfer : subgraph.engines[engine].dma) {
      NEURON_CHECK(check_supported(engine, transfer, subgraph.queues[transfer.queue]));
      const auto [first, alone] = triggering_.try_emplace(ring_key(engine, transfer), engine);
      if (!alone && first->second != engine) {
        return fail(NRT_INVALID,
                    "queue set '{}' holds transfers of {} and of {}; the order in which two "
                    "engines trigger one ring is not known; give each its own queue set",
                    subgraph.queues[transfer.queue].name, engine_text(first->second),
                    engine_text(engine));
      }
      auto counts = add(subgraph, transfer, ring(subgraph, engine, transfer));
      if (!counts) {
        return Error(counts.error().status,
                     words(engine, transfer) + " " + counts.error().sentence);
      }
      const auto [known, added] = blocks_.try_emplace(block_key(engine, transfer), *counts);
      if (!added && known->second != *counts) {
        return fail(NRT_INVALID,
                    "transfers with id {} of engine {} need different numbers of descriptors, but "
                    "one trigger stands for all of them; give them different ids",
                    transfer.id, engine_text(engine));
      }
    }
  }
  return {};
}

Result<void> RingPlan::size_rings(QueuePlan& queue, bool function) {
  constexpr uint64_t kMultiple = NEURON_UDMA_RING_MULTIPLE;
  uint64_t longest = 0;
  for (const RingPair& ring : queue.rings) {
    longest = std::max({longest, ring.m2s.size(), ring.s2m.size()});
  }
  // A ring has one slot more than descriptors: a full ring would look like an empty one.
  const uint64_t plain =
      std::max<uint64_t>((longest + kMultiple) / kMultiple * kMultiple, NEURON_UDMA_RING_MIN);
  for (uint32_t e = 0; e < queue.engines; ++e) {
    RingPair& ring = queue.rings[e];
    for (const bool s2m : {false, true}) {
      const uint64_t count = s2m ? ring.s2m.size() : ring.m2s.size();
      uint64_t length = plain;
      uint64_t copies = 1;
      if (function && count != 0) {
        copies = kMultiple / std::gcd(count, kMultiple);
        while (copies < kCallsInFlight || copies * count < NEURON_UDMA_RING_MIN) copies *= 2;
        length = copies * count;
        descriptors_ += (copies - 1) * count;
      }
      if (length > NEURON_UDMA_RING_MAX || descriptors_ > 2 * kMaxPackets) {
        return fail(NRT_INVALID,
                    "queue set {} needs rings of {} descriptors, in all {}; the most is {} in a "
                    "ring and {} in a model",
                    queue.name, length, descriptors_, NEURON_UDMA_RING_MAX, 2 * kMaxPackets);
      }
      (s2m ? ring.s2m_length : ring.m2s_length) = static_cast<uint32_t>(length);
      (s2m ? ring.s2m_copies : ring.m2s_copies) = static_cast<uint32_t>(copies);
    }
  }
  return {};
}

namespace {

Result<void> check_slots(uint64_t slots) {
  // Memory of each binding, on the device and while it is written on the host: rings of a set are
  // as long as the longest, and those of dynamic queues as long as the file says.
  if (slots <= 2 * kMaxPackets) return {};
  return fail(NRT_INVALID,
              "the DMA rings of the program have {} slots in all; the most is {}; give dynamic "
              "queue sets shorter rings (ring_descriptors), or spread transfers over the queues "
              "of their set",
              slots, 2 * kMaxPackets);
}

// Slots that a ring begins at, so that its address is one that a queue can have.
constexpr size_t kAlignedSlots = NEURON_UDMA_RING_ALIGN / NEURON_DESC_BYTES;

// Puts the rings of a function behind those that the queue has. The offsets are from the begin of
// the queue's rings.
SharedRing append(QueuePlan& queue, const QueuePlan& function) {
  SharedRing ring{.number = queue.number, .engines = function.engines};
  queue.engines = std::max(queue.engines, function.engines);
  for (uint32_t e = 0; e < function.engines; ++e) {
    for (const bool s2m : {false, true}) {
      std::vector<RingDescriptor>& to = s2m ? queue.rings[e].s2m : queue.rings[e].m2s;
      const auto& from = s2m ? function.rings[e].s2m : function.rings[e].m2s;
      const size_t begin = (to.size() + kAlignedSlots - 1) / kAlignedSlots * kAlignedSlots;
      to.resize(begin, {.base = RingDescriptor::kEmpty});
      to.insert(to.end(), from.begin(), from.end());
      ring.offset[e][s2m ? 1 : 0] = begin * NEURON_DESC_BYTES;
    }
  }
  return ring;
}

}  // namespace

uint64_t ring_bytes(uint32_t length) {
  return (uint64_t{length} * NEURON_DESC_BYTES + NEURON_UDMA_RING_ALIGN - 1) /
         NEURON_UDMA_RING_ALIGN * NEURON_UDMA_RING_ALIGN;
}

// Functions that are in progress together, because one calls the other, have different queues.
Result<std::vector<QueuePlan>> RingPlan::share(
    const neff::EngineProgram& program, const FunctionCalls& calls,
    const std::map<uint32_t, std::vector<uint32_t>>& rings, size_t first) {
  std::vector<QueuePlan> queues;
  std::map<uint32_t, size_t> used;  // By function: queues of those that it calls, and its own
  uint64_t slots = 0;
  for (const uint32_t entry : calls.order()) {
    size_t& last = used[entry];
    for (const uint32_t callee : calls.callees(entry)) last = std::max(last, used[callee]);
    const auto its = rings.find(entry);
    if (its == rings.end()) continue;
    SharingFunction function{program.entries[entry].pc, calls.calls(entry), {}};
    for (const uint32_t index : its->second) {
      if (last == queues.size()) {
        QueuePlan queue;
        queue.number = static_cast<uint8_t>(std::min<size_t>(first + last, UINT8_MAX));
        queue.name = format("functions of {}", engine_text(program.engine));
        if (last != 0) queue.name += format(", queue {}", last + 1);
        queue.shared = true;
        queues.push_back(std::move(queue));
      }
      QueuePlan& ring = queues_[index];
      for (uint32_t e = 0; e < ring.engines; ++e) {
        slots += ring.rings[e].m2s.size() + ring.rings[e].s2m.size() + 2 * kAlignedSlots;
      }
      NEURON_CHECK(check_slots(slots));
      ring.number = queues[last].number;
      function.rings.push_back(append(queues[last++], ring));
    }
    sharing_[program.engine].push_back(std::move(function));
  }
  return queues;
}

// Numbers sets first, then instances and functions, each in the order of the file, then the queues
// that functions share.
Result<void> RingPlan::number_queues(const neff::Subgraph& subgraph) {
  std::vector<QueuePlan> ordered;
  std::map<RingKey, uint32_t> places;
  uint64_t slots = 0;
  const auto take = [&](QueuePlan queue) {
    for (const RingPair& ring : queue.rings) slots += ring.m2s_length + ring.s2m_length;
    queue.number = static_cast<uint8_t>(std::min<size_t>(ordered.size(), UINT8_MAX));
    ordered.push_back(std::move(queue));
    return static_cast<uint32_t>(ordered.size() - 1);
  };
  for (uint32_t set = 0; set < subgraph.queues.size(); ++set) {
    const neff::QueueSet& from = subgraph.queues[set];
    const RingKey key{set, {}, 0, 0};
    if (from.kind == neff::QueueKind::kDynamic) {
      QueuePlan queue;
      queue.engines = static_cast<uint8_t>(from.num_queues);
      queue.name = from.name;
      queue.dynamic = true;
      for (uint32_t e = 0; e < from.num_queues; ++e) {
        queue.rings[e].m2s_length = queue.rings[e].s2m_length = from.ring_descriptors;
      }
      descriptors_ += 2ull * from.ring_descriptors * from.num_queues;
      places[key] = take(std::move(queue));
    } else if (const auto found = rings_.find(key); found != rings_.end()) {
      NEURON_CHECK(size_rings(queues_[found->second], false));
      places[key] = take(std::move(queues_[found->second]));
    }
  }
  std::vector<std::pair<uint32_t, RingKey>> others;
  for (const auto& [key, index] : rings_) {
    if (!places.contains(key)) others.emplace_back(index, key);
  }
  std::sort(others.begin(), others.end());
  // Only programs that need it share: a call takes longer then (runtime/decisions.md).
  std::vector<FunctionCalls> calls;
  if (ordered.size() + others.size() > kMaxQueues) {
    for (const neff::EngineProgram& program : subgraph.engines) calls.emplace_back(program);
  }
  std::array<std::map<uint32_t, std::vector<uint32_t>>, NEURON_CORE_ENGINES> sharing;
  for (const auto& [index, key] : others) {
    const auto [set, instance, engine, function] = key;
    if (!calls.empty() && function != 0 && calls[engine].known(function - 1)) {
      sharing[engine][function - 1].push_back(index);
      continue;
    }
    NEURON_CHECK(size_rings(queues_[index], function != 0));
    places[key] = take(std::move(queues_[index]));
  }
  const size_t alone = ordered.size();
  for (uint32_t engine = 0; engine < calls.size(); ++engine) {
    NEURON_TRY(queues,
               share(subgraph.engines[engine], calls[engine], sharing[engine], ordered.size()));
    for (QueuePlan& queue : queues) {
      NEURON_CHECK(size_rings(queue, false));
      take(std::move(queue));
    }
  }
  if (ordered.size() > kMaxQueues) {
    if (alone == ordered.size()) {
      return fail(NRT_INVALID,
                  "the program needs {} DMA rings (one for each queue set, queue instance and "
                  "function with transfers); a core has {} queues for programs",
                  ordered.size(), kMaxQueues);
    }
    return fail(
        NRT_INVALID,
        "the program needs {} DMA queues: {} for queue sets, queue instances, and functions "
        "that call themselves or are reached other than by calls, and {} that its other "
        "functions share (on each engine as many as functions that call each other have "
        "rings together); a core has {} queues for programs; start transfers on fewer "
        "engines, in fewer queue sets",
        ordered.size(), alone, ordered.size() - alone, kMaxQueues);
  }
  NEURON_CHECK(check_slots(slots));
  for (const auto& [index, key] : others) places.try_emplace(key, queues_[index].number);
  queues_ = std::move(ordered);
  rings_ = std::move(places);
  place_rings();
  return {};
}

// All M2S rings come first, then all S2M rings in the same order, so that two copies upload them.
void RingPlan::place_rings() {
  for (const bool s2m : {false, true}) {
    uint64_t& bytes = bytes_[s2m ? 1 : 0];
    for (QueuePlan& queue : queues_) {
      for (uint32_t e = 0; e < queue.engines; ++e) {
        RingPair& ring = queue.rings[e];
        (s2m ? ring.s2m_offset : ring.m2s_offset) = (s2m ? bytes_[0] : 0) + bytes;
        bytes += ring_bytes(s2m ? ring.s2m_length : ring.m2s_length);
      }
    }
  }
  for (auto& functions : sharing_) {
    for (SharingFunction& function : functions) {
      for (SharedRing& ring : function.rings) {
        for (uint32_t e = 0; e < ring.engines; ++e) {
          ring.offset[e][0] += queues_[ring.number].rings[e].m2s_offset;
          ring.offset[e][1] += queues_[ring.number].rings[e].s2m_offset;
        }
      }
    }
  }
}

bool RingPlan::shares() const {
  return std::any_of(sharing_.begin(), sharing_.end(),
                     [](const auto& functions) { return !functions.empty(); });
}

Result<RingPlan> RingPlan::build(const neff::Subgraph& subgraph) {
  RingPlan plan;
  plan.one_ = static_cast<uint32_t>(subgraph.variables.size());
  NEURON_CHECK(plan.add_transfers(subgraph));
  NEURON_CHECK(plan.number_queues(subgraph));
  return plan;
}

uint8_t RingPlan::number(uint32_t engine, const neff::DmaTransfer& transfer) const {
  const auto found = rings_.find(ring_key(engine, transfer));
  return found == rings_.end() ? 0 : queues_[found->second].number;
}

std::optional<uint8_t> RingPlan::number(uint32_t set) const {
  const auto found = rings_.find({set, {}, 0, 0});
  if (found == rings_.end()) return std::nullopt;
  return queues_[found->second].number;
}

const TriggerCounts& RingPlan::counts(uint32_t engine, const neff::DmaTransfer& transfer) const {
  static const TriggerCounts none{};
  const auto found = blocks_.find(block_key(engine, transfer));
  return found == blocks_.end() ? none : found->second;
}

}  // namespace neuron::runtime
