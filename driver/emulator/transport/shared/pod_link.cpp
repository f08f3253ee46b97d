// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/pod_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "driver/base/random_bytes.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/transport/shared/listener.h"
#include "driver/profiles/topology.h"

namespace neuron::transport {
namespace {

namespace asio = boost::asio;

constexpr int kPatience_ms = 1000;  // with a daemon that accepts and says nothing
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

// Empty: nobody listens, or it is no node of such a pod.
std::optional<uint64_t> ask(const std::string& folder, unsigned node, const Record& own) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = path_of(folder, node);
  if (path.size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  Record said = {};
  pollfd wanted{fd, POLLIN, 0};
  const bool heard =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::poll(&wanted, 1, kPatience_ms) > 0 &&
      ::recv(fd, &said, sizeof(said), MSG_TRUNC) == static_cast<ssize_t>(sizeof(said));
  ::close(fd);
  const bool good = heard && std::memcmp(said.magic, kMagic, sizeof(kMagic)) == 0 &&
                    said.nodes == own.nodes && said.type == own.type && said.node == node;
  return good ? std::optional(said.serial) : std::nullopt;
}

class Link final : public PodLink {
 public:
  Link(asio::io_context& io, std::unique_ptr<Listener> listener, const Record& record)
      : record_(record), path_(std::move(listener)), listener_(io, path_->release()) {
    serve();
  }

 private:
  void serve() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code& failure) {
                           if (failure) return;
                           answer();
                           serve();
                         });
  }
  void answer() {
    const int fd = ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    // It fits into the buffer of a new connection; who has gone meanwhile is not told.
    (void)!::send(fd, &record_, sizeof(record_), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::close(fd);
  }

  const Record record_;
  const std::unique_ptr<Listener> path_;  // unlinks it in the end
  asio::posix::stream_descriptor listener_;
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
  wiring.ask = [folder, record](unsigned other) { return ask(folder, other, record); };
  wiring.report = [](const std::string& sentence) {
    std::fprintf(stderr, "neuron-emulatord: %s\n", sentence.c_str());
  };
  daemon.instance.pod().join(std::move(wiring));
  return link;
}

}  // namespace neuron::transport
