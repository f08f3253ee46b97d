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
#include <utility>
#include <vector>

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
// How long to wait when the leader's queue is full.
constexpr std::chrono::milliseconds kBetweenAttempts{2};
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
    if (mine >= 0 && all_[rank_] < 0) {
      return system_error(errno, format("{} cannot duplicate descriptor {}, which it brought",
                                        describe(members_[rank_]), mine));
    }
    NEURON_TRY(peers, collect(socket, ranks));
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
    File peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (peer.get() < 0) {
      return system_error(errno, format("{} cannot make a socket for the ranks of its host",
                                        describe(members_[rank_])));
    }
    // More ranks than the leader's queue takes wait here until it has accepted some.
    while (connect(peer.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
      const int error = errno;
      if (error != EAGAIN && error != EINTR) {
        return cause_of(
            system_error(error, format("{} cannot reach {} of the same host",
                                       describe(members_[rank_]), describe(members_[leader]))));
      }
      if (const auto failure = failures_.failure()) {
        return *failure;
      }
      if (deadline_.expired()) {
        return cause_of(fail(CCOM_TIMEOUT,
                             "{} waited in vain: {} accepts no ranks of its host (is it stopped?)",
                             describe(members_[rank_]), describe(members_[leader])));
      }
      base::sleep_for(kBetweenAttempts);
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
  using Peers = std::vector<std::pair<Rank, File>>;

  // The ranks' connections, when each has brought its descriptor; who is slow holds up nobody else.
  Result<Peers> collect(const Socket& socket, const std::vector<Rank>& ranks) {
    Peers peers;
    std::vector<File> silent;                  // processes of ranks that have said nothing yet
    while (peers.size() + 1 < ranks.size()) {  // bounded: by the deadline
      if (const auto failure = failures_.failure()) {
        return *failure;
      }
      if (deadline_.expired()) {
        return late(ranks, peers, silent);
      }
      std::vector<pollfd> wanted{{socket.listener.get(), POLLIN, 0}};
      for (const File& peer : silent) {
        wanted.push_back({peer.get(), POLLIN, 0});
      }
      if (poll(wanted.data(), wanted.size(), kSlice) <= 0) {
        continue;
      }
      // From the last to the first: who has spoken leaves the list.
      for (size_t i = silent.size(); i-- > 0;) {
        if (wanted[i + 1].revents != 0) {
          hear(std::move(silent[i]), peers);
          silent.erase(silent.begin() + static_cast<ptrdiff_t>(i));
        }
      }
      if (wanted[0].revents != 0) {
        NEURON_CHECK(accept_one(socket, ranks, silent));
      }
    }
    return peers;
  }

  Result<void> accept_one(const Socket& socket, const std::vector<Rank>& ranks,
                          std::vector<File>& silent) {
    File peer(accept4(socket.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.get() < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        return system_error(
            errno, format("{} cannot accept the ranks of its host", describe(members_[rank_])));
      }
      return {};
    }
    const ucred who = credentials(peer);
    if (who.uid == geteuid() && std::any_of(ranks.begin(), ranks.end(), [&](Rank rank) {
          return who.pid == members_[rank].process;
        })) {
      silent.push_back(std::move(peer));
    }
    return {};
  }

  // One that is no rank of this job, or says nonsense, is forgotten.
  void hear(File peer, Peers& peers) {
    Header header;
    std::vector<int> brought;
    const bool good = receive_descriptors(peer.get(), header, brought) && known(peer, header) &&
                      std::none_of(peers.begin(), peers.end(),
                                   [&](const auto& old) { return old.first == header.rank; }) &&
                      brought.size() == header.count && header.count <= 1;
    if (!good) {
      close_all(brought);
      return;
    }
    all_[header.rank] = header.count == 1 ? brought[0] : -1;
    peers.emplace_back(header.rank, std::move(peer));
  }

  Error late(const std::vector<Rank>& ranks, const Peers& peers,
             const std::vector<File>& silent) const {
    std::vector<Rank> missing;
    for (const Rank rank : ranks) {
      if (rank != rank_ && std::none_of(peers.begin(), peers.end(),
                                        [&](const auto& peer) { return peer.first == rank; })) {
        missing.push_back(rank);
      }
    }
    std::string sentence = format("{} waited in vain: ranks {} did not bring their descriptors",
                                  describe(members_[rank_]), rank_list(missing));
    if (!silent.empty()) {
      sentence += format("; process {} of this host connected and sends nothing",
                         credentials(silent.front()).pid);
    }
    return fail(CCOM_TIMEOUT, "{}", sentence);
  }

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
