// SPDX-License-Identifier: Apache-2.0
//
// HTTP requests that come from one client, and the bytes that go back to it.
//
// Concepts: the owner is told when a header has come, and then asks for the body, or answers
// without it. While an answer is being made, the socket is read on: so a client that goes away is
// noticed, and at most kAhead bytes of its next request are kept. Callers: the network thread only,
// which the owner's functions run on. Owns: the socket, with TLS if the server has it, the parser
// and what was read. Borrows: the owner, until close(). Fails: the owner is told, once for each
// request.
#ifndef TOOLS_NEURON_SERVE_HTTP_STREAM_H
#define TOOLS_NEURON_SERVE_HTTP_STREAM_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace neuron::serve {

class HttpStream {
 public:
  static constexpr size_t kAhead = 16 << 10;

  enum class Trouble : uint8_t { kMalformed, kHeaderTooLarge, kBodyTooLarge, kNoRoom };

  class Owner {
   public:
    virtual void header_came() = 0;
    // A body without a length has become so long; false: there is no room for it.
    virtual bool body_grows(size_t bytes) = 0;
    virtual void body_came() = 0;
    // The request cannot be read; it may still be answered.
    virtual void unreadable(Trouble trouble, const std::string& why) = 0;
    // The client has ended its side; `broken`: the connection is of no more use.
    virtual void peer_gone(bool broken) = 0;
    virtual void written() = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~HttpStream() = default;

  // Begins with the handshake, if there is one, and waits for the first header.
  virtual void start(Owner& owner, size_t max_header, size_t max_body) = 0;
  // Instead of start(): nothing is read, and one answer may be written.
  virtual void hold_back(Owner& owner) = 0;
  virtual void next_header() = 0;
  // `expected`: the client waits for "100 Continue" first.
  virtual void read_body(bool expected) = 0;
  // The text must stay as it is until the owner is told.
  virtual void write(std::string_view text) = 0;
  // Sends no more, and throws away what still comes.
  virtual void finish() = 0;
  // The owner is told nothing any more.
  virtual void close() = 0;

  // Of the request whose header has come. Views are good until next_header().
  virtual std::string_view method() const = 0;
  virtual std::string_view target() const = 0;
  virtual std::string_view header(std::string_view name) const = 0;  // "": there is none
  virtual size_t count(std::string_view name) const = 0;
  virtual bool version_1_0() const = 0;
  virtual bool keep_alive() const = 0;
  virtual bool has_body() const = 0;
  virtual std::optional<uint64_t> length() const = 0;  // none: there is no body, or in chunks
  virtual std::string& body() = 0;

  // Part of a request has come.
  virtual bool begun() const = 0;
  // There is no handshake, or it is done: the client could read an answer.
  virtual bool ready() const = 0;
  // It came through the control socket, whose file says who may.
  virtual bool trusted() const = 0;
  virtual const std::string& peer() const = 0;  // "127.0.0.1:41234"
};

// The phrase for a status.
const char* reason_phrase(int status);

}  // namespace neuron::serve

#endif
