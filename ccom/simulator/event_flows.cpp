// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/event_flows.h"

#include <algorithm>

#include "ccom/simulator/costs.h"

namespace neuron::ccom {
namespace {

constexpr size_t kFirstTable = 1 << 10;
constexpr size_t kMostLatencies = UINT16_MAX;  // an EventFlow has their numbers

}  // namespace

EventFlows::EventFlows(const Network& network, const Survey& survey, uint32_t window,
                       uint32_t channels, bool divided)
    : network_(network),
      survey_(survey),
      window_(window),
      channels_(channels),
      table_(kFirstTable),
      keeps_divided_(divided) {}

uint32_t EventFlows::allocate() {
  if (free_ != 0) {
    const uint32_t number = free_;
    free_ = (*this)[number].sent;
    return number;
  }
  const uint32_t number = ++made_;
  if ((number - 1) / kOfBlock == blocks_.size()) blocks_.push_back(std::make_unique<Block>());
  if (keeps_divided_) divided_.emplace_back();
  return number;
}

uint32_t EventFlows::allocate_slots() {
  uint32_t number = free_slots_;
  if (number != 0) {
    free_slots_ = static_cast<uint32_t>(slots_of(number)[0]);
  } else {
    number = ++made_slots_;
    if ((number - 1) / kOfBlock == slots_.size()) {
      slots_.push_back(std::make_unique<uint64_t[]>(uint64_t{window_ - 1} * kOfBlock));
    }
  }
  std::fill_n(slots_of(number), window_ - 1, 0);
  return number;
}

// Routes have few latencies: sums of those of a few kinds of links.
uint16_t EventFlows::latency_number(uint64_t latency_ps) {
  const auto found = std::find(latencies_.begin(), latencies_.end(), latency_ps);
  const auto number = static_cast<uint16_t>(found - latencies_.begin());
  if (found == latencies_.end()) latencies_.push_back(latency_ps);
  return number;
}

uint32_t EventFlows::live(const EventFlow& flow, uint64_t now_ps) {
  uint32_t live = flow.flying;
  for (uint32_t at = 0; at < window_ && (at == 0 || flow.more != 0); ++at) {
    const uint32_t behind = at < flow.head ? flow.head - at : flow.head + window_ - at;
    if (behind <= flow.flying) continue;  // on its way, or arrived
    if ((at == 0 ? flow.slot : slot(flow, at)) > now_ps) ++live;
  }
  return live;
}

uint64_t EventFlows::live_messages(uint64_t now_ps) {
  uint64_t messages = 0;
  for (const uint32_t number : table_) {
    if (number != 0) messages += live((*this)[number], now_ps);
  }
  return messages;
}

void EventFlows::release(uint32_t number) {
  EventFlow& flow = (*this)[number];
  if (flow.more != 0) {
    slots_of(flow.more)[0] = free_slots_;
    free_slots_ = flow.more;
  }
  flow.sent = free_;
  free_ = number;
}

void EventFlows::rebuild(const std::vector<uint32_t>& flows, size_t size) {
  table_.assign(size, 0);
  for (const uint32_t number : flows) {
    entry((*this)[number].receiver, sender_of(number)) = number;
  }
  size_ = static_cast<uint32_t>(flows.size());
}

Result<uint32_t> EventFlows::make(Rank from, Rank to, uint32_t channel, std::vector<Hop>& hops) {
  const Rank receiver = network_.stand_in(to), sender = network_.moved(to, from);
  const uint32_t lane = receiver * channels_ + channel;
  NEURON_CHECK(network_.path(sender, receiver, hops));
  if (4 * (uint64_t{size_} + 1) > 3 * table_.size()) {
    std::vector<uint32_t> flows;
    for (const uint32_t number : table_) {
      if (number != 0) flows.push_back(number);
    }
    rebuild(flows, 2 * table_.size());
  }
  if (latencies_.size() == kMostLatencies) {
    return fail(CCOM_UNSUPPORTED, "the routes of this topology have more than {} latencies",
                kMostLatencies);
  }
  const uint32_t number = allocate();
  EventFlow& flow = (*this)[number];
  flow = {};
  flow.sender = network_.stand_in(sender) * channels_ + channel;
  flow.receiver = lane;
  sender_of(number) = sender;
  uint64_t latency_ps = 0;
  Divided part;
  for (const Hop& hop : hops) {
    latency_ps += hop.latency_ps;
    if (!keeps_divided_) continue;
    const uint32_t sharers =
        survey_.flows.empty() ? 1 : std::max(1u, survey_.flows[network_.typical(hop.resource)]);
    part.ps_per_byte = std::max(part.ps_per_byte, ps_per_byte(hop.bytes_per_second / sharers));
  }
  flow.latency = latency_number(latency_ps);
  if (keeps_divided_) divided_[number - 1] = part;
  entry(lane, sender) = number;
  ++size_;
  return number;
}

uint64_t EventFlows::memory_bytes() const {
  return blocks_.size() * sizeof(Block) +
         slots_.size() * kOfBlock * (window_ - 1) * sizeof(uint64_t) +
         table_.capacity() * sizeof(uint32_t) + divided_.capacity() * sizeof(Divided);
}

Result<void> EventFlows::add_up(std::vector<uint64_t>& bytes) {
  bytes.assign(network_.resources(), 0);
  std::vector<Hop> hops;
  for (const uint32_t number : table_) {
    if (number == 0) continue;
    NEURON_CHECK(network_.path(sender_of(number), (*this)[number].receiver / channels_, hops));
    for (const Hop& hop : hops) bytes[hop.resource] += divided_[number - 1].bytes;
  }
  return {};
}

}  // namespace neuron::ccom
