// SPDX-License-Identifier: Apache-2.0
// The messages of each pair and channel as the engine of events keeps them, in little memory: half
// a cache line a flow.
//
// Concepts: as in flow.h, message n uses slot n mod window; the sender writes its arrival there,
// the receiver replaces it by the time at which the credit is back. The first slot is in the flow;
// the others are allocated with the second message. Flows are numbered from 1. What only divided
// resources need lies beside them. Callers: the engine of events. Threads: one. Owns: the flows.
// Fails: like Network::path.
#ifndef CCOM_SIMULATOR_EVENT_FLOWS_H
#define CCOM_SIMULATOR_EVENT_FLOWS_H

#include <cstdint>
#include <memory>
#include <vector>

#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {

struct EventFlow {
  uint64_t slot = 0;      // the first one
  uint32_t sender = 0;    // lanes
  uint32_t receiver = 0;  //
  uint32_t sent = 0;      // messages, modulo 2^32
  uint32_t more = 0;      // number of the other slots; 0: none yet
  uint16_t head = 0;      // slot of the next message to send
  uint16_t flying = 0;    // messages that have been sent and not received
  uint16_t latency = 0;   // number of the route's latency
  bool sender_waits = false;
  bool receiver_waits = false;
};
static_assert(sizeof(EventFlow) == 32);

class EventFlows {
 public:
  // Rates and sums of a flow, where every flow has a part of each resource.
  struct Divided {
    uint64_t free_ps = 0;  // when the last message has left the sender
    double ps_per_byte = 0;
    uint64_t bytes = 0;
  };

  EventFlows(const Network& network, const Survey& survey, uint32_t window, uint32_t channels,
             bool divided);

  // The flow between two ranks, as flow.h explains; 0: there is none.
  uint32_t find(Rank from, Rank to, uint32_t channel) {
    return entry(network_.stand_in(to) * channels_ + channel, network_.moved(to, from));
  }
  // Makes one that there is not. `hops` is the caller's room, and holds the route afterwards.
  Result<uint32_t> make(Rank from, Rank to, uint32_t channel, std::vector<Hop>& hops);
  EventFlow& operator[](uint32_t number) {
    return blocks_[(number - 1) / kOfBlock]->flows[(number - 1) % kOfBlock];
  }
  const EventFlow& operator[](uint32_t number) const {
    return blocks_[(number - 1) / kOfBlock]->flows[(number - 1) % kOfBlock];
  }
  Divided& divided(uint32_t number) { return divided_[number - 1]; }
  uint64_t latency_ps(const EventFlow& flow) const { return latencies_[flow.latency]; }

  // The slot of the next message to send, and of the next one to receive, of which there must be
  // one. A flow whose last credit is back has all of them back, and begins with its first slot
  // again; so few flows need others.
  uint64_t& head(EventFlow& flow, uint64_t now_ps) {
    if (flow.head != 0 && flow.flying == 0) {
      const uint64_t last = flow.head == 1 ? flow.slot : slot(flow, flow.head - 1u);
      if (last <= now_ps) flow.head = 0;
    }
    if (flow.head == 0) return flow.slot;
    if (flow.more == 0) flow.more = allocate_slots();
    return slot(flow, flow.head);
  }
  uint64_t& tail(EventFlow& flow) {
    const uint32_t at = flow.head >= flow.flying ? uint32_t{flow.head} - flow.flying
                                                 : flow.head + window_ - flow.flying;
    return at == 0 ? flow.slot : slot(flow, at);
  }

  // Forgets flows that are as good as new at `now_ps`. Before that, calls gone(flow, number).
  template <class Gone>
  void forget_idle(uint64_t now_ps, Gone gone);
  // How many messages have been sent whose credits are not back.
  uint64_t live_messages(uint64_t now_ps);
  uint32_t size() const { return size_; }
  // Bytes of the flows that there are, of their slots and of the table, and about how many a flow
  // takes that has had several messages.
  uint64_t memory_bytes() const;
  static uint64_t bytes_of_flow(uint32_t window) {
    return sizeof(EventFlow) + sizeof(Rank) + uint64_t{window - 1} * 8 + 2 * sizeof(uint32_t);
  }

  // After the simulation, where resources are divided: adds up the bytes that went over each.
  Result<void> add_up(std::vector<uint64_t>& bytes);

 private:
  static constexpr uint32_t kOfBlock = 1 << 10;
  struct Block {
    EventFlow flows[kOfBlock];
    Rank from[kOfBlock];  // the sender as seen from the receiver's stand-in
  };

  static size_t hash(uint32_t receiver, Rank from) {
    uint64_t x = (uint64_t{receiver} << 32 | from) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return static_cast<size_t>(x >> 32);
  }
  uint32_t& entry(uint32_t receiver, Rank from) {
    const size_t mask = table_.size() - 1;
    size_t at = hash(receiver, from) & mask;
    for (; table_[at] != 0; at = (at + 1) & mask) {
      const Block& block = *blocks_[(table_[at] - 1) / kOfBlock];
      const uint32_t within = (table_[at] - 1) % kOfBlock;
      if (block.from[within] == from && block.flows[within].receiver == receiver) break;
    }
    return table_[at];
  }
  uint64_t& slot(const EventFlow& flow, uint32_t at) { return slots_of(flow.more)[at - 1]; }
  uint64_t* slots_of(uint32_t more) {
    return &slots_[(more - 1) / kOfBlock][uint64_t{(more - 1) % kOfBlock} * (window_ - 1)];
  }
  Rank& sender_of(uint32_t number) {
    return blocks_[(number - 1) / kOfBlock]->from[(number - 1) % kOfBlock];
  }
  uint32_t allocate();
  uint32_t allocate_slots();
  uint16_t latency_number(uint64_t latency_ps);
  // Messages on their way and credits on their way back.
  uint32_t live(const EventFlow& flow, uint64_t now_ps);
  void release(uint32_t number);
  void rebuild(const std::vector<uint32_t>& flows, size_t size);

  const Network& network_;
  const Survey& survey_;
  const uint32_t window_;
  const uint32_t channels_;
  std::vector<uint32_t> table_;  // open-addressed: numbers of flows, 0 where there is none
  uint32_t size_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  uint32_t made_ = 0;  // flows that have ever had a place
  uint32_t free_ = 0;  // the first place of a forgotten flow; its `sent` is the next one
  std::vector<std::unique_ptr<uint64_t[]>> slots_;
  uint32_t made_slots_ = 0;
  uint32_t free_slots_ = 0;       // likewise, by the first slot
  std::vector<Divided> divided_;  // by flow, or empty
  std::vector<uint64_t> latencies_;
  const bool keeps_divided_;
};

template <class Gone>
void EventFlows::forget_idle(uint64_t now_ps, Gone gone) {
  std::vector<uint32_t> kept;
  for (const uint32_t number : table_) {
    if (number == 0) continue;
    EventFlow& flow = (*this)[number];
    if (flow.sender_waits || flow.receiver_waits || live(flow, now_ps) != 0) {
      kept.push_back(number);
      continue;
    }
    gone(flow, number);
    release(number);
  }
  rebuild(kept, table_.size());
}

}  // namespace neuron::ccom

#endif
