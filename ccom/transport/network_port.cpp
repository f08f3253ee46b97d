// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/network_port.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ccom/transport/fabric_connection.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

constexpr size_t kBatch = 32;  // completions read at once

// Buffers of the pool in each direction: grows with the number of peers.
uint32_t pool_depth(uint32_t ranks, uint32_t depth) {
  return std::max(1u, std::min(depth / 2, std::clamp(8 * ranks, 32u, 256u)));
}

}  // namespace

uint32_t signature_hash(const Signature& signature) {
  uint64_t words[sizeof(Signature) / sizeof(uint64_t)];
  static_assert(sizeof words == sizeof signature);
  std::memcpy(words, &signature, sizeof words);
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>(hash);
}

Result<std::unique_ptr<NetworkPort>> NetworkPort::open(
    Rank rank, std::unique_ptr<FabricEndpoint> endpoint,
    const std::vector<std::vector<std::byte>>& addresses, const std::vector<PortKey>& keys) {
  if (keys.size() != addresses.size()) {
    return fail(CCOM_INVALID, "{} addresses and {} keys, expected one of each for each rank",
                addresses.size(), keys.size());
  }
  NEURON_CHECK(endpoint->introduce(addresses));
  std::unique_ptr<NetworkPort> port(new NetworkPort(rank, std::move(endpoint), keys));
  NEURON_CHECK(port->prepare());
  return port;
}

NetworkPort::NetworkPort(Rank rank, std::unique_ptr<FabricEndpoint> endpoint,
                         const std::vector<PortKey>& keys)
    : rank_(rank), endpoint_(std::move(endpoint)) {
  for (Rank peer = 0; peer < keys.size(); ++peer) {
    connections_.push_back(std::make_unique<FabricConnection>(
        *this, peer, pass_of(keys[rank], peer), pass_of(keys[peer], rank)));
  }
}

NetworkPort::~NetworkPort() {
  // A peer may still need the last messages: once they have left this rank's queue, they arrive
  // even if the rank is gone.
  const base::Deadline end = base::Deadline::after(std::chrono::milliseconds(200));
  try {
    while (!closed_ && busy() && !end.expired() && progress() != Outcome::kFailed) {
      base::yield_processor();
    }
  } catch (const std::bad_alloc&) {
    // Messages that have not left by now are lost.
  }
  endpoint_->close();
  endpoint_->unregister_memory(pool_memory_);
  for (const Memory& memory : memories_) {
    endpoint_->unregister_memory(memory.memory);
  }
}

Result<void> NetworkPort::prepare() {
  const uint32_t depth = pool_depth(ranks(), endpoint_->depth());
  pool_.resize(2 * depth * kPoolBytes);
  NEURON_TRY(memory, endpoint_->register_memory(pool_.data(), pool_.size()));
  pool_memory_ = memory;
  pool_operations_.resize(2 * depth);
  for (uint32_t i = 0; i < 2 * depth; ++i) {
    FabricOperation& operation = pool_operations_[i];
    operation.buffer = pool_.data() + i * kPoolBytes;
    operation.purpose = i < depth ? kPoolReceive : kPoolSend;
    (i < depth ? unposted_ : senders_).push_back(&operation);
  }
  post_pool();
  return {};
}

void NetworkPort::expect(const Signature& signature) {
  expected_[signature.stream] = signature;
  expected_hash_[signature.stream] = signature_hash(signature);
}

Result<void> NetworkPort::add_memory(const void* data, uint64_t bytes) {
  if (!endpoint_->registers_memory() || bytes == 0 || data == nullptr) {
    return {};
  }
  const auto* begin = static_cast<const std::byte*>(data);
  for (Memory& memory : memories_) {
    if (memory.data == begin && memory.bytes >= bytes) {
      ++memory.users;
      return {};
    }
  }
  NEURON_TRY(registered, endpoint_->register_memory(data, bytes));
  memories_.push_back({begin, bytes, 1, registered});
  return {};
}

void NetworkPort::remove_memory(const void* data) {
  for (size_t i = memories_.size(); i-- > 0;) {
    if (memories_[i].data == data) {
      if (--memories_[i].users == 0) {
        endpoint_->unregister_memory(memories_[i].memory);
        memories_.erase(memories_.begin() + static_cast<ptrdiff_t>(i));
      }
      return;
    }
  }
}

FabricMemory NetworkPort::memory_of(const std::byte* data, uint64_t bytes) const {
  for (const Memory& memory : memories_) {
    const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(memory.data);
    if (at <= memory.bytes && bytes <= memory.bytes - at) {
      return memory.memory;
    }
  }
  return nullptr;
}

FabricOperation* NetworkPort::take_operation() {
  if (operations_.empty()) {
    return &operation_store_.emplace_back();
  }
  FabricOperation* operation = operations_.back();
  operations_.pop_back();
  return operation;
}

void NetworkPort::post_pool() {
  // The lower bits of a pool message's tag may have any value; its highest bit distinguishes it
  // from long messages.
  while (!unposted_.empty() &&
         endpoint_->receive(kAnyPeer, unposted_.back()->buffer, kPoolBytes, pool_memory_,
                            FabricTag::kPool, FabricTag::kPool - 1, *unposted_.back()) == 0) {
    unposted_.pop_back();
  }
}

int NetworkPort::send_pool(Rank peer, uint64_t tag, uint32_t word, const std::byte* data,
                           uint64_t bytes, FabricConnection* owner) {
  const uint64_t all = PortPass::kBytes + bytes;
  const auto fill = [&](std::byte* to) {
    const auto& pass = connections_[peer]->shown().pass;
    std::memcpy(to, pass.data(), pass.size());
    if (bytes != 0) {
      std::memcpy(to + pass.size(), data, bytes);
    }
  };
  if (const uint64_t small = endpoint_->small_bytes(); all <= small) {
    fill(small_message_.data());
    return endpoint_->send_small(peer, small_message_.data(), all, tag, word);
  }
  if (senders_.empty()) {
    return -EAGAIN;
  }
  FabricOperation& operation = *senders_.back();
  fill(operation.buffer);
  operation.owner = owner;
  const int error =
      endpoint_->send(peer, operation.buffer, all, pool_memory_, tag, word, operation);
  if (error == 0) {
    senders_.pop_back();
    ++sending_;
  }
  return error;
}

void NetworkPort::send_control(Rank peer, const ControlMessage& message) {
  // One message of each kind to a peer is enough; a peer that takes none must not use up the room
  // of others.
  const auto waiting = std::count_if(controls_.begin(), controls_.end(),
                                     [peer](const auto& control) { return control.first == peer; });
  if (peer != rank_ && peer < connections_.size() && waiting < 4) {
    controls_.emplace_back(peer, message.encode());
  }
}

void NetworkPort::say_farewell(const ControlMessage& message) {
  const std::vector<std::byte> bytes = message.encode();
  const uint64_t tag = FabricTag{FabricKind::kControl, rank_, 0, 0, 0, 0}.encode();
  for (const auto& connection : connections_) {
    // A peer that has gone itself does no harm.
    if (!closed_ && connection->used() && connection->failure().sentence.empty()) {
      send_pool(connection->peer(), tag, 0, bytes.data(), bytes.size(), connection.get());
    }
  }
}

// A peer may take nothing now, because it is stopped or does not answer. It must not hold up the
// others, which need to learn which rank it is.
void NetworkPort::flush() {
  size_t kept = 0;
  for (size_t i = 0; i < untold_.size(); ++i) {
    FabricLane& lane = *untold_[i];
    if (lane.in_granted - lane.in_told >= kInitialWindow / 2) {
      const uint64_t tag =
          FabricTag{FabricKind::kGrant, rank_, lane.stream, lane.channel, 0, lane.in_granted}
              .encode();
      const int error = send_pool(lane.connection->peer(), tag, 0, nullptr, 0, lane.connection);
      if (error == -EAGAIN) {
        untold_[kept++] = &lane;
        continue;
      }
      // A peer that has left after its part needs no grants, and what it has sent arrives.
      if (error != 0 && error != -ESHUTDOWN) {
        lane.connection->broken("sending grants", -error);
      }
      lane.in_told = lane.in_granted;
    }
    lane.untold = false;
  }
  untold_.resize(kept);
  std::vector<Rank> held_up;  // messages to one peer stay in order
  kept = 0;
  for (auto& control : controls_) {
    const auto& [peer, bytes] = control;
    int error = -EAGAIN;
    if (std::find(held_up.begin(), held_up.end(), peer) == held_up.end()) {
      error = send_pool(peer, FabricTag{FabricKind::kControl, rank_, 0, 0, 0, 0}.encode(), 0,
                        bytes.data(), bytes.size(), connections_[peer].get());
    }
    if (error == -EAGAIN) {
      held_up.push_back(peer);
      std::swap(controls_[kept++], control);
    }
  }
  controls_.resize(kept);
}

Outcome NetworkPort::progress() {
  if (closed_) {
    return Outcome::kFailed;
  }
  std::array<FabricCompletion, kBatch> completions;
  const int count = endpoint_->poll(completions);
  if (count < 0) {
    failure_ = endpoint_->failure();
    closed_ = true;
    return Outcome::kFailed;
  }
  for (int i = 0; i < count; ++i) {
    complete(completions[static_cast<size_t>(i)]);
  }
  if (!unposted_.empty()) {
    post_pool();
  }
  if (!untold_.empty() || !controls_.empty()) {
    flush();
  }
  return count > 0 ? Outcome::kDone : Outcome::kNotYet;
}

void NetworkPort::complete(const FabricCompletion& completion) {
  FabricOperation* operation = completion.operation;
  switch (operation->purpose) {
    case kPoolReceive:
      if (completion.error == 0) {
        accept(completion);
      }
      if (completion.error != ECANCELED) {
        unposted_.push_back(operation);
      }
      return;
    case kPoolSend:
      --sending_;
      senders_.push_back(operation);
      if (completion.error != 0) {
        static_cast<FabricConnection*>(operation->owner)->broken("sending", completion.error);
      }
      return;
    case kBulkSend: {
      --bulk_sending_;
      auto& lane = *static_cast<FabricLane*>(operation->owner);
      if (completion.error != 0) {
        lane.connection->broken("sending", completion.error);
      } else {
        lane.connection->send_done(lane, operation->number);
      }
      break;
    }
    default: {
      --receiving_;
      auto& lane = *static_cast<FabricLane*>(operation->owner);
      lane.connection->received(lane, operation->number, completion);
      break;
    }
  }
  give_operation(operation);
}

// Handles a peer's message to the pool, and checks everything before it uses it.
void NetworkPort::accept(const FabricCompletion& completion) {
  const FabricTag tag = FabricTag::decode(completion.tag);
  if (completion.bytes > kPoolBytes || completion.bytes < PortPass::kBytes ||
      tag.sender >= connections_.size() || tag.sender == rank_) {
    return;
  }
  FabricConnection& from = *connections_[tag.sender];
  const std::byte* buffer = completion.operation->buffer;
  if (std::memcmp(buffer, from.expected().pass.data(), PortPass::kBytes) != 0) {
    return;  // of a stranger
  }
  const std::span<const std::byte> data(buffer + PortPass::kBytes,
                                        completion.bytes - PortPass::kBytes);
  switch (tag.kind) {
    case FabricKind::kEager:
      if (!quiet_) {
        from.accept_grants(tag);
        from.accept_eager(tag, completion.word, data);
      }
      break;
    case FabricKind::kGrant:
      from.accept_grants(tag);
      break;
    case FabricKind::kControl:
      if (auto message = ControlMessage::decode(data, ranks()); message && on_control) {
        on_control(tag.sender, *message);
      }
      break;
    default:
      break;
  }
}

void NetworkPort::quiesce(base::Deadline deadline) {
  quiet_ = true;
  try {
    take_back(deadline);
  } catch (const std::bad_alloc&) {
    closed_ = true;
    endpoint_->close();
  }
}

void NetworkPort::take_back(base::Deadline deadline) {
  for (auto& connection : connections_) {
    connection->cancel_receives();
  }
  while (!closed_ && receiving_ + bulk_sending_ != 0) {
    if (deadline.expired()) {
      closed_ = true;
      failure_ = fail(CCOM_ABORTED, "{} was closed after a failure", endpoint_->provider());
      endpoint_->close();
      return;
    }
    if (progress() == Outcome::kNotYet) {
      base::yield_processor();
    }
  }
}

}  // namespace neuron::ccom
