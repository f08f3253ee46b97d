// SPDX-License-Identifier: Apache-2.0
// One direction between two ranks on one channel, as the dataflow engine keeps it, and the table of
// all flows.
//
// Concepts: message n uses slot n mod window. The sender writes its arrival there; the receiver
// replaces it by the time at which the credit is back at the sender. Threads: sender and receiver
// may be in different threads; the table is locked. Owns: the flows. Fails: like Network::path.
#ifndef CCOM_SIMULATOR_FLOW_H
#define CCOM_SIMULATOR_FLOW_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {

struct Flow {
  // Numbers of messages, modulo 2^32. The counting side stores with release and the other loads
  // with acquire, which also publishes the slots.
  std::atomic<uint32_t> sent{0};
  std::atomic<uint32_t> consumed{0};
  uint32_t sender = 0;    // lanes
  uint32_t receiver = 0;  //
  uint64_t free_ps = 0;   // when the last message has left the sender
  uint64_t latency_ps = 0;
  double ps_per_byte = 0;
  uint64_t bytes = 0;
  uint16_t head = 0;          // slot of the next message to send
  uint16_t tail = 0;          // and to receive
  bool sender_waits = false;  // used when both ends are in one thread
  bool receiver_waits = false;
  uint64_t slots[1];
};

class Flows {
 public:
  Flows(const Network& network, const Survey& survey, uint32_t window);

  // The flow between two ranks. `from` and `to` are ranks of the group, as the sender or the
  // receiver sees them; this function finds their stand-ins. `hops` is the caller's room; it holds
  // the route if `fresh` is set: then the flow is new.
  Result<Flow*> between(Rank from, Rank to, uint32_t channel, uint32_t channels,
                        std::vector<Hop>& hops, bool& fresh);

  // Forgets flows that are as good as new: nothing is on its way, and every credit was back at
  // `now_ps`. Before that, calls gone(flow) for each. Keeps to the time of the engine of events.
  template <class Gone>
  void forget_idle(uint64_t now_ps, Gone gone);
  size_t size() const { return size_; }
  // About how many bytes a flow takes.
  static uint64_t bytes_of_flow(uint32_t window) {
    return size_of_flow(window) + 3 * sizeof(Entry);
  }

  // After the simulation: adds up the bytes that went over each resource.
  Result<void> add_up(std::vector<uint64_t>& bytes) const;

 private:
  // An open-addressed table: one line of memory for most look-ups, which are what a simulation of
  // many peers spends its time on.
  struct Entry {
    uint64_t ends = 0;  // receiver << 32 | sender
    uint32_t channel = 0;
    uint32_t flow = 0;  // number from 1; 0: empty
  };
  static size_t hash(uint64_t ends, uint32_t channel) {
    // Sender and receiver are often alike, so every bit must reach every other.
    uint64_t x = ends ^ uint64_t { channel } << 27;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return static_cast<size_t>(x ^ x >> 32);
  }
  Entry& entry(uint64_t ends, uint32_t channel) {
    const size_t mask = table_.size() - 1;
    size_t at = hash(ends, channel) & mask;
    while (table_[at].flow != 0 && (table_[at].ends != ends || table_[at].channel != channel)) {
      at = (at + 1) & mask;
    }
    return table_[at];
  }
  void rebuild(const std::vector<Entry>& entries, size_t size);
  Flow* flow(uint32_t number) const {
    const size_t at = number - 1;
    return reinterpret_cast<Flow*>(blocks_[at / of_block_].get() + at % of_block_ * bytes_);
  }
  static constexpr size_t kLine = 64;
  static constexpr size_t size_of_flow(uint32_t window) {
    return (sizeof(Flow) + (window - 1) * sizeof(uint64_t) + kLine - 1) / kLine * kLine;
  }
  uint32_t allocate();

  const Network& network_;
  const Survey& survey_;
  uint32_t window_;
  mutable std::mutex mutex_;
  size_t bytes_;     // of a flow
  size_t of_block_;  // flows in a block
  std::vector<Entry> table_;
  size_t size_ = 0;
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{kLine});
    }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  uint32_t made_ = 0;           // flows that have ever had a place
  std::vector<uint32_t> free_;  // places of forgotten flows
};

template <class Gone>
void Flows::forget_idle(uint64_t now_ps, Gone gone) {
  std::vector<Entry> kept;
  for (const Entry& entry : table_) {
    if (entry.flow == 0) continue;
    Flow& flow = *this->flow(entry.flow);
    bool idle = flow.sent.load(std::memory_order_relaxed) ==
                    flow.consumed.load(std::memory_order_relaxed) &&
                !flow.sender_waits && !flow.receiver_waits && flow.free_ps <= now_ps;
    for (uint32_t slot = 0; slot < window_ && idle; ++slot) idle = flow.slots[slot] <= now_ps;
    if (!idle) {
      kept.push_back(entry);
      continue;
    }
    gone(flow);
    free_.push_back(entry.flow);
  }
  rebuild(kept, table_.size());
}

}  // namespace neuron::ccom

#endif
