// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/stream_chunks.h"

#include "driver/base/json_text.h"
#include "runtime/device/core_trace.h"

namespace neuron::runtime {
namespace {

using base::json_string;
using ntff::ChunkKind;

static_assert(ntff::kCollectiveRing == kCollectiveRing);
static_assert(ntff::kMostStreams == kMostCollectiveCores);
static_assert(sizeof(ntff::StreamNote) == sizeof(ccom_device_note_t));
static_assert(sizeof(ntff::StreamWait) == sizeof(ccom_device_waiting_t));

std::string describe(const StreamFacts& facts) {
  std::string collectives;
  for (const CollectiveFacts& one : facts.collectives) {
    std::string ranks;
    for (const uint32_t rank : one.ranks) {
      ranks += (ranks.empty() ? "" : ",") + std::to_string(rank);
    }
    collectives +=
        format(R"({}{{"name":{},"algorithm":{},"operation":{},"type":{},"count":{},"ranks":[{}],)"
               R"("group":{},"input_bytes":{},"output_bytes":{},"bytes":{}}})",
               collectives.empty() ? "" : ",", json_string(one.name), json_string(one.algorithm),
               json_string(one.operation), json_string(one.type), one.count, ranks, one.group,
               one.size.input, one.size.output, one.size.whole);
  }
  return format(R"({{"stream":{},"rank":{},"prologue":{},"go":{},"collectives":[{}]}})",
                facts.stream, facts.rank, facts.prologue, facts.go, collectives);
}

template <class Item>
std::span<const uint8_t> bytes_of(const std::vector<Item>& items) {
  return {reinterpret_cast<const uint8_t*>(items.data()), items.size() * sizeof(Item)};
}

}  // namespace

Result<bool> write_streams(ntff::TraceFileWriter& file, uint32_t part, const LoadedModel& model) {
  const ModelCollectives* collectives = model.collectives();
  if (collectives == nullptr) return false;
  for (const StreamFacts& facts : collectives->facts()) {
    const ntff::ChunkPlace place{.part = part, .index = facts.stream};
    NEURON_CHECK(file.write(ChunkKind::kStream, place, describe(facts)));
    NEURON_CHECK(file.write(ChunkKind::kNotes, place, bytes_of(facts.notes)));
    NEURON_CHECK(file.write(ChunkKind::kWaits, place, bytes_of(facts.waits)));
  }
  return true;
}

}  // namespace neuron::runtime
