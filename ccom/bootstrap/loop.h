// SPDX-License-Identifier: Apache-2.0
// The thread inside a Bootstrap: connections with frames, timers, and descriptors to watch.
//
// Concepts: a Link is one connection. It delivers whole frames, and calls `closed` once. It closes
// itself when a frame is malformed or longer than its limit, or when its peer does not read.
// Threads: post(), start and stop from anywhere; everything else, and every callback, on the loop's
// thread. Owns: sockets and watched descriptors. Fails: callbacks with the reason; nothing throws.
#ifndef CCOM_BOOTSTRAP_LOOP_H
#define CCOM_BOOTSTRAP_LOOP_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ccom/bootstrap/address.h"
#include "ccom/bootstrap/message.h"
#include "ccom/bootstrap/secure_channel.h"

namespace neuron::ccom {

class Link {
 public:
  using Received = std::function<void(MessageType type, Bytes body)>;
  using Closed = std::function<void(const std::string& why)>;

  virtual ~Link() = default;
  // Begins to read. A second call replaces the receivers.
  virtual void listen(Received received, Closed closed) = 0;
  virtual void send(MessageType type, const Bytes& body) = 0;
  // Frames longer than this close the link.
  virtual void limit(uint32_t bytes) = 0;
  // Closes without calling `closed`. `flush`: only after everything queued has left.
  virtual void close(bool flush) = 0;
  virtual Address local() const = 0;
  virtual Address remote() const = 0;
  virtual bool idle() const = 0;  // nothing waits to be sent
};
using LinkPointer = std::shared_ptr<Link>;

class Loop {
 public:
  using Task = std::function<void()>;
  using Milliseconds = std::chrono::milliseconds;

  // With a channel all connections are encrypted by it.
  static Result<std::unique_ptr<Loop>> make(std::unique_ptr<SecureChannel> channel);
  virtual ~Loop() = default;  // stops

  virtual void post(Task task) = 0;
  // Ends the thread; queued callbacks are dropped.
  virtual void stop() = 0;

  // Runs the task after this time. Returns the number of a timer, for cancel().
  virtual uint64_t after(Milliseconds time, Task task) = 0;
  virtual void cancel(uint64_t timer) = 0;
  // Takes ownership of the listening socket. `accepted` gets each connection. Returns a number for
  // stop_accepting().
  virtual uint64_t accept(int listener, std::function<void(LinkPointer)> accepted) = 0;
  // pause: for a while; the backlog holds new connections. stop: for good.
  virtual void pause_accepting(uint64_t listener, bool paused) = 0;
  virtual void stop_accepting(uint64_t listener) = 0;
  // Calls back with null and the reason if there is no connection within `time`.
  virtual void connect(
      const Address& address, Milliseconds time,
      std::function<void(LinkPointer, const std::string& why, bool refused)> connected) = 0;
  // Takes ownership of the descriptor; calls `readable` once.
  virtual void watch(int descriptor, Task readable) = 0;
};

}  // namespace neuron::ccom

#endif
