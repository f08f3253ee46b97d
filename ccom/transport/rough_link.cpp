// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/rough_link.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace neuron::ccom {
namespace {

constexpr uint64_t kPacketTag = uint64_t{7} << 60;
constexpr uint32_t kBuffers = 128;

class QueueLink final : public PacketLink {
 public:
  QueueLink(std::shared_ptr<PacketHub> hub, Rank rank) : hub_(std::move(hub)), rank_(rank) {}

  std::vector<std::byte> address() const override {
    std::vector<std::byte> address(sizeof rank_);
    std::memcpy(address.data(), &rank_, sizeof rank_);
    return address;
  }
  Result<void> introduce(const std::vector<std::vector<std::byte>>&) override { return {}; }
  int send(Rank peer, std::span<const std::byte> packet) override {
    if (!hub_) {
      return -ENOTCONN;
    }
    hub_->put(peer, packet);
    return 0;
  }
  int poll(std::vector<std::byte>& packet) override {
    return hub_ && hub_->take(rank_, packet) ? 1 : 0;
  }
  void close() override { hub_.reset(); }
  const std::string& provider() const override { return name_; }
  std::string route(Rank peer) const override {
    return format("queue of thread {} -> {}", rank_, peer);
  }

 private:
  std::shared_ptr<PacketHub> hub_;
  Rank rank_;
  std::string name_ = "queues of one process";
};

class FabricLink final : public PacketLink {
 public:
  explicit FabricLink(std::unique_ptr<FabricEndpoint> endpoint)
      : endpoint_(std::move(endpoint)), memory_(2 * kBuffers * kLinkPacketBytes) {
    for (uint32_t i = 0; i < 2 * kBuffers; ++i) {
      operations_[i].buffer = memory_.data() + i * kLinkPacketBytes;
      operations_[i].purpose = i < kBuffers;
      (i < kBuffers ? unposted_ : free_).push_back(&operations_[i]);
    }
  }
  ~FabricLink() override {
    endpoint_->close();
    endpoint_->unregister_memory(registration_);
  }

  std::vector<std::byte> address() const override { return endpoint_->address(); }

  Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) override {
    NEURON_CHECK(endpoint_->introduce(addresses));
    NEURON_TRY(registration, endpoint_->register_memory(memory_.data(), memory_.size()));
    registration_ = registration;
    return {};
  }

  int send(Rank peer, std::span<const std::byte> packet) override {
    if (free_.empty() || packet.size() > kLinkPacketBytes) {
      return free_.empty() ? -EAGAIN : -EMSGSIZE;
    }
    FabricOperation& operation = *free_.back();
    std::memcpy(operation.buffer, packet.data(), packet.size());
    const int error = endpoint_->send(peer, operation.buffer, packet.size(), registration_,
                                      kPacketTag, 0, operation);
    if (error == 0) {
      free_.pop_back();
    }
    return error;
  }

  int poll(std::vector<std::byte>& packet) override {
    while (!unposted_.empty() &&
           endpoint_->receive(kAnyPeer, unposted_.back()->buffer, kLinkPacketBytes, registration_,
                              kPacketTag, 0, *unposted_.back()) == 0) {
      unposted_.pop_back();
    }
    std::array<FabricCompletion, 1> completions;
    const int count = endpoint_->poll(completions);
    if (count <= 0) {
      return count;
    }
    const FabricCompletion& completion = completions[0];
    if (completion.operation->purpose == 0) {
      free_.push_back(completion.operation);
      return completion.error == 0 ? 0 : -completion.error;
    }
    unposted_.push_back(completion.operation);
    if (completion.error != 0 || completion.bytes > kLinkPacketBytes) {
      return completion.error == ECANCELED ? 0 : -EIO;
    }
    packet.assign(completion.operation->buffer, completion.operation->buffer + completion.bytes);
    return 1;
  }

  void close() override { endpoint_->close(); }
  const std::string& provider() const override { return endpoint_->provider(); }
  std::string route(Rank peer) const override { return endpoint_->route(peer); }

 private:
  std::unique_ptr<FabricEndpoint> endpoint_;
  std::vector<std::byte> memory_;
  FabricMemory registration_ = nullptr;
  std::array<FabricOperation, 2 * kBuffers> operations_;
  std::vector<FabricOperation*> unposted_;
  std::vector<FabricOperation*> free_;
};

}  // namespace

void PacketHub::put(Rank rank, std::span<const std::byte> packet) {
  const std::lock_guard lock(mutex_);
  if (rank < queues_.size()) {
    queues_[rank].emplace_back(packet.begin(), packet.end());
  }
}

bool PacketHub::take(Rank rank, std::vector<std::byte>& packet) {
  const std::lock_guard lock(mutex_);
  if (queues_[rank].empty()) {
    return false;
  }
  packet = std::move(queues_[rank].front());
  queues_[rank].pop_front();
  return true;
}

std::unique_ptr<PacketLink> make_queue_link(std::shared_ptr<PacketHub> hub, Rank rank) {
  return std::make_unique<QueueLink>(std::move(hub), rank);
}

std::unique_ptr<PacketLink> make_fabric_link(std::unique_ptr<FabricEndpoint> endpoint) {
  return std::make_unique<FabricLink>(std::move(endpoint));
}

}  // namespace neuron::ccom
