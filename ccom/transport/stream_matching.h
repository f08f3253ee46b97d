// SPDX-License-Identifier: Apache-2.0
// Which receive a message of a StreamEndpoint is for.
//
// Concepts: receives are kept by the tag under their mask, of which there are few. A message that
// no receive waits for is *early*: it is kept until one comes. Callers: StreamEndpoint. Threads:
// one at a time. Cannot fail.
#ifndef CCOM_TRANSPORT_STREAM_MATCHING_H
#define CCOM_TRANSPORT_STREAM_MATCHING_H

#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccom/transport/stream_link.h"

namespace neuron::ccom {

// A posted receive.
struct StreamPlace {
  FabricOperation* operation = nullptr;
  std::span<std::byte> bytes;
};

struct StreamEarly {
  StreamLink* link = nullptr;
  StreamHeader header;
  std::vector<std::byte> bytes;      // of a whole message
  bool complete = false;             // nothing of it is on its way
  std::optional<StreamPlace> taker;  // came before it was complete
};

class StreamMatching {
 public:
  // Takes the receive, or returns the early message that it is for.
  StreamEarly* post(const StreamPlace& place, uint64_t tag, uint64_t ignore) {
    for (StreamEarly& early : early_) {
      if (!early.taker && ((early.header.tag ^ tag) & ~ignore) == 0) return &early;
    }
    auto kind = kinds_.begin();
    while (kind != kinds_.end() && kind->ignore != ignore) ++kind;
    if (kind == kinds_.end()) kind = kinds_.insert(kind, {ignore, {}});
    kind->posted.emplace(tag & ~ignore, place);
    return nullptr;
  }

  // The receive for a message with this tag, which is no longer posted then.
  std::optional<StreamPlace> take(uint64_t tag) {
    for (Kind& kind : kinds_) {
      const auto posted = kind.posted.find(tag & ~kind.ignore);
      if (posted == kind.posted.end()) continue;
      const StreamPlace place = posted->second;
      kind.posted.erase(posted);
      return place;
    }
    return std::nullopt;
  }

  StreamEarly& keep(StreamLink& link, const StreamHeader& header) {
    // Memory may end here, and must leave no message without its bytes.
    std::vector<std::byte> bytes(header.kind == StreamKind::kWhole ? header.bytes : 0);
    StreamEarly& early = early_.emplace_back();
    early.link = &link;
    early.header = header;
    early.bytes = std::move(bytes);
    return early;
  }
  void forget(const StreamEarly& early) {
    early_.remove_if([&](const StreamEarly& other) { return &other == &early; });
  }
  // The message of a connection that has begun and is not complete; null if there is none.
  StreamEarly* unfinished(const StreamLink& link) {
    for (StreamEarly& early : early_) {
      if (early.link == &link && !early.complete) return &early;
    }
    return nullptr;
  }

  // Whether the receive was posted, and is no longer.
  bool cancel(const FabricOperation& operation) {
    const auto is = [&](const StreamPlace& place) { return place.operation == &operation; };
    for (StreamEarly& early : early_) {
      if (early.taker && is(*early.taker)) {
        early.taker.reset();
        return true;
      }
    }
    for (Kind& kind : kinds_) {
      if (std::erase_if(kind.posted, [&](const auto& posted) { return is(posted.second); }) != 0) {
        return true;
      }
    }
    return false;
  }

  // A connection has ended: what was on its way will not come. Complete messages stay.
  void abandon(const StreamLink& link, const std::function<void(const StreamPlace&)>& failed) {
    for (auto early = early_.begin(); early != early_.end();) {
      const bool lost =
          early->link == &link && (!early->complete || early->header.kind == StreamKind::kOffer);
      if (lost && early->taker) failed(*early->taker);
      early = lost ? early_.erase(early) : std::next(early);
    }
  }

 private:
  struct Kind {
    uint64_t ignore = 0;
    std::unordered_multimap<uint64_t, StreamPlace> posted;
  };
  std::vector<Kind> kinds_;
  std::list<StreamEarly> early_;
};

}  // namespace neuron::ccom

#endif
