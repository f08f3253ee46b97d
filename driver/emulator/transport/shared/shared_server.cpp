// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/shared_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "driver/emulator/service/error.h"
#include "driver/emulator/transport/shared/doorbells.h"
#include "driver/emulator/transport/shared/shared_connection.h"
#include "driver/emulator/transport/shared/workers.h"

namespace neuron::transport {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

// Calls that may block at the same time, of all clients together.
constexpr unsigned kMostThreads = 1024;
// Descriptors: those that the daemon would like, has for itself, and needs for a connection (its
// socket, its process, and two of its doorbell).
constexpr rlim_t kFiles = 65536, kOwnFiles = 64, kFilesOfConnection = 4;
// How long to leave a socket alone when the process has run out of descriptors.
constexpr std::chrono::milliseconds kExhausted{100};

// Raises the limit of descriptors as far as the host lets it; how many connections that is.
size_t room_for_connections() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const rlimit wanted = {std::max(limit.rlim_cur, std::min(limit.rlim_max, kFiles)),
                         limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  const rlim_t files = std::min(limit.rlim_cur, kFiles);
  return files > kOwnFiles ? static_cast<size_t>((files - kOwnFiles) / kFilesOfConnection) + 1 : 1;
}

class Server final : public SharedServer {
 public:
  Server(const Daemon& daemon, int listener, std::unique_ptr<Doorbells> doorbells)
      : io_(daemon.io),
        listener_(daemon.io, listener),
        pause_(daemon.io),
        doorbells_(std::move(doorbells)),
        shared_{daemon.instance, workers_, *doorbells_, daemon.profile} {}

  ~Server() override {
    error_code ignored;
    listener_.close(ignored);
    for (const auto& watched : std::unordered_set(clients_)) end(watched);
    // Then the workers are joined; they close the sessions. The doorbells end after them.
  }

  unsigned connections() const override { return open_.load(std::memory_order_relaxed); }

  void accept() {
    listener_.async_wait(stream_descriptor::wait_read, [this](const error_code& failure) {
      if (failure) return;
      const int fd =
          ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        exhausted_ = false;
        welcome(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        // Said once, not at each attempt.
        if (!std::exchange(exhausted_, true)) {
          std::fprintf(stderr,
                       "neuron-emulatord: no client can be accepted with %zu connected: %s; raise "
                       "the limit of open files\n",
                       clients_.size(), std::strerror(errno));
        }
        pause_.expires_after(kExhausted);
        pause_.async_wait([this](const error_code& cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      accept();
    });
  }

 private:
  struct Client {
    std::shared_ptr<Connection> connection;
    stream_descriptor watch;    // of the connection's socket, which it does not own
    stream_descriptor process;  // that connected; closed where it cannot be watched
    Client(std::shared_ptr<Connection> made, boost::asio::io_context& io)
        : connection(std::move(made)), watch(io, connection->socket()), process(io) {
      base::FileDescriptor found(static_cast<int>(::syscall(SYS_pidfd_open, connection->pid(), 0)));
      error_code failure;
      if (found) process.assign(found.get(), failure);
      if (found && !failure) found.release();
    }
    ~Client() {
      if (watch.is_open()) watch.release();
    }
  };
  using ClientPointer = std::shared_ptr<Client>;

  // What fails for one client ends its connection, not the daemon.
  void welcome(int fd) {
    base::FileDescriptor socket(fd);
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
    if (!has_share(peer.pid)) return;
    try {
      auto connection = std::make_shared<Connection>(shared_, std::move(socket), peer.pid, [this] {
        open_.fetch_sub(1, std::memory_order_relaxed);
      });
      auto client = std::make_shared<Client>(std::move(connection), io_);
      ++connections_of_[peer.pid];
      clients_.insert(client);
      open_.fetch_add(1, std::memory_order_relaxed);
      watch_process(client);
      watch(client);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "neuron-emulatord: pid %d cannot be served: %s\n", peer.pid,
                   failure.what());
    }
  }

  // A process may have as many connections as are left for others.
  bool has_share(int32_t pid) {
    const auto own = connections_of_.find(pid);
    if (own == connections_of_.end() || own->second + clients_.size() < room_) return true;
    // Said once, not at each attempt.
    if (std::exchange(refused_, pid) != pid) {
      std::fprintf(stderr,
                   "neuron-emulatord: pid %d has %u connections, and %zu are left for all others; "
                   "its next ones are closed; raise the limit of open files if it needs them\n",
                   pid, own->second, room_ - std::min(room_, clients_.size()));
    }
    return false;
  }

  void watch(const ClientPointer& client) {
    try {
      client->watch.async_wait(stream_descriptor::wait_read,
                               [this, client](const error_code& failure) {
                                 if (failure) return;
                                 if (client->connection->receive()) {
                                   watch(client);
                                 } else {
                                   forget(client);
                                 }
                               });
    } catch (const std::bad_alloc&) {
      end(client);
    }
  }

  // The end of the process ends its connection, although a child that it has forked may still have
  // the socket.
  void watch_process(const ClientPointer& client) {
    if (!client->process.is_open()) return;
    try {
      client->process.async_wait(stream_descriptor::wait_read,
                                 [this, client](const error_code& failure) {
                                   if (!failure && clients_.contains(client)) end(client);
                                 });
    } catch (const std::bad_alloc&) {
      // Then the socket tells, once every process that has it has closed it.
    }
  }

  void forget(const ClientPointer& client) {
    client->watch.release();
    error_code ignored;
    client->process.close(ignored);
    if (clients_.erase(client) == 0) return;
    const auto own = connections_of_.find(client->connection->pid());
    if (own != connections_of_.end() && --own->second == 0) connections_of_.erase(own);
  }

  void end(const ClientPointer& client) {
    client->connection->abandon();
    forget(client);
  }

  boost::asio::io_context& io_;
  stream_descriptor listener_;
  boost::asio::steady_timer pause_;
  std::unique_ptr<Doorbells> doorbells_;
  std::atomic<unsigned> open_{0};
  const Shared shared_;
  std::unordered_set<ClientPointer> clients_;
  std::unordered_map<int32_t, unsigned> connections_of_;  // by process
  const size_t room_ = room_for_connections();
  int32_t refused_ = -1;           // the process that was told last that it has too many
  bool exhausted_ = false;         // no descriptor was left for the last client
  Workers workers_{kMostThreads};  // last: its threads use everything above
};

}  // namespace

std::unique_ptr<SharedServer> SharedServer::start(const Daemon& daemon, int listener,
                                                  std::string& error) {
  const int own = ::fcntl(listener, F_DUPFD_CLOEXEC, 3);
  if (own < 0) {
    error = std::string("the listening socket cannot be used: ") + std::strerror(errno);
    return nullptr;
  }
  // A client that gives up between the wake-up and accept must not block the event loop.
  (void)::fcntl(own, F_SETFL, O_NONBLOCK);
  std::unique_ptr<Server> server;
  try {
    auto doorbells = Doorbells::create();
    if (!doorbells) {
      error = service::last_error();
      ::close(own);
      return nullptr;
    }
    server = std::make_unique<Server>(daemon, own, std::move(doorbells));
    server->accept();
  } catch (const std::exception& failure) {
    error = std::string("clients cannot be served: ") + failure.what() +
            "; lift the limits of threads and of address space (ulimit -u, ulimit -v)";
    return nullptr;
  }
  return server;
}

}  // namespace neuron::transport
