// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>
#include <system_error>
#include <thread>

namespace neuron::ccom {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Code = boost::system::error_code;

constexpr size_t kMostQueued = 256u << 20;  // bytes to a peer that does not read

Address address_of_endpoint(const tcp::endpoint& endpoint) {
  SystemAddress system;
  std::memcpy(system.bytes.data(), endpoint.data(), endpoint.size());
  system.length = static_cast<uint32_t>(endpoint.size());
  return address_of(system);
}

tcp::endpoint endpoint_of(const Address& address) {
  const SystemAddress system = system_address(address);
  tcp::endpoint endpoint;
  endpoint.resize(system.length);
  std::memcpy(endpoint.data(), system.bytes.data(), system.length);
  return endpoint;
}

// This thread works for microseconds, but must not queue behind spinning ranks. With a short slice
// the scheduler runs it soon after it wakes. Older kernels refuse the request, which does no harm.
void ask_for_short_slices() {
  struct {
    uint32_t size = 48;
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0, deadline = 0, period = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0 &&
      attributes.policy == 0) {
    attributes.runtime = 100'000;  // ns
    static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
  }
}

class TcpLink : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  // `session`: null for a connection that is not encrypted.
  TcpLink(tcp::socket socket, std::unique_ptr<SecureSession> session)
      : socket_(std::move(socket)), session_(std::move(session)) {
    Code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    local_ = address_of_endpoint(socket_.local_endpoint(ignored));
    remote_ = address_of_endpoint(socket_.remote_endpoint(ignored));
  }

  void listen(Received received, Closed closed) override {
    received_ = std::move(received);
    closed_ = std::move(closed);
    if (reading_) {
      return;
    }
    reading_ = true;
    if (session_ == nullptr) {
      read_header();
    } else if (session_->begin()) {
      send_encrypted();
      read_encrypted();
    } else {
      fail(session_->reason());
    }
  }

  void send(MessageType type, const Bytes& body) override {
    if (over_) {
      return;
    }
    auto frame = std::make_shared<Bytes>(FrameHeader::kBytes + body.size());
    encode(FrameHeader{static_cast<uint32_t>(body.size()), type}, frame->data());
    std::copy(body.begin(), body.end(), frame->begin() + FrameHeader::kBytes);
    if (session_ == nullptr) {
      enqueue(std::move(frame));
    } else if (session_->send(*frame)) {
      send_encrypted();
    } else {
      fail(session_->reason());
    }
  }

  void limit(uint32_t bytes) override { limit_ = bytes; }

  void close(bool flush) override {
    received_ = nullptr;
    closed_ = nullptr;
    closing_ = true;
    if (!flush || idle()) {
      end();
    }
  }

  Address local() const override { return local_; }
  Address remote() const override { return remote_; }
  bool idle() const override {
    return queue_.empty() && (session_ == nullptr || !session_->has_waiting());
  }

 private:
  void enqueue(std::shared_ptr<Bytes> bytes) {
    queued_ += bytes->size();
    if (queued_ > kMostQueued) {
      fail("it does not take what is sent to it");
      return;
    }
    queue_.push_back(std::move(bytes));
    if (queue_.size() == 1) {
      write();
    }
  }

  void send_encrypted() {
    Bytes bytes = session_->give_to_socket();
    if (!bytes.empty()) {
      enqueue(std::make_shared<Bytes>(std::move(bytes)));
    }
  }

  void read_encrypted() {
    if (chunk_.empty()) {
      chunk_.resize(kChunk);
    }
    socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](const Code& error,
                                                                              size_t count) {
      if (self->over_) {
        return;
      }
      if (error) {
        self->fail(self->session_->ready() ? self->reason(error)
                                           : self->reason(error) +
                                                 " before both sides had proven the key of the "
                                                 "encryption; all ranks need the same CCOM_TLS and "
                                                 "the same secret");
      } else if (!self->session_->take_from_socket(std::span(self->chunk_.data(), count))) {
        // The other side is told why as well, as far as the protocol does that.
        self->send_encrypted();
        self->fail(self->session_->reason() +
                   " (all ranks need the same CCOM_TLS and the same secret)");
      } else if (self->send_encrypted(); self->take_frames() && !self->over_) {
        self->read_encrypted();
      }
    });
  }

  // All frames of which every byte has come. False: the link has failed.
  bool take_frames() {
    while (!over_) {
      const bool in_header = got_ < header_.size();
      std::byte* to = in_header ? header_.data() + got_ : body_.data() + (got_ - header_.size());
      const size_t most = in_header ? header_.size() - got_ : body_.size() + header_.size() - got_;
      size_t count = 0;
      if (!session_->receive(to, most, count)) {
        fail(session_->reason());
        return false;
      }
      got_ += count;
      FrameHeader header;
      if (got_ == header_.size() && in_header) {
        if (!decode(header_, header) || header.length > limit_) {
          fail("it sent no frame of this protocol");
          return false;
        }
        body_.resize(header.length);
      }
      if (got_ < header_.size() || got_ < header_.size() + body_.size()) {
        if (count == 0) {
          return true;
        }
        continue;
      }
      got_ = 0;
      static_cast<void>(decode(header_, header));  // it is one
      deliver(header.type);
      if (over_ && session_ != nullptr) {
        return false;
      }
    }
    return false;
  }

  void deliver(MessageType type) {
    if (received_) {
      // A copy, because the callee may replace or drop the receiver.
      const Received received = received_;
      received(type, std::exchange(body_, {}));
    }
  }

  void read_header() {
    asio::async_read(socket_, asio::buffer(header_),
                     [self = shared_from_this()](const Code& error, size_t) {
                       if (error) {
                         self->fail(self->reason(error));
                         return;
                       }
                       self->read_body();
                     });
  }

  void read_body() {
    FrameHeader header;
    if (!decode(header_, header) || header.length > limit_) {
      constexpr auto kTlsHandshake = std::byte{0x16};
      fail(header_[0] == kTlsHandshake
               ? "it sent no frame of this protocol, but the beginning of TLS; all ranks need the "
                 "same CCOM_TLS"
               : "it sent no frame of this protocol");
      return;
    }
    body_.resize(header.length);
    asio::async_read(socket_, asio::buffer(body_),
                     [self = shared_from_this(), type = header.type](const Code& error, size_t) {
                       if (error) {
                         self->fail(self->reason(error));
                         return;
                       }
                       self->deliver(type);
                       if (!self->over_) {
                         self->read_header();
                       }
                     });
  }

  void write() {
    asio::async_write(socket_, asio::buffer(*queue_.front()),
                      [self = shared_from_this()](const Code& error, size_t) {
                        if (error) {
                          self->fail(self->reason(error));
                          return;
                        }
                        self->queued_ -= self->queue_.front()->size();
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) {
                          self->write();
                        } else if (self->closing_ && self->idle()) {
                          self->end();
                        }
                      });
  }

  std::string reason(const Code& error) const {
    return error == asio::error::eof ? "the connection was closed" : error.message();
  }

  void fail(const std::string& why) {
    if (over_) {
      return;
    }
    end();
    if (closed_) {
      const Closed closed = std::exchange(closed_, nullptr);
      received_ = nullptr;
      closed(why);
    }
  }

  void end() {
    if (!over_) {
      over_ = true;
      Code ignored;
      socket_.close(ignored);
    }
  }

  static constexpr size_t kChunk = 16384;

  tcp::socket socket_;
  const std::unique_ptr<SecureSession> session_;
  Bytes chunk_;     // encrypted, as it came
  size_t got_ = 0;  // bytes of the frame that comes, if they are encrypted
  Address local_, remote_;
  Received received_;
  Closed closed_;
  std::array<std::byte, FrameHeader::kBytes> header_{};
  Bytes body_;
  std::deque<std::shared_ptr<Bytes>> queue_;
  size_t queued_ = 0;
  uint32_t limit_ = kStrangerBytes;
  bool reading_ = false;
  bool closing_ = false;
  bool over_ = false;
};

struct Listener {
  tcp::acceptor acceptor;
  std::function<void(LinkPointer)> accepted;
  bool paused = false;
  bool waiting = false;
};

class AsioLoop : public Loop {
 public:
  explicit AsioLoop(std::unique_ptr<SecureChannel> channel)
      : channel_(std::move(channel)), guard_(asio::make_work_guard(context_)) {}
  ~AsioLoop() override {
    stop();
    // Links and their callbacks may own one another, so they are cut here.
    for (const auto& weak : links_) {
      if (const auto link = weak.lock()) {
        link->close(false);
      }
    }
  }

  Result<void> start() {
    // Signals go to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<void> result;
    try {
      thread_ = std::thread([this] {
        pthread_setname_np(pthread_self(), "ccom-bootstrap");
        ask_for_short_slices();
        context_.run();
      });
    } catch (const std::system_error& error) {
      result = system_error(error.code().value(), "cannot start the thread of the bootstrap");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return result;
  }

  void post(Task task) override { asio::post(context_, std::move(task)); }

  void stop() override {
    context_.stop();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  uint64_t after(Milliseconds time, Task task) override {
    const uint64_t number = ++next_;
    auto [timer, inserted] = timers_.emplace(number, asio::steady_timer(context_, time));
    timer->second.async_wait([this, number, task = std::move(task)](const Code& error) {
      if (timers_.erase(number) != 0 && !error) {
        task();
      }
    });
    return number;
  }

  void cancel(uint64_t timer) override { timers_.erase(timer); }

  uint64_t accept(int listener, std::function<void(LinkPointer)> accepted) override {
    const uint64_t number = ++next_;
    auto entry = std::make_shared<Listener>(
        Listener{tcp::acceptor(context_), std::move(accepted), false, false});
    SystemAddress system;
    system.length = system.bytes.size();
    getsockname(listener, system.get(), &system.length);
    Code error;
    entry->acceptor.assign(address_of(system).v6 ? tcp::v6() : tcp::v4(), listener, error);
    if (error) {
      ::close(listener);
      return number;
    }
    listeners_[number] = entry;
    accept_next(entry);
    return number;
  }

  void pause_accepting(uint64_t listener, bool paused) override {
    const auto found = listeners_.find(listener);
    if (found != listeners_.end()) {
      found->second->paused = paused;
      accept_next(found->second);
    }
  }

  void stop_accepting(uint64_t listener) override {
    const auto found = listeners_.find(listener);
    if (found != listeners_.end()) {
      Code ignored;
      found->second->acceptor.close(ignored);
      listeners_.erase(found);
    }
  }

  void connect(const Address& address, Milliseconds time,
               std::function<void(LinkPointer, const std::string&, bool)> connected) override {
    auto socket = std::make_shared<tcp::socket>(context_);
    const auto text = text_of(address);
    const uint64_t timer = after(time, [socket] {
      Code ignored;
      socket->close(ignored);  // ends the connect below
    });
    socket->async_connect(endpoint_of(address),
                          [this, socket, timer, text, connected](const Code& error) {
                            const bool late = timers_.erase(timer) == 0;
                            if (!error && !late) {
                              connected(make_link(std::move(*socket), false), "", false);
                              return;
                            }
                            connected(nullptr,
                                      format("no connection to {}: {}", text,
                                             late ? "no answer in time" : error.message().c_str()),
                                      error == asio::error::connection_refused);
                          });
  }

  void watch(int descriptor, Task readable) override {
    auto watched = std::make_shared<asio::posix::stream_descriptor>(context_);
    Code error;
    watched->assign(descriptor, error);
    if (error) {
      ::close(descriptor);
      return;
    }
    watched->async_wait(asio::posix::stream_descriptor::wait_read,
                        [watched, readable = std::move(readable)](const Code& failed) {
                          if (!failed) {
                            readable();
                          }
                        });
  }

 private:
  LinkPointer make_link(tcp::socket socket, bool accepted) {
    auto link = std::make_shared<TcpLink>(
        std::move(socket), channel_ != nullptr ? channel_->session(accepted) : nullptr);
    if (links_.size() >= 2 * live_ + 64) {
      std::erase_if(links_, [](const std::weak_ptr<TcpLink>& weak) { return weak.expired(); });
      live_ = links_.size();
    }
    links_.push_back(link);
    return link;
  }

  void accept_next(const std::shared_ptr<Listener>& entry) {
    if (entry->paused || entry->waiting) {
      return;
    }
    entry->waiting = true;
    entry->acceptor.async_accept([this, entry](const Code& error, tcp::socket socket) {
      entry->waiting = false;
      if (!entry->acceptor.is_open()) {
        return;
      }
      if (error) {
        // Descriptors ran out, or the connection went away. Others still wait, so it tries again.
        after(Milliseconds(20), [this, entry] {
          if (entry->acceptor.is_open()) {
            accept_next(entry);
          }
        });
        return;
      }
      entry->accepted(make_link(std::move(socket), true));
      accept_next(entry);
    });
  }

  const std::unique_ptr<SecureChannel> channel_;  // outlives the links; null: none
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::map<uint64_t, asio::steady_timer> timers_;
  std::map<uint64_t, std::shared_ptr<Listener>> listeners_;
  std::vector<std::weak_ptr<TcpLink>> links_;
  size_t live_ = 0;  // when links_ was last tidied
  uint64_t next_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Loop>> Loop::make(std::unique_ptr<SecureChannel> channel) {
  try {
    auto loop = std::make_unique<AsioLoop>(std::move(channel));
    NEURON_CHECK(loop->start());
    return std::unique_ptr<Loop>(std::move(loop));
  } catch (const boost::system::system_error& error) {
    return system_error(error.code().value(), "cannot set up the sockets of the bootstrap");
  }
}

}  // namespace neuron::ccom
