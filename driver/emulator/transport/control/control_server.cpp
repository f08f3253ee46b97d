// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/control/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/basic_seq_packet_socket.hpp>
#include <boost/asio/generic/seq_packet_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>
#include <vector>

#include "driver/emulator/transport/control/control.pb.h"
#include "driver/emulator/transport/control/control_handler.h"

namespace neuron::transport {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::seq_packet_protocol;
using Error = boost::system::error_code;

constexpr size_t kMostClients = 16;
constexpr size_t kAlwaysFits = 1024;
constexpr auto kPatience = std::chrono::seconds(10);     // with a client that says nothing
constexpr auto kPause = std::chrono::milliseconds(100);  // when no descriptor is left

class ListeningServer final : public ControlServer {
 public:
  ListeningServer(int listener, std::function<std::string(std::string_view)> answer)
      : answer_(std::move(answer)), listener_(io_, listener), pause_(io_) {
    accept();
    thread_ = std::thread([this] { run(); });
  }
  ~ListeningServer() override {
    io_.stop();
    thread_.join();
  }

 private:
  struct Client {
    explicit Client(asio::io_context& io) : socket(io), timer(io) {}
    Protocol::socket socket;
    asio::steady_timer timer;
    std::vector<char> packet;
    std::string answer;
  };
  using Place = std::list<Client>::iterator;

  void run() {
    // bounded: ends when the destructor stops the loop
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception&) {
        // Out of memory to accept or to forget a client: the loop serves the others.
      }
    }
  }

  void accept() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const Error& failure) {
      if (failure) return;
      const int fd = ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        welcome(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        pause_.expires_after(kPause);
        pause_.async_wait([this](const Error& stopped) {
          if (!stopped) accept();
        });
        return;
      }
      accept();
    });
  }

  // Out of memory for one client ends its connection.
  void welcome(int fd) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    const bool known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (!known || (peer.uid != ::geteuid() && peer.uid != 0) || clients_.size() >= kMostClients) {
      ::close(fd);
      return;
    }
    // A packet must fit the buffer. Without a privilege the kernel gives less (net.core.wmem_max).
    const int room = static_cast<int>(kMostControlBytes);
    if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0) {
      (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    }
    const Place place = clients_.emplace(clients_.end(), io_);
    Error failure;
    place->socket.assign(Protocol(AF_UNIX, 0), fd, failure);
    if (failure) {
      ::close(fd);
      clients_.erase(place);
      return;
    }
    serve(place, [&] { receive(place); });
  }

  template <typename Step>
  void serve(Place place, const Step& step) {
    try {
      step();
    } catch (const std::exception&) {
      forget(place);
    }
  }

  // Every operation of a client has the timer beside it; closing the socket ends the operation,
  // whose handler then forgets the client.
  void watch(Place place) {
    place->timer.expires_after(kPatience);
    place->timer.async_wait([place](const Error& stopped) {
      Error ignored;
      if (!stopped) place->socket.close(ignored);
    });
  }
  void forget(Place place) {
    // The timer's handler may be queued already and names the client: it goes after it.
    place->timer.cancel();
    Error ignored;
    place->socket.close(ignored);
    asio::post(io_, [this, place] { clients_.erase(place); });
  }

  void receive(Place place) {
    place->packet.resize(kMostControlBytes + 1);
    watch(place);
    place->socket.async_receive(asio::buffer(place->packet), flags_,
                                [this, place](const Error& failure, size_t bytes) {
                                  if (failure || bytes == 0) return forget(place);
                                  serve(place, [&] {
                                    place->answer = answer_({place->packet.data(), bytes});
                                    place->packet = {};
                                    send(place);
                                  });
                                });
  }
  void send(Place place) {
    watch(place);
    place->socket.async_send(
        asio::buffer(place->answer), 0, [this, place](const Error& failure, size_t) {
          if (failure == asio::error::message_size && place->answer.size() > kAlwaysFits) {
            return serve(place, [&] { refuse(place); });
          }
          if (failure) return forget(place);
          serve(place, [&] { receive(place); });
        });
  }

  void refuse(Place place) {
    control::Response response;
    response.set_error(EMSGSIZE);
    response.set_message("the answer has " + std::to_string(place->answer.size()) +
                         " bytes, more than a socket of the daemon's user takes");
    place->answer = response.SerializeAsString();
    send(place);
  }

  asio::io_context io_{1};
  const std::function<std::string(std::string_view)> answer_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;
  std::list<Client> clients_;
  asio::socket_base::message_flags flags_ = 0;
  std::thread thread_;
};

}  // namespace

std::string control_path(const std::string& socket_path) { return socket_path + ".control"; }

std::unique_ptr<ControlServer> ControlServer::start(
    int listener, std::function<std::string(std::string_view)> answer, std::string& error) {
  try {
    // The loop asks for readiness before it accepts; a client may be gone again by then.
    (void)::fcntl(listener, F_SETFL, ::fcntl(listener, F_GETFL) | O_NONBLOCK);
    return std::make_unique<ListeningServer>(listener, std::move(answer));
  } catch (const std::exception& failure) {
    error = std::string("the control channel cannot be started: ") + failure.what();
    return nullptr;
  }
}

std::unique_ptr<ControlServer> ControlServer::start(const Daemon& daemon, int listener,
                                                    std::function<unsigned()> connections,
                                                    std::string& error) {
  // Shared, as a function must be copyable; the server's is the only copy that lives on.
  const auto handler =
      std::make_shared<ControlHandler>(daemon.instance, daemon.socket_path, std::move(connections));
  return start(
      listener, [handler](std::string_view packet) { return handler->answer(packet); }, error);
}

}  // namespace neuron::transport
