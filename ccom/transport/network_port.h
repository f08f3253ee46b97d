// SPDX-License-Identifier: Apache-2.0
// One rank's network access: its endpoint, a connection to each other rank, and the buffers for
// small messages.
//
// Concepts. Messages of a pair, stream and channel are numbered for as long as the port lives. A
// message of at most kEagerBytes is copied through buffers of the pool on both sides; a longer one
// goes from the source straight into the granted place. A sender may be kInitialWindow messages
// ahead of the grants that it knows. Grants travel in the tag of every message of the opposite
// direction, and in a message of their own when half the window is unreported. The word beside each
// message is a hash of its Signature under a mask, and messages of the pool begin with a pass,
// which only ranks of the job know (port_pass.h); others are dropped. Memory that the provider must
// register is added before use. Callers: the executor. Threads: one at a time. Owns: endpoint,
// pool, connections. Fails: the connection with the peer's name and route, or the port when the
// endpoint is lost; a message that breaks the protocol fails its connection.
#ifndef CCOM_TRANSPORT_NETWORK_PORT_H
#define CCOM_TRANSPORT_NETWORK_PORT_H

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ccom/transport/connection.h"
#include "ccom/transport/fabric_endpoint.h"
#include "ccom/transport/network_control.h"
#include "ccom/transport/port_pass.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {

class FabricConnection;
struct FabricLane;

class NetworkPort {
 public:
  static constexpr uint64_t kEagerBytes = 8192;
  static constexpr uint64_t kInitialWindow = 16;

  // `addresses`: those of all ranks' endpoints. The endpoint has not been introduced to them yet.
  // `keys`: of all ranks (port_pass.h).
  static Result<std::unique_ptr<NetworkPort>> open(
      Rank rank, std::unique_ptr<FabricEndpoint> endpoint,
      const std::vector<std::vector<std::byte>>& addresses, const std::vector<PortKey>& keys);
  ~NetworkPort();
  NetworkPort(const NetworkPort&) = delete;
  NetworkPort& operator=(const NetworkPort&) = delete;

  FabricConnection& connection(Rank peer) { return *connections_[peer]; }
  FabricEndpoint& endpoint() { return *endpoint_; }
  Rank rank() const { return rank_; }
  uint32_t ranks() const { return static_cast<uint32_t>(connections_.size()); }

  // From now on, messages of the stream must belong to this collective.
  void expect(const Signature& signature);
  const Signature& expected(uint8_t stream) const { return expected_[stream]; }
  uint32_t expected_hash(uint8_t stream) const { return expected_hash_[stream]; }

  // Announces memory for long messages; most providers need nothing.
  Result<void> add_memory(const void* data, uint64_t bytes);
  void remove_memory(const void* data);
  FabricMemory memory_of(const std::byte* data, uint64_t bytes) const;

  // kDone: something happened. kFailed: the endpoint is lost.
  Outcome progress();
  const Error& failure() const { return failure_; }
  // Whether some sends have not completed.
  bool busy() const {
    return sending_ + bulk_sending_ != 0 || !controls_.empty() || !untold_.empty();
  }

  void send_control(Rank peer, const ControlMessage& message);
  // Sends the farewell to all ranks that this rank exchanged messages with, if it can be sent
  // without waiting.
  void say_farewell(const ControlMessage& message);
  std::function<void(Rank, const ControlMessage&)> on_control;

  // After a failure: makes sure that nothing touches memory of the callers any more. Data that
  // still arrives is dropped, and receives are cancelled. If that is not possible before the
  // deadline, the endpoint is closed; otherwise reports go on. Throws nothing.
  void quiesce(base::Deadline deadline);

 private:
  friend class FabricConnection;
  enum Purpose : uint8_t { kPoolReceive, kPoolSend, kBulkSend, kBulkReceive };
  struct Memory {
    const std::byte* data;
    uint64_t bytes;
    uint32_t users;
    FabricMemory memory;
  };

  static constexpr uint64_t kPoolBytes = PortPass::kBytes + kEagerBytes;

  NetworkPort(Rank rank, std::unique_ptr<FabricEndpoint> endpoint,
              const std::vector<PortKey>& keys);
  Result<void> prepare();
  void take_back(base::Deadline deadline);
  void post_pool();
  void flush();
  void complete(const FabricCompletion& completion);
  void accept(const FabricCompletion& completion);
  FabricOperation* take_operation();
  void give_operation(FabricOperation* operation) { operations_.push_back(operation); }
  // Sends a message of the pool: 0 or a negative errno value.
  int send_pool(Rank peer, uint64_t tag, uint32_t word, const std::byte* data, uint64_t bytes,
                FabricConnection* owner);

  Rank rank_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  std::vector<std::unique_ptr<FabricConnection>> connections_;
  std::array<Signature, CCOM_MAX_STREAMS> expected_{};
  std::array<uint32_t, CCOM_MAX_STREAMS> expected_hash_{};
  std::vector<Memory> memories_;

  std::vector<std::byte> pool_;  // receive buffers, then send buffers
  std::vector<std::byte> small_message_ = std::vector<std::byte>(kPoolBytes);
  FabricMemory pool_memory_ = nullptr;
  std::vector<FabricOperation> pool_operations_;
  std::vector<FabricOperation*> unposted_;  // receives of the pool
  std::vector<FabricOperation*> senders_;   // free send buffers of the pool
  std::deque<FabricOperation> operation_store_;
  std::vector<FabricOperation*> operations_;     // free, for long messages
  std::vector<std::vector<std::byte>> stashes_;  // free, for messages ahead of their grant
  std::vector<FabricLane*> untold_;              // those with unreported grants
  std::deque<std::pair<Rank, std::vector<std::byte>>> controls_;
  uint64_t sending_ = 0;  // from the pool
  uint64_t bulk_sending_ = 0;
  uint64_t receiving_ = 0;  // long ones
  bool closed_ = false;
  bool quiet_ = false;  // data is no longer accepted
  Error failure_;
};

uint32_t signature_hash(const Signature& signature);

}  // namespace neuron::ccom

#endif
