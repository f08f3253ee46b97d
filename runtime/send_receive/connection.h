// SPDX-License-Identifier: Apache-2.0
//
// One direction between two cores: who sends, who receives, and what is under way.
//
// Concepts: a Transfer is one request of a caller. The sender's messages and the receiver's
// requests meet in the order in which they were made. A message may be shorter than what the
// receiver has room for; a longer one fails on both sides, moves nothing, and the next one goes on.
// A transfer is done on both sides when the bytes lie in the receiver's tensor. Callers:
// SendReceive, under its lock. Thread-safe: no. Owns the socket; shares the tensors' memory. Fails:
// the transfers, and the connection for good once the peer is gone, with a sentence that names the
// peer.
#ifndef RUNTIME_SEND_RECEIVE_CONNECTION_H
#define RUNTIME_SEND_RECEIVE_CONNECTION_H

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "runtime/send_receive/internet_socket.h"
#include "runtime/send_receive/wire.h"
#include "runtime/tensor/tensor.h"

namespace neuron::runtime {

struct Transfer {
  TensorView memory;  // keeps it alive
  std::byte* at = nullptr;
  uint64_t bytes = 0;
  uint64_t number = 0;  // of a message
  uint64_t moved = 0;
  bool done = false;
  std::optional<Error> error;  // done, but not well
};

class Connection {
 public:
  enum class Role : uint8_t { kSends, kReceives };
  enum class State : uint8_t { kMeeting, kConnected, kEnded };
  using Clock = std::chrono::steady_clock;
  struct Peer {
    HostAddress address;
    uint16_t port = 0;  // to connect to
    int core = 0;
  };

  Connection(Role role, const Peer& peer, int core, Clock::time_point deadline);

  Role role() const { return role_; }
  int core() const { return core_; }
  const Peer& peer() const { return peer_; }
  State state() const { return state_; }
  const std::optional<Error>& error() const { return error_; }
  // Transfers of which nobody has heard the end.
  size_t untested = 0;
  // Transfers that are not done.
  size_t in_flight() const { return queue_.size() + unanswered_.size(); }

  // Of a connected one.
  void add(std::shared_ptr<Transfer> transfer);
  // Of one that receives and has not met its peer: takes the peer's connection.
  void adopt(base::FileDescriptor socket, const Introduction& peer);
  // Ends it, as a failure if anything is under way.
  void end(const Error& why);

  // What the socket is to be polled for; -1: no socket now.
  int socket() const;
  short interest() const;
  // Does what can be done without waiting. `events`: of poll().
  void progress(short events);
  // True: it has more to do at once.
  bool busy() const { return busy_; }

 private:
  void connect();
  void meet(short events);
  void introduce();
  void send_messages();
  void read_answers();
  void receive_messages();
  void send_answers();
  bool take_frame();
  void finish_message();
  void look_for_end();
  void answer(FrameKind kind, uint64_t bytes);
  void lost(int error);
  std::string peer_text() const;
  // Bytes moved: 0 where the socket would have to wait, and after the connection was lost.
  size_t put(const std::byte* from, size_t bytes);
  size_t get(std::byte* to, size_t bytes);

  const Role role_;
  const Peer peer_;
  const int core_;
  const Clock::time_point deadline_;
  State state_ = State::kMeeting;
  std::optional<Error> error_;
  base::FileDescriptor socket_;
  bool connecting_ = false;
  int last_refusal_ = 0;  // errno of the last attempt
  Clock::time_point next_attempt_{};
  Introduction peer_says_;
  size_t heard_ = 0;  // bytes of peer_says_
  std::string out_;   // introductions, frames and answers that have not been sent
  std::deque<std::shared_ptr<Transfer>> queue_;       // to be sent, or to be received
  std::deque<std::shared_ptr<Transfer>> unanswered_;  // sent
  uint64_t next_number_ = 0;
  bool framed_ = false;  // the frame of the first of queue_ has been written, or read
  Frame frame_;
  size_t frame_bytes_ = 0;  // of frame_ that have come
  uint64_t passed_ = 0;     // bytes of the message that have gone or come
  bool too_long_ = false;
  bool peer_is_silent_ = false;
  bool busy_ = false;
};

}  // namespace neuron::runtime

#endif
