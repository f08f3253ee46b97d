// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/shared_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
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
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver/base/format.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/transport/shared/doorbells.h"
#include "driver/emulator/transport/shared/peer_process.h"
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
// A process has 65,530 mappings unless the host was set up otherwise (vm.max_map_count), and a file
// in the midst of another mapping makes two. Some are left for everything else.
constexpr size_t kMostMappings = 60'000;
// Buffers of all calls under way together, twice what the largest call needs. A process that is
// alone has one call of 64 MiB at a time, or 16 of the 4 MiB that our client sends.
constexpr uint64_t kCallBytes = 256u << 20;
static_assert(kCallBytes > 2 * wire::kMaxData + (16u << 20));
// Messages of all clients that are not answered yet, together: a process that is alone has 256 of
// the largest.
constexpr uint64_t kPacketBytes = 64u << 20;
// How long a client that has its share of them is not listened to.
constexpr std::chrono::milliseconds kDeaf{5};
// How long to leave a socket alone when the process has run out of descriptors.
constexpr std::chrono::milliseconds kExhausted{100};

// Raises the limit of descriptors as far as the host lets it; how many there may be.
size_t room_for_files() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit wanted = {std::max(limit.rlim_cur, std::min(limit.rlim_max, kFiles)),
                         limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  const rlim_t files = std::min(limit.rlim_cur, kFiles);
  return files > kOwnFiles ? static_cast<size_t>(files - kOwnFiles) : 0;
}

class Server final : public SharedServer {
 public:
  Server(const Daemon& daemon, int listener, std::unique_ptr<Doorbells> doorbells)
      : io_(daemon.io),
        files_(room_for_files() / daemon.instances),
        listener_(daemon.io, listener),
        pause_(daemon.io),
        listening_(daemon.io),
        doorbells_(std::move(doorbells)),
        shared_{daemon.instance, workers_, *doorbells_, budget_, packets_, daemon.profile} {
    daemon.instance.files().allow(
        std::min(files_ - files_ / 2, kMostMappings / daemon.instances / 2));
  }

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
    Client(std::shared_ptr<Connection> made, base::FileDescriptor found,
           boost::asio::io_context& io)
        : connection(std::move(made)), watch(io, connection->socket()), process(io) {
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
    std::string why;
    try {
      std::optional<PeerProcess> peer = PeerProcess::of(fd, why);
      if (!peer) {
        constexpr service::Client kNobody = {0, ~uint32_t{0}, ~uint64_t{0}};
        if (!why.empty()) shared_.instance.log().write(kNobody, "neuron-emulatord: " + why);
        return;
      }
      end_predecessors(peer->client);
      if (!has_share(peer->client)) return;
      auto connection =
          std::make_shared<Connection>(shared_, std::move(socket), peer->client,
                                       [this] { open_.fetch_sub(1, std::memory_order_relaxed); });
      auto client = std::make_shared<Client>(std::move(connection), std::move(peer->process), io_);
      connections_.take(peer->client);
      try {
        clients_.insert(client);
      } catch (...) {
        connections_.give_back(peer->client);
        throw;
      }
      open_.fetch_add(1, std::memory_order_relaxed);
      watch_process(client);
      watch(client);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "neuron-emulatord: a client cannot be served: %s\n", failure.what());
    }
  }

  // A number that another process has by now: what the one before has here is over, whoever still
  // holds its sockets.
  void end_predecessors(const service::Client& now) {
    std::vector<ClientPointer> over;
    for (const ClientPointer& client : clients_) {
      const service::Client& before = client->connection->client();
      if (before.pid == now.pid && before.process != now.process) over.push_back(client);
    }
    for (const ClientPointer& client : over) end(client);
  }

  bool has_share(const service::Client& client) {
    if (connections_.has_share(client)) return true;
    // Said once, not at each attempt.
    if (std::exchange(refused_, client.process) == client.process) return false;
    shared_.instance.log().write(
        client,
        base::format(
            "neuron-emulatord: user {} has {} connections, and {} are left for "
            "all others; pid {} has its part, and its next ones are closed; raise the limit of "
            "open files if it needs them",
            client.user, connections_.taken_by_user(client),
            connections_.room() - connections_.taken(), client.pid));
    return false;
  }

  void watch(const ClientPointer& client) {
    try {
      client->watch.async_wait(stream_descriptor::wait_read,
                               [this, client](const error_code& failure) {
                                 if (failure) return;
                                 switch (client->connection->receive()) {
                                   case Connection::Received::kAll:
                                     return watch(client);
                                   case Connection::Received::kNoRoom:
                                     return watch_later(client);
                                   case Connection::Received::kOver:
                                     return forget(client);
                                 }
                               });
    } catch (const std::bad_alloc&) {
      end(client);
    }
  }

  // What it sends stays in its socket meanwhile, where it counts as its own.
  void watch_later(const ClientPointer& client) {
    try {
      deaf_.push_back(client);
      if (deaf_.size() == 1) listen_later();
    } catch (const std::bad_alloc&) {
      end(client);
    }
  }

  void listen_later() {
    listening_.expires_after(kDeaf);
    listening_.async_wait([this](const error_code& cancelled) {
      if (cancelled) return;
      for (const ClientPointer& client : std::exchange(deaf_, {})) {
        if (!clients_.contains(client)) continue;
        client->connection->has_room() ? watch(client) : watch_later(client);
      }
    });
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
    if (clients_.erase(client) != 0) connections_.give_back(client->connection->client());
  }

  void end(const ClientPointer& client) {
    client->connection->abandon();
    forget(client);
  }

  boost::asio::io_context& io_;
  const size_t files_;
  stream_descriptor listener_;
  boost::asio::steady_timer pause_;
  boost::asio::steady_timer listening_;  // runs while there are deaf_ ones
  std::vector<ClientPointer> deaf_;      // clients that are not watched, because they have no room
  std::unique_ptr<Doorbells> doorbells_;
  CallBudget budget_{kCallBytes};
  CallBudget packets_{kPacketBytes};
  std::atomic<unsigned> open_{0};
  const Shared shared_;
  std::unordered_set<ClientPointer> clients_;
  // Half of the files are for connections, the other one for memory that clients map.
  service::Shares connections_{files_ / 2 / kFilesOfConnection + 1};
  uint64_t refused_ = 0;           // the process that was told last that it has too many
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
