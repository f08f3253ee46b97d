// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/socket_worker.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "driver/base/file_descriptor.h"

namespace neuron::bench {
namespace {

constexpr uint64_t kShortBytes = 16 << 10;
constexpr size_t kPiece = 256 << 10;  // of one call
constexpr double kPatience = 10;      // seconds until all have met

class SocketWorker {
 public:
  SocketWorker(board& orders, const SocketWork& work)
      : orders_(orders),
        work_(work),
        ranks_(static_cast<uint32_t>(work.addresses.size()) * work.each),
        sent_(orders.most),
        received_(orders.most),
        sockets_(ranks_) {}

  void run() {
    if (!meet_all()) return fail("could not meet the ranks of other hosts");
    uint32_t last = 0, meetings = 0;
    __atomic_add_fetch(&orders_.ready, 1, __ATOMIC_ACQ_REL);
    while (board_wait(&orders_, &last) != BOARD_END) {
      board_meet(&orders_, ranks_, &meetings);
      const double begin = board_now();
      for (uint32_t i = 0; i < orders_.inner; ++i) {
        if (!move()) return fail("lost a connection");
      }
      orders_.seconds[work_.rank] = board_now() - begin;
      if (is_silent()) sleep_until_others_end(meetings);
      board_meet(&orders_, ranks_, &meetings);
      __atomic_add_fetch(&orders_.finished, 1, __ATOMIC_ACQ_REL);
    }
  }

 private:
  void fail(const char* what) {
    std::fprintf(stderr, "plain sockets, rank %u %s: %s\n", work_.rank, what, std::strerror(errno));
    orders_.failed = 1;
  }

  struct Flow {
    int socket;
    uint64_t to_send, to_receive;
  };

  uint32_t host_of(uint32_t rank) const { return rank / work_.each; }
  uint32_t hosts() const { return ranks_ / work_.each; }
  bool is_short() const {
    return orders_.operation == BOARD_ALL_REDUCE && orders_.bytes <= kShortBytes;
  }
  // Ranks that speak for their hosts are on different processors, if there are two.
  uint32_t speaker(uint32_t host) const { return host * work_.each + host % work_.each; }
  bool is_silent() const { return is_short() && work_.rank != speaker(host_of(work_.rank)); }

  // So that it does not take a processor from those that are measured.
  void sleep_until_others_end(uint32_t meetings) const {
    const uint32_t wanted = meetings * ranks_ + hosts();
    while (static_cast<int32_t>(__atomic_load_n(&orders_.meeting, __ATOMIC_ACQUIRE) - wanted) < 0) {
      usleep(200);
    }
  }

  bool move() {
    const uint64_t bytes = orders_.bytes;
    if (is_short()) return is_silent() || exchange(bytes, true);
    switch (orders_.operation) {
      case BOARD_ALL_REDUCE:
        return exchange(bytes / ranks_, false) && exchange(bytes / ranks_, false);
      case BOARD_ALL_GATHER:  // what this rank has, to each other host
        return exchange(bytes / ranks_, false);
      default:  // what this rank has for all ranks of another host
        return exchange(bytes / hosts(), false);
    }
  }

  // `bytes` to and from a rank of each other host.
  bool exchange(uint64_t bytes, bool speakers) {
    Flow flows[BOARD_MAX_RANKS];
    uint32_t count = 0;
    for (uint32_t host = 0; host < hosts(); ++host) {
      if (host == host_of(work_.rank)) continue;
      const uint32_t peer = speakers ? speaker(host) : host * work_.each + work_.rank % work_.each;
      flows[count++] = {sockets_[peer].get(), bytes, bytes};
    }
    for (bool busy = true; busy;) {
      busy = false;
      bool moved = false;
      for (uint32_t i = 0; i < count; ++i) {
        Flow& flow = flows[i];
        const int64_t out = some(flow.to_send, [&](size_t most) {
          return send(flow.socket, sent_.data() + (bytes - flow.to_send), most,
                      MSG_DONTWAIT | MSG_NOSIGNAL);
        });
        const int64_t in = some(flow.to_receive, [&](size_t most) {
          return recv(flow.socket, received_.data() + (bytes - flow.to_receive), most,
                      MSG_DONTWAIT);
        });
        if (out < 0 || in < 0) return false;
        moved = moved || out + in > 0;
        busy = busy || flow.to_send + flow.to_receive > 0;
      }
      if (busy && !moved) sched_yield();
    }
    return true;
  }

  // What a call moved of what is left; negative: the connection is lost.
  template <class Call>
  static int64_t some(uint64_t& left, const Call& call) {
    if (left == 0) return 0;
    const ssize_t moved = call(std::min<uint64_t>(left, kPiece));
    if (moved > 0) left -= static_cast<uint64_t>(moved);
    if (moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR))) {
      return std::max<ssize_t>(moved, 0);
    }
    return -1;
  }

  sockaddr_in address_of(uint32_t rank) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(work_.port + rank));
    inet_pton(AF_INET, work_.addresses[host_of(rank)].c_str(), &address.sin_addr);
    return address;
  }

  // One connection with each rank of another host: the higher one calls, and says who it is.
  bool meet_all() {
    base::FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in own = address_of(work_.rank);
    const int yes = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
        listen(listener.get(), BOARD_MAX_RANKS) != 0) {
      return false;
    }
    const timeval patience{static_cast<time_t>(kPatience), 0};
    setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    uint32_t callers = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (host_of(rank) == host_of(work_.rank)) continue;
      if (rank > work_.rank) ++callers;
      if (rank < work_.rank && !call(rank)) return false;
    }
    while (callers-- > 0) {
      base::FileDescriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      uint32_t rank = ranks_;
      if (recv(caller.get(), &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank >= ranks_) {
        return false;
      }
      keep(rank, std::move(caller));
    }
    return true;
  }

  bool call(uint32_t rank) {
    const sockaddr_in address = address_of(rank);
    for (const double end = board_now() + kPatience; board_now() < end; usleep(10000)) {
      base::FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        continue;  // it does not listen yet
      }
      if (send(made.get(), &work_.rank, sizeof work_.rank, MSG_NOSIGNAL) != sizeof work_.rank) {
        return false;
      }
      keep(rank, std::move(made));
      return true;
    }
    return false;
  }

  void keep(uint32_t rank, base::FileDescriptor made) {
    const int yes = 1;
    setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockets_[rank] = std::move(made);
  }

  board& orders_;
  const SocketWork& work_;
  const uint32_t ranks_;
  std::vector<std::byte> sent_, received_;
  std::vector<base::FileDescriptor> sockets_;  // by rank; none to ranks of this host
};

}  // namespace

void run_socket_worker(board& orders, const SocketWork& work) {
  board_pin(work.rank);
  SocketWorker(orders, work).run();
}

}  // namespace neuron::bench
