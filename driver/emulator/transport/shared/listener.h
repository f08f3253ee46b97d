// SPDX-License-Identifier: Apache-2.0
// A listening SOCK_SEQPACKET socket at a path, or one that systemd has made.
//
// Concepts: a lock on PATH.lock would leave a file, so the path itself decides. If a connection
// succeeds, a daemon lives; a socket that refuses is stale and is replaced. Callers: main()
// and servers, before they serve. Owns: the descriptor, and the path if it was made here, which the
// destructor unlinks if it still is ours. Fails: open returns null with a sentence.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_LISTENER_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_LISTENER_H

#include <memory>
#include <string>

namespace neuron::transport {

class Listener {
 public:
  // Binds and listens at `path`; `what` names the socket in sentences ("shared device").
  static std::unique_ptr<Listener> open(const std::string& path, const char* what,
                                        std::string& error);
  // Takes over descriptor `fd` if it is a listening SOCK_SEQPACKET unix socket.
  static std::unique_ptr<Listener> adopt(int fd, const char* what, std::string& error);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_; }
  // The descriptor, which is the caller's from now on; the path stays ours.
  int release();
  const std::string& path() const { return path_; }

 private:
  Listener(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  const std::string path_;
  bool owns_path_ = false;
  unsigned long device_ = 0;  // of the socket's file, to unlink no other
  unsigned long inode_ = 0;
};

}  // namespace neuron::transport

#endif
