// SPDX-License-Identifier: Apache-2.0
// One connection's messages: whole ones in, replies out, with the descriptors that travel along.
//
// Concepts: a stream socket, read header first, so that descriptors, which arrive with a message's
// first bytes, are never taken for another's. Callers: VfioUserSession, from one thread; close()
// from any, to end a wait. Owns: the socket (SocketStream); a received message owns its
// descriptors. Fails: receive gives kClosed when the client has gone and kBroken with a sentence
// when it sent what is no message, or a part of one and then nothing for five seconds.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_STREAM_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_STREAM_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/emulator/transport/vfio_user/vfio_user_protocol.h"

namespace neuron::transport {

// Descriptors that are closed unless taken.
class FileList {
 public:
  FileList() = default;
  ~FileList() { clear(); }
  FileList(const FileList&) = delete;
  FileList& operator=(const FileList&) = delete;
  void add(int file) { files_.push_back(file); }
  void clear();
  size_t size() const { return files_.size(); }
  int first() const { return files_.empty() ? -1 : files_.front(); }

 private:
  std::vector<int> files_;
};

struct VfioUserMessage {
  vfio_user::Header header{};
  std::vector<std::byte> body;
  FileList files;
};

enum class Received : uint8_t { kMessage, kClosed, kBroken };

class VfioUserStream {
 public:
  virtual ~VfioUserStream() = default;
  virtual Received receive(VfioUserMessage& message, std::string& why) = 0;
  // `file` -1: none. False: the client has gone or takes nothing for five seconds.
  virtual bool send(const vfio_user::Header& header, std::span<const std::byte> body, int file) = 0;
};

class SocketStream final : public VfioUserStream {
 public:
  explicit SocketStream(int socket);  // takes it over
  ~SocketStream() override;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  Received receive(VfioUserMessage& message, std::string& why) override;
  bool send(const vfio_user::Header& header, std::span<const std::byte> body, int file) override;
  // Ends receive() and send() in whatever thread; the descriptor lives as long as this object.
  void close();
  // Whether the other end has closed.
  bool peer_gone() const;

 private:
  Received read_rest(std::span<std::byte> into, std::string& why);
  const int socket_;
};

}  // namespace neuron::transport

#endif
