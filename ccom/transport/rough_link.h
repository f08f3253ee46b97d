// SPDX-License-Identifier: Apache-2.0
// Carries packets of a few KiB for RoughEndpoint: between threads of a process, or over a provider.
//
// Callers: RoughEndpoint; tests make hubs. Thread: one at a time for each link; a hub is shared and
// synchronises inside. Owns: packets on their way. Fails: negative errno values.
#ifndef CCOM_TRANSPORT_ROUGH_LINK_H
#define CCOM_TRANSPORT_ROUGH_LINK_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ccom/transport/fabric_endpoint.h"

namespace neuron::ccom {

inline constexpr uint64_t kLinkPacketBytes = 8192 + 64;

class PacketLink {
 public:
  virtual ~PacketLink() = default;
  virtual std::vector<std::byte> address() const = 0;
  virtual Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) = 0;
  // Copies the packet. 0, -EAGAIN, or another negative errno value.
  virtual int send(Rank peer, std::span<const std::byte> packet) = 0;
  // 1 with a packet, 0 without, or a negative errno value.
  virtual int poll(std::vector<std::byte>& packet) = 0;
  virtual void close() = 0;
  virtual const std::string& provider() const = 0;
  virtual std::string route(Rank peer) const = 0;
};

// Queues between the threads of a process. It must outlive its links.
class PacketHub {
 public:
  explicit PacketHub(uint32_t ranks) : queues_(ranks) {}
  void put(Rank rank, std::span<const std::byte> packet);
  bool take(Rank rank, std::vector<std::byte>& packet);

 private:
  std::mutex mutex_;
  std::vector<std::deque<std::vector<std::byte>>> queues_;
};

std::unique_ptr<PacketLink> make_queue_link(std::shared_ptr<PacketHub> hub, Rank rank);
std::unique_ptr<PacketLink> make_fabric_link(std::unique_ptr<FabricEndpoint> endpoint);

}  // namespace neuron::ccom

#endif
