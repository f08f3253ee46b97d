// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/network.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstring>

namespace neuron::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr int kBacklog = 1024;
constexpr size_t kPiece = 16 << 10;
// What may stand between two pieces of data of a body in chunks.
constexpr size_t kMostBetween = 64 << 10;

// TLS in front of a socket.
struct Secure {
  Secure(Socket& socket, std::shared_ptr<ssl::context> used)
      : context(std::move(used)), stream(socket, *context) {}
  const std::shared_ptr<ssl::context> context;
  ssl::stream<Socket&> stream;
  bool done = false;  // the handshake
};

class Stream final : public HttpStream, public std::enable_shared_from_this<Stream> {
 public:
  Stream(Socket socket, std::string peer, bool trusted, const std::shared_ptr<ssl::context>& tls)
      : socket_(std::move(socket)), peer_(std::move(peer)), trusted_(trusted) {
    if (tls != nullptr) secure_.emplace(socket_, tls);
  }

  void start(Owner& owner, size_t max_header, size_t max_body) override {
    owner_ = &owner;
    max_header_ = static_cast<uint32_t>(max_header);
    max_body_ = max_body;
    if (!secure_) return next_header();
    parser_.emplace();
    secure_->stream.async_handshake(ssl::stream_base::server, then(&Stream::on_handshake));
  }

  void hold_back(Owner& owner) override {
    owner_ = &owner;
    state_ = State::kHeld;
  }

  void next_header() override {
    state_ = State::kHeader;
    parser_.emplace();
    parser_->header_limit(max_header_);
    parser_->body_limit(max_body_);
    advance();
  }

  void read_body(bool expected) override {
    if (!expected) {
      state_ = State::kBody;
      return advance();
    }
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    continuing_ = true;
    send(kContinue, &Stream::on_continued);
  }

  void write(std::string_view text) override {
    // A request that was given up is not read on.
    state_ = State::kHeld;
    continuing_ = false;
    send(text, &Stream::on_written);
  }

  void finish() override {
    state_ = State::kRest;
    if (secure_) {
      secure_->stream.async_shutdown(then(&Stream::on_shut));
    } else {
      on_shut({}, 0);
    }
  }

  void close() override {
    owner_ = nullptr;
    Error ignored;
    socket_.close(ignored);
  }

  std::string_view method() const override { return text(parser_->get().method_string()); }
  std::string_view target() const override { return text(parser_->get().target()); }
  std::string_view header(std::string_view name) const override {
    return text(parser_->get()[{name.data(), name.size()}]);
  }
  size_t count(std::string_view name) const override {
    return parser_->get().count({name.data(), name.size()});
  }
  bool version_1_0() const override { return parser_->get().version() == 10; }
  bool keep_alive() const override { return parser_->get().keep_alive(); }
  bool has_body() const override {
    return parser_->chunked() || (length().has_value() && *length() != 0);
  }
  std::optional<uint64_t> length() const override {
    const auto length = parser_->content_length();
    return length ? std::optional<uint64_t>(*length) : std::nullopt;
  }
  std::string& body() override { return parser_->get().body(); }
  bool begun() const override { return buffer_.size() != 0 || (parser_ && parser_->got_some()); }
  bool ready() const override { return !secure_ || secure_->done; }
  bool trusted() const override { return trusted_; }
  const std::string& peer() const override { return peer_; }

 private:
  enum class State : uint8_t {
    kHeader,  // is being read
    kBody,
    kHeld,  // a request is the owner's; what comes now is the next one's
    kRest,  // is thrown away
  };
  using Step = void (Stream::*)(Error, size_t);

  // One type of handler for all operations, so that each of them is compiled once.
  struct Then {
    std::shared_ptr<Stream> self;
    Step step;
    void operator()(Error error, size_t bytes = 0) const { (self.get()->*step)(error, bytes); }
  };
  Then then(Step step) { return {shared_from_this(), step}; }

  static std::string_view text(boost::beast::string_view value) {
    return {value.data(), value.size()};
  }

  void send(std::string_view text, Step step) {
    const asio::const_buffer bytes(text.data(), text.size());
    if (secure_) {
      asio::async_write(secure_->stream, bytes, then(step));
    } else {
      asio::async_write(socket_, bytes, then(step));
    }
  }

  void read() {
    if (reading_ || owner_ == nullptr) return;
    if (state_ == State::kHeld && buffer_.size() >= kAhead) return;
    reading_ = true;
    const auto room = asio::buffer(incoming_);
    if (secure_) {
      secure_->stream.async_read_some(room, then(&Stream::on_read));
    } else {
      socket_.async_read_some(room, then(&Stream::on_read));
    }
  }

  void on_read(Error error, size_t bytes) {
    reading_ = false;
    if (owner_ == nullptr) return;
    if (error) return owner_->peer_gone(error != asio::error::eof);
    buffer_.commit(asio::buffer_copy(buffer_.prepare(bytes), asio::buffer(incoming_, bytes)));
    switch (state_) {
      case State::kHeader:
      case State::kBody:
        return advance();
      case State::kRest:
        buffer_.clear();
        return read();
      case State::kHeld:
        return read();
    }
  }

  void on_handshake(Error error, size_t) {
    if (owner_ == nullptr) return;
    if (error) return owner_->peer_gone(true);
    secure_->done = true;
    next_header();
  }

  void on_continued(Error error, size_t) {
    if (owner_ == nullptr) return;
    if (error) return owner_->peer_gone(true);
    if (!std::exchange(continuing_, false)) return;
    state_ = State::kBody;
    advance();
  }

  void on_written(Error error, size_t) {
    if (owner_ == nullptr) return;
    if (error) return owner_->peer_gone(true);
    owner_->written();
  }

  void on_shut(Error, size_t) {
    if (owner_ == nullptr) return;
    if (shutdown(socket_.native_handle(), SHUT_WR) != 0) return owner_->peer_gone(true);
    buffer_.clear();
    read();
  }

  void advance() {
    // bounded: each turn takes bytes, or ends
    while (owner_ != nullptr) {
      if (state_ == State::kBody && parser_->is_done()) {
        state_ = State::kHeld;
        read();
        return owner_->body_came();
      }
      if (buffer_.size() == 0) return read();
      Error error;
      const size_t used = parser_->put(buffer_.data(), error);
      buffer_.consume(used);
      const bool more = error == http::error::need_more;
      if (error && !more) return trouble(error);
      if (state_ == State::kHeader && parser_->is_header_done()) {
        state_ = State::kHeld;
        return owner_->header_came();
      }
      if (state_ == State::kBody) {
        if (!length() && !owner_->body_grows(parser_->get().body().size())) {
          state_ = State::kHeld;
          return owner_->unreadable(Trouble::kNoRoom, "");
        }
        if (used == 0 && buffer_.size() > kMostBetween) return trouble(http::error::bad_chunk);
        if (parser_->is_done()) continue;
      }
      if (more || used == 0) return read();
    }
  }

  void trouble(Error error) {
    state_ = State::kHeld;
    Trouble trouble = Trouble::kMalformed;
    if (error == http::error::body_limit) trouble = Trouble::kBodyTooLarge;
    if (error == http::error::header_limit) trouble = Trouble::kHeaderTooLarge;
    owner_->unreadable(trouble, error.message());
  }

  Socket socket_;
  std::optional<Secure> secure_;
  const std::string peer_;
  const bool trusted_;
  Owner* owner_ = nullptr;  // null: closed, or not started
  uint32_t max_header_ = 0;
  uint64_t max_body_ = 0;
  // A read goes on while requests that came before are parsed. Parsing moves the end of `buffer_`,
  // so what is read may not go there until it has come.
  std::array<char, kPiece> incoming_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  State state_ = State::kHeader;
  bool reading_ = false;
  bool continuing_ = false;  // the client is being told to send its body
};

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}

Error listen_at(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  Error code;
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(kBacklog, code);
  return code;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// Whether a socket's file is left of a server that is gone.
bool stale(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const base::FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
             0 &&
         errno == ECONNREFUSED;
}

}  // namespace

struct Network::Parts {
  asio::io_context loop{1};
  tcp::acceptor acceptor{loop};
  tcp::acceptor sockets{loop};
  asio::local::stream_protocol::acceptor control{loop};
  std::string control_path;
  asio::signal_set signals{loop};
  std::shared_ptr<ssl::context> tls;
  bool accepting = false;
  bool ended = false;

  template <class Acceptor, class Accept>
  void accept(Acceptor& from, const Accept& accepted) {
    from.async_accept([this, &from, accepted](Error error, auto socket) {
      if (!accepting) return;
      if (!error) {
        accepted(std::move(socket));
        return accept(from, accepted);
      }
      // Out of descriptors or the like: the next try comes when some may be free again.
      after(kAcceptPause, [this, &from, accepted] {
        if (accepting) accept(from, accepted);
      });
    });
  }

  void after(std::chrono::microseconds time, std::function<void()> work) {
    auto timer = std::make_shared<asio::steady_timer>(loop, time);
    timer->async_wait([this, timer, work = std::move(work)](Error error) {
      if (!error && !ended) work();
    });
  }
};

Network::Network() : parts_(std::make_unique<Parts>()) {}

Network::~Network() { stop_accepting(); }

bool Network::adopt(int socket, std::string& error) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  if (name.ss_family != AF_INET && name.ss_family != AF_INET6) {
    error = "the socket that the service manager passed is none of TCP; use ListenStream=PORT";
    return false;
  }
  Error code;
  parts_->acceptor.assign(name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket, code);
  if (code) error = "the socket that the service manager passed: " + code.message();
  return !code;
}

bool Network::listen(const std::string& host, uint16_t port, std::string& error) {
  Error code;
  const auto address = asio::ip::make_address(host, code);
  if (code) {
    error = "'" + host + "' is no IP address; give one in --listen";
    return false;
  }
  code = listen_at(parts_->acceptor, {address, port});
  if (code) {
    error = "cannot listen at " + text_of({address, port}) + ": " + code.message() +
            "; --listen names another address";
  }
  return !code;
}

bool Network::listen_for_sockets(const std::string& host, uint16_t port, std::string& error) {
  Error code;
  const auto address = asio::ip::make_address(host, code);
  if (code) {
    error = "'" + host + "' is no IP address; give one in --grpc-listen";
    return false;
  }
  code = listen_at(parts_->sockets, {address, port});
  if (code) {
    error = "cannot listen at " + text_of({address, port}) + " for gRPC: " + code.message() +
            "; --grpc-listen names another address";
  }
  return !code;
}

bool Network::listen_control(const std::string& path, std::string& error) {
  const auto fails = [&](const std::string& why) {
    error = "cannot listen at the control socket " + path + ": " + why;
    return false;
  };
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return fails("the path is too long");
  if (stale(path)) ::unlink(path.c_str());
  base::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  // Nobody can connect before it listens, and then the file says who may.
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fails(std::strerror(errno));
  }
  parts_->control_path = path;
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return fails(std::strerror(errno));
  }
  Error code;
  parts_->control.assign(asio::local::stream_protocol(), socket.get(), code);
  if (code) return fails(code.message());
  (void)socket.release();
  return true;
}

bool Network::use_tls(const std::string& certificates, const std::string& key, std::string& error) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  Error code;
  ERR_clear_error();
  context->use_certificate_chain(asio::buffer(certificates), code);
  if (code) {
    error = "the TLS certificate is none in PEM: " + code.message();
    return false;
  }
  // A key with a passphrase would make the library ask for it at the terminal.
  context->set_password_callback([](size_t, auto) { return std::string(); }, code);
  context->use_private_key(asio::buffer(key), ssl::context::pem, code);
  if (code) {
    error = "the TLS key is not that of the certificate, in PEM and without a passphrase: " +
            code.message();
    return false;
  }
  parts_->tls = std::move(context);
  return true;
}

std::string Network::address() const {
  Error code;
  return (parts_->tls != nullptr ? "https://" : "http://") +
         text_of(parts_->acceptor.local_endpoint(code)) + "/";
}

std::string Network::sockets_address() const {
  Error code;
  return text_of(parts_->sockets.local_endpoint(code));
}

void Network::accept(Accepted accepted) {
  parts_->accepting = true;
  Parts* const parts = parts_.get();
  parts->accept(parts->acceptor, [parts, accepted](tcp::socket socket) {
    Error code;
    socket.set_option(tcp::no_delay(true), code);
    const std::string peer = text_of(socket.remote_endpoint(code));
    accepted(std::make_shared<Stream>(std::move(socket), peer, false, parts->tls));
  });
  if (!parts->control.is_open()) return;
  parts->accept(parts->control, [accepted](asio::local::stream_protocol::socket socket) {
    accepted(std::make_shared<Stream>(std::move(socket), "control", true, nullptr));
  });
}

void Network::accept_sockets(Taken taken) {
  parts_->accepting = true;
  parts_->accept(parts_->sockets, [taken = std::move(taken)](tcp::socket socket) {
    Error code;
    socket.set_option(tcp::no_delay(true), code);
    socket.non_blocking(true, code);
    base::FileDescriptor descriptor(socket.release(code));
    if (!code) taken(std::move(descriptor));
  });
}

void Network::stop_accepting() {
  parts_->accepting = false;
  Error ignored;
  parts_->acceptor.close(ignored);
  parts_->sockets.close(ignored);
  parts_->control.close(ignored);
  if (!parts_->control_path.empty()) ::unlink(parts_->control_path.c_str());
  parts_->control_path.clear();
}

void Network::post(std::function<void()> work) { asio::post(parts_->loop, std::move(work)); }

void Network::after(std::chrono::microseconds time, std::function<void()> work) {
  parts_->after(time, std::move(work));
}

void Network::every(std::chrono::microseconds period, std::function<void()> work) {
  parts_->after(period, [this, period, work = std::move(work)]() mutable {
    work();
    every(period, std::move(work));
  });
}

void Network::on_signals(const std::vector<int>& signals, std::function<void(int)> told) {
  for (const int signal : signals) parts_->signals.add(signal);
  parts_->signals.async_wait([this, told = std::move(told)](Error error, int signal) {
    if (error) return;
    told(signal);
    on_signals({}, told);
  });
}

void Network::run(std::chrono::milliseconds limit, int turns) {
  parts_->loop.run_one_for(limit);
  for (int turn = 0; turn < turns && parts_->loop.poll_one() != 0; ++turn) continue;
}

void Network::end() {
  parts_->ended = true;
  parts_->signals.cancel();
  parts_->loop.poll();
}

const char* reason_phrase(int status) {
  return http::obsolete_reason(static_cast<http::status>(status)).data();
}

}  // namespace neuron::serve
