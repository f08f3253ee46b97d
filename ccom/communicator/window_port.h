// SPDX-License-Identifier: Apache-2.0
// Puts and signals across the network: the part of a window for ranks whose memory is not mapped.
//
// Concepts: a put is a header of fixed size, then its data in pieces, on one channel of the
// connection. The target grants the pieces straight into its window, and counts the signal behind
// the last of them. A thread of the window does that while its owner computes; it looks at the
// network each millisecond, and without a pause while something arrives. A caller that puts or
// waits does the same inline. Every number that comes from a peer is checked. Only what the target
// takes is progress of a put, not what others send meanwhile. Threads: put() and advance() of one
// thread. Owns: the port and the thread. Fails: with the connection's sentence, or CCOM_TIMEOUT
// with the bytes that the target has not taken; CCOM_RESOURCE when the process has no memory left.
// What failed once stays closed.
#ifndef CCOM_COMMUNICATOR_WINDOW_PORT_H
#define CCOM_COMMUNICATOR_WINDOW_PORT_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ccom/communicator/first_failure.h"
#include "ccom/transport/network_port.h"

namespace neuron::ccom {

class WindowPort {
 public:
  // The window of this rank, and what is done when a signal, or something wrong, has come.
  struct Place {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    std::function<void(Rank source, uint32_t signal)> count;
    std::function<void(const Error&)> fail;
    std::function<Result<void>()> check;  // whether the bytes are still there; null: they are
  };

  static Result<std::unique_ptr<WindowPort>> open(std::unique_ptr<NetworkPort> port, Place place,
                                                  const FirstFailure& failure);
  ~WindowPort();
  WindowPort(const WindowPort&) = delete;
  WindowPort& operator=(const WindowPort&) = delete;

  // The arguments fit the target's window. Returns when the source may change again. `timeout`: the
  // longest time without progress.
  Result<void> put(Rank target, uint64_t offset, const std::byte* source, uint64_t bytes,
                   uint32_t signal, std::chrono::milliseconds timeout);
  // Returns whether something happened.
  bool advance();

 private:
  struct Header {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t signal = 0;
    uint32_t reserved = 0;
  };
  // What comes from a rank: a header, then the pieces of its data.
  struct Incoming {
    Header header;
    uint64_t granted = 0;   // messages
    uint64_t arrived = 0;   // messages
    uint64_t asked = 0;     // bytes of the data that have a granted place
    uint64_t received = 0;  // bytes of the data
    bool in_data = false;
  };

  // A put on its way to its target.
  struct Outgoing {
    Rank target = 0;
    Header header;
    const std::byte* source = nullptr;
    std::chrono::milliseconds timeout{0};
    uint64_t taken = 0;  // bytes whose messages are over
  };

  WindowPort(std::unique_ptr<NetworkPort> port, Place place, const FirstFailure& failure);

  bool step();
  Result<bool> turn();
  Result<bool> receive(Rank source);
  Result<bool> take_header(Rank source, Incoming& incoming);
  void end_put(Rank source, Incoming& incoming);
  Result<void> send(Outgoing& put);
  Result<void> send(const Outgoing& put, uint64_t number, const std::byte* data, uint64_t bytes);
  // Calls `look` until it returns kDone, and advances what comes meanwhile.
  template <class Look>
  Result<void> until(const Outgoing& put, Look&& look);
  Error late(const Outgoing& put) const;
  Error failure_of(Rank peer) const;
  void close();  // after a failure
  void serve();

  std::mutex mutex_;  // of everything but the thread
  std::unique_ptr<NetworkPort> port_;
  Place place_;
  const FirstFailure& failure_;
  std::vector<Incoming> incoming_;  // by rank
  std::vector<uint64_t> sent_;      // messages, by rank
  bool broken_ = false;
  Error no_memory_;  // made when there is some

  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuron::ccom

#endif
