// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/flow.h"

#include <algorithm>
#include <new>

#include "ccom/simulator/costs.h"

namespace neuron::ccom {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kLine = 64;

}  // namespace

Flow* Flows::allocate() {
  const size_t bytes =
      (sizeof(Flow) + (window_ - 1) * sizeof(uint64_t) + kLine - 1) / kLine * kLine;
  if (blocks_.empty() || used_ + bytes > kBlockBytes) {
    blocks_.emplace_back(new std::byte[kBlockBytes + kLine]);
    used_ = (kLine - reinterpret_cast<uintptr_t>(blocks_.back().get()) % kLine) % kLine;
  }
  Flow* flow = new (blocks_.back().get() + used_) Flow;
  used_ += bytes;
  std::fill_n(flow->slots, window_, 0);
  return flow;
}

Result<Flow*> Flows::between(Rank from, Rank to, uint32_t channel, uint32_t channels) {
  // A flow is identified by its receiver's stand-in, and by its sender as seen from there.
  const Rank receiver = network_.stand_in(to), sender = network_.moved(to, from);
  const std::lock_guard lock(mutex_);
  const Key key{uint64_t{receiver} << 32 | sender, channel};
  if (const auto found = flows_.find(key); found != flows_.end()) return found->second;
  NEURON_TRY(hops, network_.path(sender, receiver));
  Flow* flow = allocate();
  flow->sender = network_.stand_in(sender) * channels + channel;
  flow->receiver = receiver * channels + channel;
  for (const Hop& hop : hops) {
    flow->latency_ps += hop.latency_ps;
    const uint32_t sharers =
        survey_.flows.empty() ? 1 : std::max(1u, survey_.flows[network_.typical(hop.resource)]);
    flow->ps_per_byte = std::max(flow->ps_per_byte, ps_per_byte(hop.bytes_per_second / sharers));
  }
  flows_.emplace(key, flow);
  return flow;
}

Result<void> Flows::add_up(std::vector<uint64_t>& bytes) const {
  bytes.assign(network_.resources(), 0);
  for (const auto& [key, flow] : flows_) {
    NEURON_TRY(hops, network_.path(static_cast<Rank>(key.ends), static_cast<Rank>(key.ends >> 32)));
    for (const Hop& hop : hops) bytes[hop.resource] += flow->bytes;
  }
  return {};
}

}  // namespace neuron::ccom
