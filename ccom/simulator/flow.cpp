// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/flow.h"

#include <algorithm>
#include <new>

#include "ccom/simulator/costs.h"

namespace neuron::ccom {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kFirstEntries = 1 << 10;

}  // namespace

Flows::Flows(const Network& network, const Survey& survey, uint32_t window)
    : network_(network),
      survey_(survey),
      window_(window),
      bytes_(size_of_flow(window)),
      of_block_(std::max<size_t>(1, kBlockBytes / bytes_)),
      table_(kFirstEntries) {}

uint32_t Flows::allocate() {
  uint32_t number = 0;
  if (!free_.empty()) {
    number = free_.back();
    free_.pop_back();
  } else {
    if (made_ == blocks_.size() * of_block_) {
      blocks_.emplace_back(
          static_cast<std::byte*>(::operator new (of_block_* bytes_, std::align_val_t{kLine})));
    }
    number = ++made_;
  }
  Flow* made = new (flow(number)) Flow;
  std::fill_n(made->slots, window_, 0);
  return number;
}

void Flows::rebuild(const std::vector<Entry>& entries, size_t size) {
  table_.assign(size, {});
  for (const Entry& kept : entries) entry(kept.ends, kept.channel) = kept;
  size_ = entries.size();
}

Result<Flow*> Flows::between(Rank from, Rank to, uint32_t channel, uint32_t channels,
                             std::vector<Hop>& hops, bool& fresh) {
  // A flow is identified by its receiver's stand-in, and by its sender as seen from there.
  const Rank receiver = network_.stand_in(to), sender = network_.moved(to, from);
  const uint64_t ends = uint64_t{receiver} << 32 | sender;
  const std::lock_guard lock(mutex_);
  Entry* found = &entry(ends, channel);
  fresh = found->flow == 0;
  if (!fresh) return flow(found->flow);
  NEURON_CHECK(network_.path(sender, receiver, hops));
  if (2 * size_ >= table_.size()) {
    std::vector<Entry> entries;
    for (const Entry& kept : table_) {
      if (kept.flow != 0) entries.push_back(kept);
    }
    rebuild(entries, 2 * table_.size());
    found = &entry(ends, channel);
  }
  const uint32_t number = allocate();
  Flow* made = flow(number);
  made->sender = network_.stand_in(sender) * channels + channel;
  made->receiver = receiver * channels + channel;
  for (const Hop& hop : hops) {
    made->latency_ps += hop.latency_ps;
    const uint32_t sharers =
        survey_.flows.empty() ? 1 : std::max(1u, survey_.flows[network_.typical(hop.resource)]);
    made->ps_per_byte = std::max(made->ps_per_byte, ps_per_byte(hop.bytes_per_second / sharers));
  }
  *found = {ends, channel, number};
  ++size_;
  return made;
}

Result<void> Flows::add_up(std::vector<uint64_t>& bytes) const {
  bytes.assign(network_.resources(), 0);
  std::vector<Hop> hops;
  for (const Entry& entry : table_) {
    if (entry.flow == 0) continue;
    NEURON_CHECK(
        network_.path(static_cast<Rank>(entry.ends), static_cast<Rank>(entry.ends >> 32), hops));
    for (const Hop& hop : hops) bytes[hop.resource] += flow(entry.flow)->bytes;
  }
  return {};
}

}  // namespace neuron::ccom
