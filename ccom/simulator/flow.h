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
#include <unordered_map>
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
  Flows(const Network& network, const Survey& survey, uint32_t window)
      : network_(network), survey_(survey), window_(window) {}

  // The flow between two ranks. `from` and `to` are ranks of the group, as the sender or the
  // receiver sees them; this function finds their stand-ins.
  Result<Flow*> between(Rank from, Rank to, uint32_t channel, uint32_t channels);

  // After the simulation: adds up the bytes that went over each resource.
  Result<void> add_up(std::vector<uint64_t>& bytes) const;

 private:
  struct Key {
    uint64_t ends;
    uint32_t channel;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t x = (key.ends ^ uint64_t{key.channel} << 27) * 0x9E3779B97F4A7C15u;
      return static_cast<size_t>(x ^ x >> 29);
    }
  };
  Flow* allocate();

  const Network& network_;
  const Survey& survey_;
  uint32_t window_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, Flow*, Hash> flows_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t used_ = 0;
};

}  // namespace neuron::ccom

#endif
