// SPDX-License-Identifier: Apache-2.0
//
// The packets of transfers. A trace has a transfer for neighbouring packets of one queue; what they
// are says the plan of the ring that they lie in, which each execution goes through from its
// beginning, or the instruction that made them, whose rows are all alike.
// Callers: tables of a profile, with the transfers of one execution in their order. One thread.
// Cannot fail: of transfers that do not fit to the plan no packets are known, nor of those behind
// lost events.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_PACKETS_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_PACKETS_H

#include <map>
#include <vector>

#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

struct Packet : ntff::TracePacket {
  uint64_t begin = 0, end = 0;
};

class Packets {
 public:
  explicit Packets(const Program& program) : program_(program) {}

  // `row_bytes`: of each descriptor that the instruction made; 0: not known. `changes`: the last
  // packet changes a semaphore. The result is good until the next call; empty: not known.
  const std::vector<Packet>& of(const TransferEvent& e, uint32_t row_bytes, bool changes);
  // Transfers are missing here.
  void lost();

 private:
  void take_from_ring(const TransferEvent& e);
  void set_times(const TransferEvent& e);

  const Program& program_;
  std::map<uint32_t, size_t> places_;  // in the rings; SIZE_MAX: not known
  bool lost_ = false;
  std::vector<Packet> packets_;
};

}  // namespace neuron::profile

#endif
