// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/collectives.h"

#include <ccom/ccom_device.h>

#include <algorithm>

namespace neuron::profile {
namespace {

// Runs that one trigger may begin; a damaged file may say any number.
constexpr uint32_t kMostOfTrigger = 1024;

}  // namespace

// An engine begins a collective by a write to its CC core.
void CollectivesVisitor::instruction(const InstructionEvent& e) {
  if (e.opcode != NEURON_OP_CC_TRIGGER && e.opcode != NEURON_OP_WRITE) return;
  if (!program_.has(e.engine, e.pc)) return;
  const isa::Instruction i = program_.instruction(e.engine, e.pc);
  for (const Stream& stream : program_.streams) {
    if (stream.go == 0 || i.address.addr != stream.go) continue;
    const bool known = i.scalar0.kind == NEURON_SCALAR_IMMEDIATE;
    const uint32_t count = known ? std::min<uint32_t>(i.scalar0.value, kMostOfTrigger) : 1;
    auto& list = triggers_[stream.number];
    if (list.size() < Collectives::kMostRuns) {
      list.insert(list.end(), count, {e.engine, e.pc, e.begin});
    }
  }
}

void CollectivesVisitor::gap(uint32_t slot, uint64_t lost) {
  (void)slot;
  gaps_ = gaps_ || lost != 0;
}

void CollectivesVisitor::receive(const StreamEvent& e, CollectiveTotals& totals) {
  for (const ntff::StreamWait& wait : program_.stream(e.stream)->waits_of(e.pc)) {
    if (!is_arrival(wait)) continue;
    LinkTotals& link = result_.links[wait.peer];
    ++link.messages;
    link.received += wait.bytes;
    totals.received += wait.bytes;
  }
}

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
  const auto wait = program_.stream(e.stream)->wait_of(e.pc, e.wait_cell);
  if (e.wait != 0 && wait && is_for_rank(*wait)) {
    totals.waited += e.wait;
    totals.waited_by_rank[wait->peer] += e.wait;
    result_.links[wait->peer].waited += e.wait;
  }
  receive(e, totals);
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
  if (result_.runs.size() >= Collectives::kMostRuns) return;
  result_.runs_of_stream[open.run.stream].push_back(result_.runs.size());
  result_.runs.push_back(open.run);
}

// The n-th trigger of a stream begins its n-th run. With events missing, or a trigger whose address
// comes out of registers, nobody knows which is the n-th.
void CollectivesVisitor::pair_triggers() {
  if (gaps_) return;
  for (auto& [stream, triggers] : triggers_) {
    std::stable_sort(triggers.begin(), triggers.end(),
                     [](const Trigger& a, const Trigger& b) { return a.begin < b.begin; });
    const auto& runs = result_.runs_of_stream[stream];
    if (triggers.size() != runs.size()) continue;
    for (size_t n = 0; n < runs.size(); ++n) {
      CollectiveRun& run = result_.runs[runs[n]];
      if (triggers[n].begin <= run.begin) run.trigger = triggers[n];
    }
  }
}

const CollectiveRun* Collectives::run_of(const StreamEvent& e) const {
  const auto list = runs_of_stream.find(e.stream);
  if (list == runs_of_stream.end()) return nullptr;
  const auto after =
      std::upper_bound(list->second.begin(), list->second.end(), e.begin,
                       [&](uint64_t time, size_t run) { return time < runs[run].begin; });
  if (after == list->second.begin()) return nullptr;
  const CollectiveRun& run = runs[*std::prev(after)];
  return e.end <= run.end ? &run : nullptr;
}

void CollectivesVisitor::finish() {
  for (auto& [stream, open] : open_) close(open);
  for (auto& [rank, covered] : links_) result_.links[rank].active = covered.total();
  for (auto& [stream, covered] : streams_) result_.streams[stream].active = covered.total();
  result_.active = any_.total();
  pair_triggers();
}

}  // namespace neuron::profile
