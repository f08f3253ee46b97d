// SPDX-License-Identifier: Apache-2.0
//
// Transfers between tensors of two cores, also of two processes or hosts, which the host makes.
//
// Concepts: a core is *open* between open() and close(): it listens to TCP port
// NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT plus its absolute number. A connection goes from one core
// to another; its requests are answered in their order. One thread of the process does all of it.
// Identifiers are numbers that are never used again, so that an old one is recognised. Callers:
// nrt_async_sendrecv_*. Thread-safe: all functions. Owns the thread, sockets and requests; the
// destructor ends them all. Fails: NRT_INVALID_HANDLE for an identifier that is none, NRT_RESOURCE
// beyond the limits, and as Connection does.
#ifndef RUNTIME_SEND_RECEIVE_SEND_RECEIVE_H
#define RUNTIME_SEND_RECEIVE_SEND_RECEIVE_H

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/send_receive/connection.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class SendReceive final : public SessionPart {
 public:
  static constexpr int kMostConnections = 256;  // of a core
  static constexpr int kMostTransfers = 1024;   // of a connection
  using Id = uint64_t;

  static SendReceive& of(Session& session) { return session.send_receive.of<SendReceive>(); }
  ~SendReceive() override;

  Result<void> open(Session& session, int core);
  // Ends what the core has. Fails, once that is done, if something was unfinished.
  Result<void> close(int core);
  // The bytes that have been received reach the core before what it is told next.
  Result<void> flush(Session& session, int core);

  Result<Id> connect(Connection::Role role, const std::string& peer, int peer_core, int core);
  Result<bool> is_connected(Id connection);
  Result<Id> transfer(Connection::Role role, Id connection, const TensorView& memory);
  struct Progress {
    bool done = false;
    uint64_t bytes = 0;
  };
  // The identifier of a transfer that is done, well or not, is none from then on.
  Result<Progress> test(Id transfer);

 private:
  // A connection to a core of ours that has not been met by an accept().
  struct Guest {
    base::FileDescriptor socket;
    HostAddress from;
    Introduction says;
    size_t heard = 0;
    Connection::Clock::time_point deadline;
  };
  struct OpenCore {
    base::FileDescriptor listener;
    std::vector<Guest> guests;
    Connection::Clock::time_point rests_until{};
  };
  struct Request {
    Id connection = 0;
    std::shared_ptr<Transfer> transfer;
  };

  Result<void> start();
  void wake();
  void work();
  void give_up(const char* what);
  // Under mutex_.
  void welcome(int core, OpenCore& open);
  void listen_to_guests(int core, OpenCore& open);
  void introduce_guests(OpenCore& open);
  Result<Connection*> find(Id connection);

  std::mutex mutex_;  // everything below, but wake_ and stopping_
  std::map<int, OpenCore> cores_;
  std::set<int> broken_;  // cores whose close() found something unfinished
  std::map<Id, std::unique_ptr<Connection>> connections_;
  std::map<Id, Request> requests_;
  Id next_ = 1;
  uint16_t port_ = 0;
  std::chrono::seconds limit_{60};
  std::optional<Error> gave_up_;  // the thread's
  base::FileDescriptor wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace neuron::runtime

#endif
