// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/shared_connection.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>

#include "ccom/transport/arena_layout.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kDescriptors = 128;  // of a ring
constexpr uint64_t kAddress = uint64_t{1} << 63;

enum class DescriptorKind : uint32_t { kMessage = 1, kConsumed = 2 };

struct alignas(128) Descriptor {
  DescriptorKind kind;
  uint16_t channel;
  uint64_t operation;
  uint64_t number;
  uint64_t place;  // offset in the sender's arena, or address
  uint64_t bytes;
  uint64_t index;  // the message's number in the ring; kConsumed: that of the consumed one
  Signature signature;
};
static_assert(sizeof(Descriptor) == 128);

// A ring lies in the arena of the rank that writes its descriptors.
struct Ring {
  alignas(128) std::atomic<uint64_t> written;  // descriptors, by the owner
  std::atomic<uint32_t> withdrawn;             // 1: nothing that they name may be read
  alignas(128) std::atomic<uint64_t> read;     // by the owner, of the other rank's ring
  std::atomic<uint32_t> touching;              // 1: the owner is reading the other's data
  Descriptor descriptors[kDescriptors];
};
static_assert(sizeof(Ring) <= ArenaLayout::kConnectionBytes / CCOM_MAX_STREAMS);

struct Incoming {
  Descriptor descriptor;
  const std::byte* data = nullptr;
  bool consumed = false;
};

struct Outgoing {
  uint64_t index = 0;
  uint16_t channel = 0;
  uint64_t operation = 0;
  uint64_t number = 0;
  uint64_t staged_begin = 0;  // its copy in the staging space; empty: there is none
  uint64_t staged_end = 0;
  bool done = false;
};

struct Lane {
  Ring* own = nullptr;
  const Ring* other = nullptr;
  std::byte* staging = nullptr;
  uint64_t staging_bytes = 0;
  uint64_t written = 0;
  uint64_t read = 0;
  uint64_t messages = 0;  // sent
  std::map<uint16_t, std::deque<Incoming>> incoming;
  std::deque<Outgoing> outgoing;     // not known to be consumed, or behind such a message
  std::deque<uint64_t> unconfirmed;  // consumed, but not reported because the ring was full
};

class SharedConnection final : public Connection {
 public:
  explicit SharedConnection(const SharedEnd& end) : end_(end) {
    const ArenaLayout layout = ArenaLayout::of(end.size);
    const uint64_t share = ArenaLayout::kStagingBytes / end.size / 4096 * 4096;
    for (uint32_t stream = 0; stream < CCOM_MAX_STREAMS; ++stream) {
      const auto ring = [&](Arena* arena, Rank peer) {
        return reinterpret_cast<Ring*>(arena->data() + layout.connections +
                                       peer * ArenaLayout::kConnectionBytes +
                                       stream * (ArenaLayout::kConnectionBytes / CCOM_MAX_STREAMS));
      };
      Lane& lane = lanes_[stream];
      lane.own = ring(end.own, end.peer);
      lane.other = ring(end.other, end.rank);
      lane.staging =
          end.own->data() + layout.staging + stream * ArenaLayout::kStagingBytes + end.peer * share;
      lane.staging_bytes = share;
    }
  }

  Rank peer() const override { return end_.peer; }
  bool by_reference() const override { return true; }
  const Error& failure() const override { return failure_; }
  const char* description() const override { return "shared memory"; }

  Outcome grant(const MessageId&, std::byte*, uint64_t) override { return Outcome::kDone; }

  Outcome send(const MessageId& id, const std::byte* source, uint64_t bytes,
               const Signature& signature) override {
    if (failed()) return Outcome::kFailed;
    Lane& lane = lanes_[id.stream];
    if (!receive(lane)) return Outcome::kFailed;
    if (!room(lane)) return Outcome::kNotYet;
    Descriptor descriptor{};
    descriptor.kind = DescriptorKind::kMessage;
    descriptor.channel = id.channel;
    descriptor.operation = id.operation;
    descriptor.number = id.number;
    descriptor.bytes = bytes;
    descriptor.index = lane.messages;
    descriptor.signature = signature;
    Outgoing message{.index = lane.messages,
                     .channel = id.channel,
                     .operation = id.operation,
                     .number = id.number};
    if (bytes != 0) {
      if (end_.one_process) {
        descriptor.place = kAddress | reinterpret_cast<uintptr_t>(source);
      } else if (end_.own->contains(source, bytes)) {
        descriptor.place = static_cast<uint64_t>(source - end_.own->data());
      } else {
        const Outcome staged = stage(lane, source, bytes, message, descriptor.place);
        if (staged != Outcome::kDone) return staged;
      }
    }
    lane.outgoing.push_back(message);
    ++lane.messages;
    write(lane, descriptor);
    return Outcome::kDone;
  }

  Outcome sent(const MessageId& id) override {
    if (failed()) return Outcome::kFailed;
    Lane& lane = lanes_[id.stream];
    if (!receive(lane)) return Outcome::kFailed;
    for (const Outgoing& message : lane.outgoing) {
      if (message.channel == id.channel && message.operation == id.operation &&
          message.number == id.number) {
        return message.done ? Outcome::kDone : Outcome::kNotYet;
      }
    }
    return Outcome::kDone;
  }

  Outcome arrived(const MessageId& id, Arrival& arrival) override {
    if (failed()) return Outcome::kFailed;
    Lane& lane = lanes_[id.stream];
    if (!receive(lane)) return Outcome::kFailed;
    const Incoming* message = find(lane, id);
    if (message == nullptr) return Outcome::kNotYet;
    if (message->data != nullptr && !touch(lane)) return Outcome::kFailed;
    arrival = {message->data, message->descriptor.bytes, &message->descriptor.signature};
    return Outcome::kDone;
  }

  void consumed(const MessageId& id) override {
    Lane& lane = lanes_[id.stream];
    Incoming* message = find(lane, id);
    if (message == nullptr) return;
    // All reads come before this store. Pairs with the load in withdraw().
    lane.own->touching.store(0, std::memory_order_release);
    message->consumed = true;
    lane.unconfirmed.push_back(message->descriptor.index);
    auto& messages = lane.incoming[id.channel];
    while (!messages.empty() && messages.front().consumed) messages.pop_front();
    confirm(lane);
  }

  void declined(const MessageId& id) override {
    lanes_[id.stream].own->touching.store(0, std::memory_order_release);
  }

  Outcome progress() override {
    if (failed()) return Outcome::kFailed;
    for (Lane& lane : lanes_) {
      if (!receive(lane)) return Outcome::kFailed;
      confirm(lane);
    }
    return Outcome::kDone;
  }

  void withdraw(base::Deadline deadline) override {
    for (Lane& lane : lanes_) {
      // Ordered before the loads below. Pairs with touch(), which has the opposite order.
      lane.own->withdrawn.store(1, std::memory_order_seq_cst);
    }
    // Buffers in an arena stay mapped.
    if (!end_.one_process) return;
    for (Lane& lane : lanes_) {
      while (lane.other->touching.load(std::memory_order_seq_cst) != 0 && !deadline.expired()) {
        base::yield_processor();
      }
    }
  }

 private:
  // From arrived() to consumed() the peer's memory stays valid, unless the peer had withdrawn
  // before.
  bool touch(Lane& lane) {
    lane.own->touching.store(1, std::memory_order_seq_cst);
    if (lane.other->withdrawn.load(std::memory_order_seq_cst) == 0) return true;
    lane.own->touching.store(0, std::memory_order_release);
    failure_ = fail(CCOM_ABORTED, "rank {} failed before rank {} had read what it sent", end_.peer,
                    end_.rank);
    return false;
  }

  bool failed() const { return !failure_.sentence.empty(); }

  static bool room(const Lane& lane) {
    // Pairs with the release in receive() of the other rank: it has read the entry that this
    // overwrites.
    return lane.written - lane.other->read.load(std::memory_order_acquire) < kDescriptors;
  }

  static void write(Lane& lane, const Descriptor& descriptor) {
    lane.own->descriptors[lane.written % kDescriptors] = descriptor;
    // Publishes the descriptor and the message it names. Pairs with the acquire in receive().
    lane.own->written.store(++lane.written, std::memory_order_release);
  }

  static void confirm(Lane& lane) {
    while (!lane.unconfirmed.empty() && room(lane)) {
      Descriptor descriptor{};
      descriptor.kind = DescriptorKind::kConsumed;
      descriptor.index = lane.unconfirmed.front();
      lane.unconfirmed.pop_front();
      write(lane, descriptor);
    }
  }

  // Makes a contiguous copy that the peer can see, in the lowest place that is free: its pages are
  // there already and in the caches, while the space as a whole is much larger than any cache.
  Outcome stage(Lane& lane, const std::byte* source, uint64_t bytes, Outgoing& message,
                uint64_t& place) {
    if (bytes > lane.staging_bytes) {
      failure_ = fail(CCOM_RESOURCE,
                      "a message of {} bytes from rank {} to rank {} must be copied, and {} bytes "
                      "of staging are there: take its buffer from ccom_mem_alloc",
                      bytes, end_.rank, end_.peer, lane.staging_bytes);
      return Outcome::kFailed;
    }
    uint64_t begin = 0;
    for (bool moved = true; moved;) {  // bounded: goes on from one message in the way to the next
      moved = false;
      for (const Outgoing& other : lane.outgoing) {
        if (!other.done && other.staged_begin < begin + bytes && begin < other.staged_end) {
          begin = other.staged_end;
          moved = true;
        }
      }
    }
    if (begin + bytes > lane.staging_bytes) return Outcome::kNotYet;
    std::byte* copy = lane.staging + begin;
    std::memcpy(copy, source, bytes);
    message.staged_begin = begin;
    message.staged_end = begin + (bytes + 63) / 64 * 64;
    place = static_cast<uint64_t>(copy - end_.own->data());
    return Outcome::kDone;
  }

  // Takes the descriptors that the peer wrote.
  bool receive(Lane& lane) {
    // Pairs with the release in write() on the peer.
    const uint64_t written = lane.other->written.load(std::memory_order_acquire);
    if (written == lane.read) return true;
    for (; lane.read != written; ++lane.read) {
      const Descriptor descriptor = lane.other->descriptors[lane.read % kDescriptors];
      if (descriptor.kind == DescriptorKind::kConsumed) {
        for (Outgoing& message : lane.outgoing) {
          if (message.index == descriptor.index) message.done = true;
        }
        while (!lane.outgoing.empty() && lane.outgoing.front().done) lane.outgoing.pop_front();
        continue;
      }
      const std::byte* data = nullptr;
      if (!locate(descriptor, data)) return false;
      lane.incoming[descriptor.channel].push_back({descriptor, data, false});
    }
    lane.own->read.store(lane.read, std::memory_order_release);
    return true;
  }

  bool locate(const Descriptor& descriptor, const std::byte*& data) {
    if (descriptor.bytes == 0) return true;
    if ((descriptor.place & kAddress) != 0 && end_.one_process) {
      data = reinterpret_cast<const std::byte*>(descriptor.place & ~kAddress);
      return true;
    }
    if (descriptor.place <= end_.other->size() &&
        descriptor.bytes <= end_.other->size() - descriptor.place) {
      data = end_.other->data() + descriptor.place;
      return true;
    }
    failure_ = fail(CCOM_MISMATCH,
                    "rank {} sent a message of {} bytes at {:#x} of its shared memory to rank {}, "
                    "which has {:#x} bytes",
                    end_.peer, descriptor.bytes, descriptor.place, end_.rank, end_.other->size());
    return false;
  }

  static Incoming* find(Lane& lane, const MessageId& id) {
    const auto messages = lane.incoming.find(id.channel);
    if (messages == lane.incoming.end()) return nullptr;
    for (Incoming& message : messages->second) {
      if (!message.consumed && message.descriptor.operation == id.operation &&
          message.descriptor.number == id.number) {
        return &message;
      }
    }
    return nullptr;
  }

  const SharedEnd end_;
  Lane lanes_[CCOM_MAX_STREAMS];
  Error failure_{CCOM_SUCCESS, {}};
};

}  // namespace

Result<std::unique_ptr<Connection>> make_shared_connection(const SharedEnd& end) {
  const uint64_t needed = ArenaLayout::of(end.size).heap;
  for (const Arena* arena : {end.own, end.other}) {
    if (arena == nullptr || arena->size() < needed) {
      return fail(CCOM_INVALID,
                  "ranks {} and {} have {} bytes of shared memory, their group of {} needs {}",
                  end.rank, end.peer, arena == nullptr ? 0 : arena->size(), end.size, needed);
    }
  }
  return std::unique_ptr<Connection>(std::make_unique<SharedConnection>(end));
}

}  // namespace neuron::ccom
