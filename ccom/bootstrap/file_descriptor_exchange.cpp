// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/file_descriptor_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ccom/bootstrap/rank_list.h"
#include "driver/base/backoff.h"
#include "driver/base/file_descriptor.h"
#include "driver/base/hmac_sha256.h"

namespace neuron::ccom {
namespace {

constexpr size_t kBatch = 64;  // descriptors in one message; the system takes 253
constexpr int kSlice = 20;     // ms between looks at failures
// How long the news of a failure may take that explains why a connection ended, or nothing came.
constexpr std::chrono::milliseconds kNewsTime{500};
constexpr uint32_t kNone = ~0u;  // of a rank without a descriptor

using File = base::FileDescriptor;

struct Header {
  Digest session{};
  uint32_t rank = 0;
  uint32_t count = 0;  // descriptors with this message
  uint32_t ranks[kBatch] = {};
};

struct Socket {
  File listener;
  File path;  // of its file, which has no name any more
};

Result<Socket> nameless_listener() {
  char folder[] = "/tmp/ccom-rank-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return system_error(errno, "cannot make a folder in /tmp for a socket");
  }
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  snprintf(name.sun_path, sizeof(name.sun_path), "%s/s", folder);
  Socket made;
  made.listener = File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (made.listener.get() < 0 ||
      bind(made.listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
    error = errno;
  } else {
    made.path = File(open(name.sun_path, O_PATH | O_CLOEXEC));
    error = made.path.get() < 0 || listen(made.listener.get(), 4096) != 0 ? errno : 0;
    unlink(name.sun_path);
  }
  rmdir(folder);
  if (error != 0) {
    return system_error(error, "cannot make a socket for the ranks of this host");
  }
  return made;
}

bool send_descriptors(int socket, const Header& header, const int* descriptors) {
  iovec data{const_cast<Header*>(&header), sizeof(header)};
  alignas(cmsghdr) char control[CMSG_SPACE(kBatch * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (header.count != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(header.count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(header.count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors, header.count * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(header));
}

// The descriptors belong to the caller, also when false is returned.
bool receive_descriptors(int socket, Header& header, std::vector<int>& descriptors) {
  iovec data{&header, sizeof(header)};
  alignas(cmsghdr) char control[CMSG_SPACE(kBatch * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return false;
  }
  descriptors.clear();
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
      const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      const size_t before = descriptors.size();
      descriptors.resize(before + count);
      std::memcpy(descriptors.data() + before, CMSG_DATA(part), count * sizeof(int));
    }
  }
  errno = EPROTO;
  return got == static_cast<ssize_t>(sizeof(header)) && (message.msg_flags & MSG_CTRUNC) == 0 &&
         header.count <= kBatch;
}

void close_all(std::vector<int>& descriptors) {
  for (int& descriptor : descriptors) {
    if (descriptor >= 0) {
      close(std::exchange(descriptor, -1));
    }
  }
}

// One exchange, in the caller's thread.
class DescriptorExchange {
 public:
  DescriptorExchange(const NetworkJob& job, const NetworkFailures& failures,
                     base::Deadline deadline)
      : members_(job.table.members),
        rank_(job.rank()),
        session_(job.session),
        deadline_(deadline),
        failures_(failures),
        all_(members_.size(), -1) {}
  ~DescriptorExchange() { close_all(all_); }

  std::vector<int> take() { return std::move(all_); }

  // Collects from all `ranks` and gives each everything. `mine` is the caller's.
  Result<void> lead(const Socket& socket, int mine, const std::vector<Rank>& ranks) {
    all_[rank_] = mine < 0 ? -1 : fcntl(mine, F_DUPFD_CLOEXEC, 0);
    std::vector<std::pair<Rank, File>> peers;
    while (peers.size() + 1 < ranks.size()) {
      NEURON_CHECK(wait_for(socket.listener.get(), POLLIN, [&] {
        std::vector<Rank> missing;
        for (const Rank rank : ranks) {
          if (rank != rank_ && std::none_of(peers.begin(), peers.end(),
                                            [&](const auto& peer) { return peer.first == rank; })) {
            missing.push_back(rank);
          }
        }
        return format("ranks {} did not bring their descriptors", rank_list(missing));
      }));
      File peer(accept4(socket.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (peer.get() < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          return system_error(
              errno, format("{} cannot accept the ranks of its host", describe(members_[rank_])));
        }
        continue;
      }
      Header header;
      std::vector<int> brought;
      NEURON_CHECK(wait_for(peer.get(), POLLIN, [&] {
        return format("process {} of this host connected and sends nothing", credentials(peer).pid);
      }));
      const bool good = receive_descriptors(peer.get(), header, brought) && known(peer, header) &&
                        brought.size() == header.count && header.count <= 1;
      if (!good) {
        close_all(brought);
        continue;  // no rank of this job
      }
      all_[header.rank] = header.count == 1 ? brought[0] : -1;
      peers.emplace_back(header.rank, std::move(peer));
    }
    for (const auto& [rank, peer] : peers) {
      for (size_t at = 0; at < ranks.size(); at += kBatch) {
        Header header{session_, rank_, 0, {}};
        int batch[kBatch];
        std::fill(std::begin(header.ranks), std::end(header.ranks), kNone);
        for (size_t i = at; i < std::min(at + kBatch, ranks.size()); ++i) {
          if (all_[ranks[i]] >= 0) {
            header.ranks[header.count] = ranks[i];
            batch[header.count++] = all_[ranks[i]];
          }
        }
        NEURON_CHECK(wait_for(peer.get(), POLLOUT, [this, rank = rank] {
          return format("{} does not take descriptors", describe(members_[rank]));
        }));
        if (!send_descriptors(peer.get(), header, batch)) {
          return cause_of(system_error(
              errno, format("cannot send descriptors to {}", describe(members_[rank]))));
        }
      }
    }
    return {};
  }

  Result<void> follow(Rank leader, uint32_t number, int mine, size_t local_ranks) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    snprintf(name.sun_path, sizeof(name.sun_path), "/proc/%d/fd/%u", members_[leader].process,
             number);
    File peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (peer.get() < 0 ||
        connect(peer.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
      return cause_of(
          system_error(errno, format("{} cannot reach {} of the same host",
                                     describe(members_[rank_]), describe(members_[leader]))));
    }
    Header header{session_, rank_, mine >= 0 ? 1u : 0u, {}};
    if (!send_descriptors(peer.get(), header, &mine)) {
      return cause_of(system_error(
          errno, format("cannot send a descriptor to {}", describe(members_[leader]))));
    }
    for (size_t at = 0; at < local_ranks; at += kBatch) {
      const auto come = wait_for(peer.get(), POLLIN, [&] {
        return format("{} sent no descriptors", describe(members_[leader]));
      });
      // The leader may say for whom it waited itself.
      if (!come) return cause_of(come.error());
      std::vector<int> batch;
      Header received;
      if (!receive_descriptors(peer.get(), received, batch) || batch.size() != received.count) {
        const int error = errno;
        close_all(batch);
        return cause_of(system_error(error, format("cannot receive descriptors from {} (limit of "
                                                   "open files?)",
                                                   describe(members_[leader]))));
      }
      for (size_t i = 0; i < batch.size(); ++i) {
        const Rank rank = received.ranks[i];
        if (rank < all_.size() && all_[rank] < 0) {
          all_[rank] = batch[i];
        } else {
          close(batch[i]);
        }
      }
    }
    return {};
  }

 private:
  // A peer that hangs up has died, or had a reason that is on its way here.
  Error cause_of(const Error& symptom) const {
    const base::Deadline until = base::Deadline::after(kNewsTime);
    while (!until.expired()) {
      if (const auto failure = failures_.failure()) {
        return *failure;
      }
      base::sleep_for(std::chrono::milliseconds(1));
    }
    return symptom;
  }

  template <class Sentence>
  Result<void> wait_for(int descriptor, short events, const Sentence& sentence) {
    pollfd wanted{descriptor, events, 0};
    while (!deadline_.expired()) {
      if (const auto failure = failures_.failure()) {
        return *failure;
      }
      if (poll(&wanted, 1, kSlice) > 0) {
        return {};
      }
    }
    return fail(CCOM_TIMEOUT, "{} waited in vain: {}", describe(members_[rank_]), sentence());
  }

  // pid 0: not known.
  static ucred credentials(const File& peer) {
    ucred who{};
    socklen_t length = sizeof(who);
    return getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 ? who : ucred{};
  }

  bool known(const File& peer, const Header& header) const {
    const ucred who = credentials(peer);
    return who.pid > 0 && who.uid == geteuid() && base::equal_digests(header.session, session_) &&
           header.rank < members_.size() && header.rank != rank_ &&
           who.pid == members_[header.rank].process && all_[header.rank] < 0;
  }

  const std::vector<Member>& members_;
  Rank rank_;
  const Digest& session_;
  base::Deadline deadline_;
  const NetworkFailures& failures_;
  std::vector<int> all_;
};

}  // namespace

Result<std::vector<int>> exchange_descriptors(const NetworkJob& job,
                                              const NetworkFailures& failures,
                                              NetworkRounds& rounds, int mine,
                                              base::Deadline deadline) {
  std::vector<Rank> local;
  for (const Member& member : job.table.members) {
    if (member.host_id == job.me().host_id) {
      local.push_back(member.rank);
    }
  }
  const bool leads = local.front() == job.rank();
  // What a leader says: the number of its descriptor, or why it has none.
  std::string word;
  Socket socket;
  if (leads && local.size() > 1) {
    auto made = nameless_listener();
    if (made) {
      socket = std::move(*made);
      word = format("+{}", socket.path.get());
    } else {
      word = "-" + made.error().sentence;
    }
  }
  NEURON_TRY(words, rounds.all_gather(bytes_of(word), deadline));
  DescriptorExchange exchange(job, failures, deadline);
  const Bytes& said = words[local.front()];
  const std::string leader_word(reinterpret_cast<const char*>(said.data()), said.size());
  if (local.size() > 1 && (leader_word.empty() || leader_word.front() != '+')) {
    return fail(CCOM_SYSTEM, "{} cannot exchange descriptors: {}",
                describe(job.table.members[local.front()]),
                leader_word.empty() ? "it is not ready" : leader_word.substr(1, 400));
  }
  if (leads) {
    NEURON_CHECK(exchange.lead(socket, mine, local));
  } else {
    const auto number = static_cast<uint32_t>(strtoul(leader_word.c_str() + 1, nullptr, 10));
    NEURON_CHECK(exchange.follow(local.front(), number, mine, local.size()));
  }
  return exchange.take();
}

}  // namespace neuron::ccom
