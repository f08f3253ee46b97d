// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/collectives.h"

#include <ccom/ccom_device.h>

#include <algorithm>

namespace neuron::profile {

void CollectivesVisitor::stream_instruction(const StreamEvent& e) {
  StreamTotals& stream = result_.streams[e.stream];
  ++stream.instructions;
  stream.time += e.end - e.begin;
  streams_[e.stream].add(e.begin, e.end);
  const ntff::StreamNote* note = program_.note(e.stream, e.pc);
  if (note == nullptr || program_.stream(e.stream)->collective(*note) == nullptr) return;
  Open& open = open_[e.stream];
  if (note->wait == CCOM_DEVICE_WAIT_GO) {
    close(open);
    open = {true, {e.stream, note->collective, e.begin, e.end}};
  }
  if (open.is && open.run.collective == note->collective) {
    open.run.end = std::max(open.run.end, e.end);
  }
  CollectiveTotals& totals = result_.operations[{e.stream, note->collective}];
  if (waits_for_rank(*note) && e.wait != 0) {
    totals.waited += e.wait;
    totals.waited_by_rank[note->wait_peer] += e.wait;
    result_.links[note->wait_peer].waited += e.wait;
  }
  if (note->action == CCOM_DEVICE_OFFER) {
    LinkTotals& link = result_.links[note->peer];
    ++link.transfers;
    link.bytes += note->bytes;
    link.network_bytes += note->bytes;
    totals.sent += note->bytes;
  }
}

void CollectivesVisitor::transfer(const TransferEvent& e) {
  const ntff::StreamNote* note =
      e.stream == kNoStream || e.writes == 0 ? nullptr : program_.note(e.stream, e.pc);
  if (note == nullptr || note->action != CCOM_DEVICE_SEND) return;
  if (program_.stream(e.stream)->collective(*note) == nullptr) return;
  LinkTotals& link = result_.links[note->peer];
  ++link.transfers;
  link.bytes += e.bytes;
  links_[note->peer].add(e.begin, e.end);
  result_.operations[{e.stream, note->collective}].sent += e.bytes;
}

void CollectivesVisitor::close(Open& open) {
  if (!open.is) return;
  open.is = false;
  const uint64_t time = open.run.end - std::min(open.run.begin, open.run.end);
  CollectiveTotals& totals = result_.operations[{open.run.stream, open.run.collective}];
  ++totals.runs;
  totals.time += time;
  totals.longest = std::max(totals.longest, time);
  ++result_.count;
  result_.time += time;
  any_.add(open.run.begin, open.run.end);
  if (result_.runs.size() < Collectives::kMostRuns) result_.runs.push_back(open.run);
}

void CollectivesVisitor::finish() {
  for (auto& [stream, open] : open_) close(open);
  for (auto& [rank, covered] : links_) result_.links[rank].active = covered.total();
  for (auto& [stream, covered] : streams_) result_.streams[stream].active = covered.total();
  result_.active = any_.total();
}

}  // namespace neuron::profile
