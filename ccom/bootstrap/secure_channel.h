// SPDX-License-Identifier: Apache-2.0
// Connections that nobody else reads or changes: the plug-in of <ccom/ccom_channel.h>.
//
// Concepts: a channel has the job's key; a session is one connection of it. Before both sides have
// proven the key, what shall be sent waits in the session. Callers: the loop's links. Threads:
// open() from anywhere; sessions on the loop's thread. Owns: the plug-in stays loaded until the
// process ends. Fails: open() with CCOM_INVALID or CCOM_UNSUPPORTED; sessions with a reason.
#ifndef CCOM_BOOTSTRAP_SECURE_CHANNEL_H
#define CCOM_BOOTSTRAP_SECURE_CHANNEL_H

#include <ccom/ccom_channel.h>

#include <memory>
#include <span>
#include <string>

#include "ccom/bootstrap/bootstrap.h"

namespace neuron::ccom {

class SecureSession {
 public:
  // A null session fails at once: there was no memory for it.
  SecureSession(const ccom_channel_t& methods, void* session)
      : methods_(methods), session_(session) {}
  ~SecureSession() {
    if (session_ != nullptr) methods_.free_session(session_);
  }
  SecureSession(const SecureSession&) = delete;
  SecureSession& operator=(const SecureSession&) = delete;

  // Each false: reason() says why, and the session is of no use any more.
  bool begin();
  bool take_from_socket(std::span<const std::byte> bytes);
  bool send(std::span<const std::byte> bytes);
  // `count` bytes of the other side; 0: none for now.
  bool receive(std::byte* to, size_t most, size_t& count);
  // What the socket has to send now.
  Bytes give_to_socket();

  bool ready() const { return ready_; }
  bool has_waiting() const { return !waiting_.empty(); }
  const std::string& reason() const { return reason_; }

 private:
  bool go_on();
  bool fail();

  const ccom_channel_t& methods_;
  void* session_;
  bool ready_ = false;
  Bytes waiting_;  // until it is ready
  std::string reason_;
};

class SecureChannel {
 public:
  // `plugin`: "1" for neuron/ccom-tls.so beside this library, else a file.
  static Result<std::unique_ptr<SecureChannel>> open(const std::string& plugin,
                                                     std::span<const std::byte> key);
  ~SecureChannel() { methods_.free_context(context_); }
  SecureChannel(const SecureChannel&) = delete;
  SecureChannel& operator=(const SecureChannel&) = delete;

  // Never null, so that no connection is left without one. Ends before the channel.
  std::unique_ptr<SecureSession> session(bool accepts);

 private:
  SecureChannel(const ccom_channel_t& methods, void* context)
      : methods_(methods), context_(context) {}

  const ccom_channel_t& methods_;
  void* context_;
};

}  // namespace neuron::ccom

#endif
