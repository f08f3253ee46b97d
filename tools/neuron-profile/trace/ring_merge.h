// SPDX-License-Identifier: Apache-2.0
//
// The entries of several rings in the order of their times.
//
// A file has a chunk of one ring and then one of another, so what happened at one time lies far
// apart: a ring with few entries is written when the execution has ended. The places of all chunks
// are known before the first is read, and one of each ring is held. Entries of one ring stay in
// their order, whatever their times are. Callers: Profile, one thread. Borrows the file. Fails as
// the file does, and for a chunk that is larger than any that a recording makes.
#ifndef TOOLS_NEURON_PROFILE_TRACE_RING_MERGE_H
#define TOOLS_NEURON_PROFILE_TRACE_RING_MERGE_H

#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "hw/notification.h"
#include "runtime/ntff/trace_file.h"

namespace neuron::profile {

class RingMerge {
 public:
  explicit RingMerge(ntff::TraceFileReader& file) : file_(&file) {}

  // A chunk of the ring, behind those that were added before.
  void add(uint32_t slot, uint64_t at) {
    rings_[slot].places.push_back(at);
    ++chunks_;
  }
  // Calls `take` with the ring and each entry.
  template <class Take>
  runtime::Result<void> run(Take&& take) {
    std::vector<std::pair<uint32_t, Ring*>> open;
    for (auto& [slot, ring] : rings_) {
      NEURON_TRY(more, fill(ring));
      if (more) open.emplace_back(slot, &ring);
    }
    // bounded: each turn takes an entry.
    while (!open.empty()) {
      size_t next = 0;
      for (size_t n = 1; n < open.size(); ++n) {
        if (open[n].second->head.time < open[next].second->head.time) next = n;
      }
      Ring& ring = *open[next].second;
      take(open[next].first, ring.head);
      NEURON_TRY(more, fill(ring));
      if (!more) open.erase(open.begin() + static_cast<ptrdiff_t>(next));
    }
    return {};
  }

  // Whether a chunk was read since this was asked last.
  bool is_at_chunk() { return std::exchange(chunk_is_new_, false); }
  // How much of `whole` the chunks are that were read.
  uint64_t share_of(uint64_t whole) const {
    return chunks_ == 0
               ? whole
               : static_cast<uint64_t>(static_cast<double>(whole) * static_cast<double>(read_) /
                                       static_cast<double>(chunks_));
  }

 private:
  struct Ring {
    std::deque<uint64_t> places;  // of chunks that were not read yet
    std::vector<uint8_t> bytes;
    size_t at = 0;  // behind `head`
    neuron_notification head{};
  };

  // Makes the next entry the head; false: there is none.
  runtime::Result<bool> fill(Ring& ring) {
    if (ring.at + sizeof(ring.head) > ring.bytes.size()) return next_chunk(ring);
    std::memcpy(&ring.head, ring.bytes.data() + ring.at, sizeof(ring.head));
    ring.at += sizeof(ring.head);
    return true;
  }
  runtime::Result<bool> next_chunk(Ring& ring);

  ntff::TraceFileReader* file_;
  std::map<uint32_t, Ring> rings_;
  uint64_t chunks_ = 0, read_ = 0;
  bool chunk_is_new_ = false;
};

}  // namespace neuron::profile

#endif
