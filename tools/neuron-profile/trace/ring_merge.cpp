// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/ring_merge.h"

namespace neuron::profile {
namespace {

// What a recording writes at once is a few thousand entries, and what one reading of a ring finds
// at most: 8 MiB.
constexpr size_t kMostBytes = 32u << 20;

}  // namespace

runtime::Result<bool> RingMerge::next_chunk(Ring& ring) {
  // bounded: each turn reads a chunk of the file.
  while (!ring.places.empty()) {
    const uint64_t place = ring.places.front();
    ring.places.pop_front();
    ++read_;
    chunk_is_new_ = true;
    NEURON_TRY(chunk, file_->chunk_at(place));
    if (!chunk) break;  // the file is shorter than it was
    if (chunk->bytes.size() > kMostBytes) {
      return runtime::fail(NRT_INVALID,
                           "the profile '{}' is damaged: its chunk at byte {} has {} bytes of "
                           "events, and a recording writes at most {} at once",
                           file_->path(), place, chunk->bytes.size(), kMostBytes);
    }
    ring.bytes = std::move(chunk->bytes);
    ring.at = 0;
    if (ring.bytes.size() >= sizeof(ring.head)) return fill(ring);
  }
  ring.bytes.clear();
  ring.at = 0;
  return false;
}

}  // namespace neuron::profile
