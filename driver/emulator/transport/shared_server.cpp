// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

namespace neuron::transport {
namespace {

class Server final : public SharedServer {
 public:
  Server(const Daemon& daemon, int listener) : listener_(daemon.io, listener) {}

  unsigned connections() const override { return 0; }

  void accept() {
    listener_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                         [this](const boost::system::error_code& failure) {
                           if (failure) return;
                           const int fd =
                               ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
                           if (fd >= 0) ::close(fd);
                           accept();
                         });
  }

 private:
  boost::asio::posix::stream_descriptor listener_;
};

}  // namespace

std::unique_ptr<SharedServer> SharedServer::start(const Daemon& daemon, int listener,
                                                  std::string& error) {
  const int own = ::dup(listener);
  if (own < 0) {
    error = std::string("the listening socket cannot be used: ") + std::strerror(errno);
    return nullptr;
  }
  auto server = std::make_unique<Server>(daemon, own);
  server->accept();
  return server;
}

}  // namespace neuron::transport
