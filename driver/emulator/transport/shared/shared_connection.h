// SPDX-License-Identifier: Apache-2.0
// One client of the daemon: from its Hello until everything it held is free again.
//
// Concepts: the event loop receives messages and hands each to a worker thread. `pending_` counts
// these messages and the connection itself; the thread that brings it to 0 closes the session. A
// client that said kGoodbye gets an answer when that is done. A client that vanished, before or
// after its kGoodbye, is abandoned: its calls are given up and its programs stopped. Callers:
// SharedServer, on the event loop; workers. Shared by both. Fails: what breaks the protocol ends
// the connection, with a line in the log.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_CONNECTION_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_CONNECTION_H

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "driver/emulator/transport/shared/doorbells.h"
#include "driver/emulator/transport/shared/shared_calls.h"
#include "driver/emulator/transport/shared/workers.h"

namespace neuron::service {
class Instance;
class Session;
}  // namespace neuron::service

namespace neuron::transport {

// What connections share.
struct Shared {
  service::Instance& instance;
  Workers& workers;
  Doorbells& doorbells;
  CallBudget& budget;   // buffers of calls that are carried out
  CallBudget& packets;  // messages that were received and are not answered yet
  std::string profile;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `closed` is called by a worker when everything is free.
  Connection(const Shared& shared, base::FileDescriptor socket, const service::Client& client,
             std::function<void()> closed);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  const service::Client& client() const { return client_; }
  // Event loop: takes what has arrived. Throws nothing.
  enum class Received : uint8_t {
    kAll,     // or as much as is one client's turn
    kNoRoom,  // the client has its share of messages: no more until has_room()
    kOver,    // the connection
  };
  Received receive();
  bool has_room() const { return shared_.packets.has_share(client_); }
  // Event loop: the client is to be treated as dead. Once.
  void abandon();

 private:
  Received take_turn();
  bool handle(std::span<const std::byte> packet, base::PacketFiles& files, bool files_lost);
  void greet(const wire::Hello& hello);
  int open(const wire::Hello& hello, uint64_t features);
  int open_session(const wire::Hello& hello, service::Session** session);
  bool send_welcome(const wire::Hello& hello, int result, uint64_t features);
  void submit(std::function<void()> job);
  void drop();   // one pending thing less
  void close();  // the last one
  void remove_doorbell();
  void complain(const std::string& what) const;
  // Of what has ended a call that gets no answer.
  void complain_of(const std::exception& failure) const noexcept;

  const Shared& shared_;
  base::FileDescriptor socket_;
  const service::Client client_;
  const std::function<void()> closed_;
  // Written by the worker that greets; release, acquire of others in handle().
  std::atomic<service::Session*> session_{nullptr};
  // Greeted for observation, with no session; release and acquire as session_.
  std::atomic<bool> observes_{false};
  std::mutex session_mutex_;  // between abandon() and close(), which takes it away
  std::unique_ptr<Doorbell> doorbell_;
  std::atomic<bool> gone_{false};
  // Release and acquire: the thread that closes sees what the calls did.
  std::atomic<unsigned> pending_{1};
  bool greeted_ = false;  // event loop
  bool over_ = false;     // event loop
  bool goodbye_ = false;  // event loop; close() comes after it
  uint32_t goodbye_id_ = 0;
};

}  // namespace neuron::transport

#endif
