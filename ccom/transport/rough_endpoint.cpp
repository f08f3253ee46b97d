// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/rough_endpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <utility>

namespace neuron::ccom {
namespace {

enum class PacketKind : uint32_t {
  kData = 0x52474831,
  kTaken = 0x52474832,
  kNotReady = 0x52474833
};

// Precedes every packet, in the byte order of the host.
struct PacketHead {
  PacketKind kind = PacketKind::kData;
  uint32_t source = 0;
  uint64_t message = 0;
  uint64_t total = 0;
  uint64_t tag = 0;
  uint32_t piece = 0;
  uint32_t word = 0;
};
static_assert(sizeof(PacketHead) == 40);
static_assert(sizeof(PacketHead) + 8192 <= kLinkPacketBytes);

struct RoughDeparture {
  Rank peer = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  uint32_t word = 0;
  FabricOperation* operation = nullptr;
  uint64_t missing = 0;  // pieces that the receiver has not taken
};

struct Piece {
  uint64_t message = 0;
  uint32_t index = 0;
  uint64_t not_before = 0;  // poll
};

struct Posted {
  Rank peer = 0;
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  uint64_t ignore = 0;
  FabricOperation* operation = nullptr;
};

struct RoughArrival {
  Rank source = 0;
  uint64_t message = 0;
  uint64_t total = 0;
  uint64_t tag = 0;
  uint32_t word = 0;
  uint64_t missing = 0;
  std::vector<bool> here;       // pieces
  std::vector<std::byte> kept;  // while unexpected
  FabricOperation* operation = nullptr;
  std::byte* place = nullptr;
  uint64_t room = 0;
};

struct Late {
  FabricCompletion completion;
  uint64_t not_before = 0;
};

class RoughEndpoint final : public FabricEndpoint {
 public:
  RoughEndpoint(std::unique_ptr<PacketLink> link, const RoughManners& manners)
      : link_(std::move(link)),
        manners_(manners),
        random_(manners.seed),
        name_("rough+" + link_->provider()) {}

  std::vector<std::byte> address() const override { return link_->address(); }
  Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) override {
    const auto own = link_->address();
    ranks_ = static_cast<uint32_t>(addresses.size());
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (addresses[rank] == own) {
        rank_ = rank;
      }
    }
    return link_->introduce(addresses);
  }
  // Like EFA: memory must be registered before use, which exposes a caller that forgets it.
  bool registers_memory() const override { return true; }
  Result<FabricMemory> register_memory(const void* data, uint64_t bytes) override {
    if (bytes == 0) {
      return FabricMemory{nullptr};
    }
    auto region = std::make_unique<Region>(static_cast<const std::byte*>(data), bytes);
    FabricMemory memory = region.get();
    regions_.push_back(std::move(region));
    return memory;
  }
  void unregister_memory(FabricMemory memory) override {
    std::erase_if(regions_, [&](const auto& region) { return region.get() == memory; });
  }

  int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
           uint32_t word, FabricOperation& operation) override {
    if (closed_) {
      return -ENOTCONN;
    }
    if (peer >= ranks_ || !registered(memory, data, bytes)) {
      return -EFAULT;
    }
    if (outgoing_.size() >= manners_.depth || refuse()) {
      return -EAGAIN;
    }
    const uint64_t pieces = count(bytes);
    const uint64_t message = next_message_++;
    outgoing_[message] = {peer, data, bytes, tag, word, &operation, pieces};
    for (uint64_t i = 0; i < pieces; ++i) {
      pieces_.push_back({message, static_cast<uint32_t>(i), 0});
    }
    return 0;
  }
  int send_small(Rank, const std::byte*, uint64_t, uint64_t, uint32_t) override { return -ENOSYS; }
  uint64_t small_bytes() const override { return 0; }

  int receive(Rank peer, std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
              uint64_t ignore, FabricOperation& operation) override {
    if (closed_) {
      return -ENOTCONN;
    }
    if ((peer >= ranks_ && peer != kAnyPeer) || !registered(memory, data, bytes)) {
      return -EFAULT;
    }
    if (posted_.size() >= manners_.depth || refuse()) {
      return -EAGAIN;
    }
    const Posted posted{peer, data, bytes, tag, ignore, &operation};
    // Takes any of the unexpected messages that match, not the first.
    std::vector<std::list<RoughArrival>::iterator> matching;
    for (auto incoming = incoming_.begin(); incoming != incoming_.end(); ++incoming) {
      if (incoming->operation == nullptr && matches(posted, *incoming)) {
        matching.push_back(incoming);
      }
    }
    if (matching.empty()) {
      posted_.push_back(posted);
    } else {
      auto chosen = matching[random_() % matching.size()];
      --unexpected_;
      attach(*chosen, posted);
      if (chosen->missing == 0) {
        complete(chosen);
      }
    }
    return 0;
  }

  void cancel(FabricOperation&) override {}
  uint32_t depth() const override { return manners_.depth; }

  int poll(std::span<FabricCompletion> completions) override {
    if (closed_) {
      return -ENOTCONN;
    }
    ++polls_;
    if (int error = take_packets(); error != 0) {
      failure_ = fail(CCOM_SYSTEM, "{} lost its link: {}", name_, std::strerror(-error));
      return error;
    }
    if (int error = give_packets(); error != 0) {
      failure_ = fail(CCOM_SYSTEM, "{} lost its link: {}", name_, std::strerror(-error));
      return error;
    }
    if (late_.size() > manners_.completion_queue) {
      failure_ = fail(CCOM_RESOURCE, "{}: the completion queue overran with {} entries of {}",
                      name_, late_.size(), manners_.completion_queue);
      return -EOVERFLOW;
    }
    size_t given = 0;
    for (size_t i = 0; i < late_.size() && given < completions.size();) {
      if (late_[i].not_before > polls_) {
        ++i;
        continue;
      }
      completions[given++] = late_[i].completion;
      late_[i] = late_.back();
      late_.pop_back();
    }
    return static_cast<int>(given);
  }

  void close() override {
    closed_ = true;
    link_->close();
    outgoing_.clear();
    pieces_.clear();
    posted_.clear();
    incoming_.clear();
    late_.clear();
  }
  const Error& failure() const override { return failure_; }
  const std::string& provider() const override { return name_; }
  std::string route(Rank peer) const override { return link_->route(peer); }

 private:
  struct Region {
    Region(const std::byte* data, uint64_t bytes) : data(data), bytes(bytes) {}
    const std::byte* data;
    uint64_t bytes;
  };

  bool refuse() { return manners_.refuse_one_in != 0 && random_() % manners_.refuse_one_in == 0; }
  uint64_t count(uint64_t bytes) const {
    return bytes == 0 ? 1 : (bytes - 1) / manners_.packet_bytes + 1;
  }
  bool registered(FabricMemory memory, const std::byte* data, uint64_t bytes) const {
    if (bytes == 0) {
      return true;
    }
    for (const auto& region : regions_) {
      if (region.get() == memory) {
        return data >= region->data && bytes <= region->bytes &&
               static_cast<uint64_t>(data - region->data) <= region->bytes - bytes;
      }
    }
    return false;
  }
  static bool matches(const Posted& posted, const RoughArrival& incoming) {
    return (posted.peer == kAnyPeer || posted.peer == incoming.source) &&
           ((posted.tag ^ incoming.tag) & ~posted.ignore) == 0;
  }

  void finish(const FabricCompletion& completion) {
    const uint64_t delay =
        manners_.completion_delay == 0 ? 0 : random_() % manners_.completion_delay;
    late_.push_back({completion, polls_ + delay});
    if (late_.size() > 1) {
      std::swap(late_.back(), late_[random_() % late_.size()]);
    }
  }

  void attach(RoughArrival& incoming, const Posted& posted) {
    incoming.operation = posted.operation;
    incoming.place = posted.data;
    incoming.room = posted.bytes;
    for (size_t i = 0; i < incoming.here.size(); ++i) {
      if (incoming.here[i] && !incoming.kept.empty()) {
        const uint64_t at = i * manners_.packet_bytes;
        store(incoming, at, incoming.kept.data() + at,
              std::min<uint64_t>(manners_.packet_bytes, incoming.total - at));
      }
    }
    incoming.kept = {};
  }

  void store(RoughArrival& incoming, uint64_t at, const std::byte* data, uint64_t bytes) {
    std::byte* to = incoming.operation != nullptr ? incoming.place : incoming.kept.data();
    const uint64_t room = incoming.operation != nullptr ? incoming.room : incoming.kept.size();
    if (at < room) {
      std::memcpy(to + at, data, std::min(bytes, room - at));
    }
  }

  void complete(std::list<RoughArrival>::iterator incoming) {
    finish({incoming->operation, true, incoming->total > incoming->room ? EMSGSIZE : 0,
            incoming->tag, incoming->word, incoming->total});
    incoming_.erase(incoming);
  }

  // Sends a few of the waiting pieces, in any order.
  int give_packets() {
    for (uint32_t i = 0; i < 16 && !pieces_.empty(); ++i) {
      const size_t chosen = random_() % pieces_.size();
      const Piece piece = pieces_[chosen];
      if (piece.not_before > polls_) {
        continue;
      }
      const RoughDeparture& message = outgoing_.at(piece.message);
      const PacketHead head{PacketKind::kData, rank_,       piece.message, message.bytes,
                            message.tag,       piece.index, message.word};
      const uint64_t at = uint64_t{piece.index} * manners_.packet_bytes;
      const uint64_t bytes =
          message.bytes == 0 ? 0 : std::min<uint64_t>(manners_.packet_bytes, message.bytes - at);
      const int error = put(message.peer, head, bytes == 0 ? nullptr : message.data + at, bytes);
      if (error == -EAGAIN) {
        break;
      }
      if (error != 0) {
        return error;
      }
      pieces_[chosen] = pieces_.back();
      pieces_.pop_back();
    }
    while (!replies_.empty()) {
      const int error = put(replies_.front().first, replies_.front().second, nullptr, 0);
      if (error != 0) {
        return error == -EAGAIN ? 0 : error;
      }
      replies_.pop_front();
    }
    return 0;
  }

  int put(Rank peer, const PacketHead& head, const std::byte* data, uint64_t bytes) {
    packet_.resize(sizeof head + bytes);
    std::memcpy(packet_.data(), &head, sizeof head);
    if (bytes != 0) {
      std::memcpy(packet_.data() + sizeof head, data, bytes);
    }
    return link_->send(peer, packet_);
  }

  int take_packets() {
    for (uint32_t i = 0; i < 32; ++i) {
      const int got = link_->poll(arrived_);
      if (got <= 0) {
        return got;
      }
      accept();
    }
    return 0;
  }

  void accept() {
    PacketHead head;
    if (arrived_.size() < sizeof head) {
      return;
    }
    std::memcpy(&head, arrived_.data(), sizeof head);
    if (head.source >= ranks_) {
      return;
    }
    const std::byte* data = arrived_.data() + sizeof head;
    const uint64_t bytes = arrived_.size() - sizeof head;
    switch (head.kind) {
      case PacketKind::kData:
        accept_data(head, data, bytes);
        break;
      case PacketKind::kTaken:
        accept_taken(head);
        break;
      case PacketKind::kNotReady:
        if (auto at = outgoing_.find(head.message); at != outgoing_.end() &&
                                                    at->second.peer == head.source &&
                                                    head.piece < count(at->second.bytes)) {
          pieces_.push_back({head.message, head.piece, polls_ + 16 + random_() % 16});
        }
        break;
    }
  }

  void accept_taken(const PacketHead& head) {
    auto at = outgoing_.find(head.message);
    if (at == outgoing_.end() || at->second.peer != head.source || --at->second.missing != 0) {
      return;
    }
    FabricCompletion completion;
    completion.operation = at->second.operation;
    finish(completion);
    std::erase_if(pieces_, [&](const Piece& piece) { return piece.message == head.message; });
    outgoing_.erase(at);
  }

  void accept_data(const PacketHead& head, const std::byte* data, uint64_t bytes) {
    const uint64_t at = uint64_t{head.piece} * manners_.packet_bytes;
    if ((head.total == 0 ? head.piece != 0 : at >= head.total) ||
        bytes !=
            (head.total == 0 ? 0 : std::min<uint64_t>(manners_.packet_bytes, head.total - at))) {
      return;
    }
    auto incoming = std::find_if(incoming_.begin(), incoming_.end(), [&](const RoughArrival& one) {
      return one.source == head.source && one.message == head.message;
    });
    if (incoming == incoming_.end()) {
      incoming = begin(head);
      if (incoming == incoming_.end()) {
        PacketHead reply = head;
        reply.kind = PacketKind::kNotReady;
        reply.source = rank_;
        replies_.push_back({head.source, reply});
        return;
      }
    }
    if (incoming->total != head.total || incoming->here[head.piece]) {
      return;
    }
    incoming->here[head.piece] = true;
    --incoming->missing;
    store(*incoming, at, data, bytes);
    PacketHead reply = head;
    reply.kind = PacketKind::kTaken;
    reply.source = rank_;
    replies_.push_back({head.source, reply});
    if (incoming->missing == 0 && incoming->operation != nullptr) {
      complete(incoming);
    }
  }

  // Called at the first packet of a message, whichever it is: finds its receive, or keeps it.
  std::list<RoughArrival>::iterator begin(const PacketHead& head) {
    RoughArrival incoming;
    incoming.source = head.source;
    incoming.message = head.message;
    incoming.total = head.total;
    incoming.tag = head.tag;
    incoming.word = head.word;
    auto posted = std::find_if(posted_.begin(), posted_.end(),
                               [&](const Posted& one) { return matches(one, incoming); });
    const bool expected = posted != posted_.end();
    if (!expected &&
        (unexpected_ >= manners_.unexpected_messages || head.total > manners_.unexpected_bytes)) {
      return incoming_.end();
    }
    // A message too long for its receive still completes it, with an error; its size is bounded by
    // the sender's memory, not by ours.
    if (expected && head.total > posted->bytes) {
      finish({posted->operation, true, EMSGSIZE, head.tag, head.word, head.total});
      posted_.erase(posted);
      return incoming_.end();
    }
    incoming.missing = count(head.total);
    incoming.here.resize(incoming.missing);
    if (expected) {
      attach(incoming, *posted);
      posted_.erase(posted);
    } else {
      ++unexpected_;
      incoming.kept.resize(head.total);
    }
    incoming_.push_back(std::move(incoming));
    return std::prev(incoming_.end());
  }

  std::unique_ptr<PacketLink> link_;
  RoughManners manners_;
  std::mt19937_64 random_;
  std::string name_;
  Rank rank_ = 0;
  uint32_t ranks_ = 0;
  bool closed_ = false;
  uint64_t polls_ = 0;
  uint64_t next_message_ = 0;
  uint32_t unexpected_ = 0;
  std::map<uint64_t, RoughDeparture> outgoing_;
  std::vector<Piece> pieces_;
  std::deque<std::pair<Rank, PacketHead>> replies_;
  std::list<Posted> posted_;
  std::list<RoughArrival> incoming_;
  std::vector<Late> late_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::byte> packet_;
  std::vector<std::byte> arrived_;
  Error failure_;
};

}  // namespace

RoughManners RoughManners::from_environment() {
  RoughManners manners;
  if (const char* seed = std::getenv("CCOM_ROUGH_SEED"); seed != nullptr) {
    manners.seed = std::strtoull(seed, nullptr, 0);
  }
  return manners;
}

Result<std::unique_ptr<FabricEndpoint>> make_rough_endpoint(std::unique_ptr<PacketLink> link,
                                                            const RoughManners& manners) {
  if (manners.packet_bytes == 0 || manners.packet_bytes > 8192) {
    return fail(CCOM_INVALID, "packets of {} bytes; rough packets have 1 to 8192",
                manners.packet_bytes);
  }
  return std::unique_ptr<FabricEndpoint>(std::make_unique<RoughEndpoint>(std::move(link), manners));
}

}  // namespace neuron::ccom
