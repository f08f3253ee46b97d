// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/pod_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "driver/base/format.h"
#include "driver/base/random_bytes.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/transport/shared/listener.h"
#include "driver/profiles/topology.h"

namespace neuron::transport {
namespace {

namespace asio = boost::asio;

constexpr int kPatience_ms = 1000;  // with a daemon that accepts and says nothing
// How long to leave the socket alone when the process has run out of descriptors.
constexpr std::chrono::milliseconds kExhausted{100};
constexpr char kMagic[8] = {'n', 'd', '-', 'p', 'o', 'd', '-', '1'};

// What a node says, both ends on one host.
struct Record {
  char magic[8];
  uint64_t serial;
  uint32_t nodes;
  uint32_t node;
  uint32_t type;
  uint32_t reserved;
};

std::string path_of(const std::string& folder, unsigned node) {
  return folder + "/node-" + std::to_string(node);
}

bool is_trusted(uid_t user) { return user == ::geteuid() || user == 0; }

// Why the nodes of a pod must not meet in a folder; empty: they may. Whoever may write to it could
// keep nodes from their places.
std::string why_unsafe(const std::string& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) {
    return std::string("there is no such folder: ") + std::strerror(errno);
  }
  if (!S_ISDIR(status.st_mode)) return "it is no folder";
  if (!is_trusted(status.st_uid)) {
    return base::format(
        "it belongs to user {}, who could put sockets into the places of nodes; use a folder of "
        "user {}, whose this daemon is",
        status.st_uid, ::geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others than its user may write to it, and could put sockets into the places of nodes; "
           "take that from them (chmod go-w), or make a folder of its own for the UltraServer";
  }
  return {};
}

struct Answer {
  std::optional<uint64_t> serial;  // empty: nobody listens, or it is no node of such a pod
  std::optional<uid_t> stranger;   // who listens instead
};

Answer ask(const std::string& folder, unsigned node, const Record& own) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = path_of(folder, node);
  if (path.size() >= sizeof(address.sun_path)) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const base::FileDescriptor closes(fd);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return {};
  }
  // Of the process that listens, when it began to.
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  if (!is_trusted(peer.uid)) return {.serial = {}, .stranger = peer.uid};
  Record said = {};
  pollfd wanted{fd, POLLIN, 0};
  const bool good =
      ::poll(&wanted, 1, kPatience_ms) > 0 &&
      ::recv(fd, &said, sizeof(said), MSG_TRUNC) == static_cast<ssize_t>(sizeof(said)) &&
      std::memcmp(said.magic, kMagic, sizeof(kMagic)) == 0 && said.nodes == own.nodes &&
      said.type == own.type && said.node == node;
  if (!good) return {};
  return {.serial = said.serial, .stranger = {}};
}

// The questions of one election after the other; a stranger is told of once until the node itself
// answers.
class Questions {
 public:
  Questions(const std::string& folder, const Record& own)
      : folder_(folder), own_(own), told_(own.nodes) {}

  std::optional<uint64_t> operator()(unsigned node) {
    const Answer answer = ask(folder_, node, own_);
    if (answer.serial) told_[node] = false;
    if (answer.stranger && !told_[node]) {
      told_[node] = true;
      std::fprintf(stderr,
                   "neuron-emulatord: at %s listens a process of user %u in the place of node %u, "
                   "and is not believed: nodes are daemons of user %u or root; remove the socket\n",
                   path_of(folder_, node).c_str(), *answer.stranger, node, ::geteuid());
    }
    return answer.serial;
  }

 private:
  std::string folder_;
  Record own_;
  std::vector<bool> told_;  // by node
};

class Link final : public PodLink {
 public:
  Link(asio::io_context& io, std::unique_ptr<Listener> listener, const Record& record)
      : record_(record), path_(std::move(listener)), listener_(io, path_->release()), pause_(io) {
    // Who has asked may be gone again before it is accepted, and must not block the event loop.
    listener_.non_blocking(true);
    serve();
  }

 private:
  void serve() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code& failure) {
                           if (failure) return;
                           answer() ? serve() : serve_later();
                         });
  }
  void serve_later() {
    pause_.expires_after(kExhausted);
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) serve();
    });
  }
  // False: the process has no descriptor left, and the socket stays readable.
  bool answer() {
    const int fd = ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      const int reason = errno;
      if (reason != EMFILE && reason != ENFILE && reason != ENOMEM && reason != ENOBUFS) {
        return true;
      }
      // Said once, not at each attempt.
      if (!std::exchange(exhausted_, true)) {
        std::fprintf(stderr,
                     "neuron-emulatord: no other node of the UltraServer can be answered at %s: "
                     "%s; raise the limit of open files\n",
                     path_->path().c_str(), std::strerror(reason));
      }
      return false;
    }
    exhausted_ = false;
    // It fits into the buffer of a new connection; who has gone meanwhile is not told.
    (void)!::send(fd, &record_, sizeof(record_), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::close(fd);
    return true;
  }

  const Record record_;
  const std::unique_ptr<Listener> path_;  // unlinks it in the end
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;
  bool exhausted_ = false;  // no descriptor was left for the last one
};

}  // namespace

std::unique_ptr<PodLink> PodLink::join(const Daemon& daemon, const std::string& folder,
                                       unsigned node, std::string& error) {
  profiles::NodeProfile profile;
  if (!profiles::load_topology(daemon.profile, profile, error)) return nullptr;
  if (profile.pod == profiles::PodType::kNone || profile.pod_nodes < 2) {
    error = "--pod: " + profile.name +
            " is no node of an UltraServer; trn2-ultraserver and trn3-ultraserver-gen1 are";
    return nullptr;
  }
  if (node >= profile.pod_nodes) {
    error = "--pod-node " + std::to_string(node) + ": an UltraServer of " + profile.name +
            " has nodes 0 to " + std::to_string(profile.pod_nodes - 1);
    return nullptr;
  }
  // All nodes, the one with the longest number too.
  if (path_of(folder, profile.pod_nodes - 1).size() >= sizeof(sockaddr_un{}.sun_path)) {
    error =
        "--pod " + folder + ": a socket's path has at most 107 characters; choose a shorter one";
    return nullptr;
  }
  if (const std::string why = why_unsafe(folder); !why.empty()) {
    error = "--pod " + folder + ": " + why;
    return nullptr;
  }
  Record record = {};
  std::memcpy(record.magic, kMagic, sizeof(kMagic));
  record.nodes = profile.pod_nodes;
  record.node = node;
  record.type = static_cast<uint32_t>(profile.pod);
  uint8_t serial[8];
  if (!base::random_bytes(serial)) {
    error = "--pod: the system has no randomness for the serial number of the node";
    return nullptr;
  }
  std::memcpy(&record.serial, serial, sizeof(serial));
  auto listener = Listener::open(path_of(folder, node), "UltraServer's node", error);
  if (!listener) return nullptr;
  auto link = std::make_unique<Link>(daemon.io, std::move(listener), record);
  service::PodWiring wiring;
  wiring.type = static_cast<uint8_t>(profile.pod);
  wiring.nodes = record.nodes;
  wiring.node = node;
  wiring.serial = record.serial;
  wiring.ask = Questions(folder, record);
  wiring.report = [](const std::string& sentence) {
    std::fprintf(stderr, "neuron-emulatord: %s\n", sentence.c_str());
  };
  if (daemon.instance.pod().join(std::move(wiring)) != 0) {
    error = std::string("--pod: ") + service::last_error();
    return nullptr;
  }
  return link;
}

}  // namespace neuron::transport
