// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/stream_endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ccom/bootstrap/address.h"
#include "ccom/transport/port_pass.h"
#include "ccom/transport/stream_link.h"
#include "ccom/transport/stream_matching.h"
#include "driver/base/backoff.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {
namespace {

constexpr uint64_t kAtOnce = 64 << 10;      // longer messages are offered
constexpr uint64_t kCopiedAhead = 4 << 20;  // copies that wait for a socket, before -EAGAIN
constexpr size_t kStrangers = 64;           // connections that have not said hello
constexpr std::chrono::milliseconds kPatience{1000};  // with them, while others wait
constexpr int kEventsAtOnce = 16;
constexpr std::chrono::milliseconds kLettingGo{100};

struct StreamAddress {
  SystemAddress at;
  PortKey token;
};
constexpr size_t kAddressBytes = sizeof(uint32_t) + sizeof(SystemAddress::bytes) + sizeof(PortKey);

std::vector<std::byte> encode(const StreamAddress& address) {
  std::vector<std::byte> bytes(kAddressBytes);
  std::memcpy(bytes.data(), &address.at.length, sizeof(uint32_t));
  std::memcpy(bytes.data() + sizeof(uint32_t), address.at.bytes.data(), address.at.bytes.size());
  std::memcpy(bytes.data() + kAddressBytes - sizeof(PortKey), address.token.data(),
              sizeof(PortKey));
  return bytes;
}

StreamAddress decode(const std::vector<std::byte>& bytes) {
  StreamAddress address;
  std::memcpy(&address.at.length, bytes.data(), sizeof(uint32_t));
  address.at.length = std::min(address.at.length, static_cast<uint32_t>(address.at.bytes.size()));
  std::memcpy(address.at.bytes.data(), bytes.data() + sizeof(uint32_t), address.at.bytes.size());
  std::memcpy(address.token.data(), bytes.data() + kAddressBytes - sizeof(PortKey),
              sizeof(PortKey));
  return address;
}

class StreamEndpoint final : public FabricEndpoint, public StreamLink::Owner {
 public:
  StreamEndpoint(base::FileDescriptor listener, base::FileDescriptor events, const Address& address,
                 const PortKey& token)
      : listener_(std::move(listener)),
        events_(std::move(events)),
        own_{system_address(address), token},
        text_(text_of(address)),
        name_(format("{} on {}", kStreamProvider, text_.substr(0, text_.rfind(':')))) {
    watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, nullptr);
  }
  ~StreamEndpoint() override { close(); }

  std::vector<std::byte> address() const override { return encode(own_); }

  Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) override {
    for (Rank rank = 0; rank < addresses.size(); ++rank) {
      if (addresses[rank].size() != kAddressBytes) {
        return fail(CCOM_INVALID,
                    "rank {} has a network address of {} bytes, this rank ({}) one of {}: give all "
                    "ranks the same CCOM_PROVIDERS and the same version of libccom",
                    rank, addresses[rank].size(), name_, kAddressBytes);
      }
      peers_.emplace_back().address = decode(addresses[rank]);
      if (peers_.back().address.token == own_.token) rank_ = rank;
    }
    return {};
  }

  bool registers_memory() const override { return false; }
  Result<FabricMemory> register_memory(const void*, uint64_t) override {
    return FabricMemory{nullptr};
  }
  void unregister_memory(FabricMemory) override {}

  int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory, uint64_t tag,
           uint32_t word, FabricOperation& operation) override {
    int error = 0;
    StreamLink* link = link_to(peer, error);
    if (link == nullptr) return error;
    StreamHeader header{StreamKind::kWhole, word, tag, bytes, 0};
    if (bytes > kAtOnce) {
      header.kind = StreamKind::kOffer;
      header.id = ++offers_;
      offered_[header.id] = {peer, {data, bytes}, &operation};
      link->send(header, {}, nullptr, held_);
    } else {
      link->send(header, {data, bytes}, &operation, held_);
    }
    was_given(*link);
    return 0;
  }

  int send_small(Rank peer, const std::byte* data, uint64_t bytes, uint64_t tag,
                 uint32_t word) override {
    int error = 0;
    StreamLink* link = link_to(peer, error);
    if (link == nullptr) return error;
    if (link->copied_bytes() > kCopiedAhead) return -EAGAIN;
    link->send({StreamKind::kWhole, word, tag, bytes, 0}, {data, bytes}, nullptr, held_);
    was_given(*link);
    return 0;
  }
  void hold() override { held_ = true; }
  void let_go() override {
    held_ = false;
    for (StreamLink* link : std::exchange(holding_, {})) {
      if (!link->broken && !link->connecting()) advance(*link, false);
    }
  }
  uint64_t small_bytes() const override { return kAtOnce; }

  int receive(Rank, std::byte* data, uint64_t bytes, FabricMemory, uint64_t tag, uint64_t ignore,
              FabricOperation& operation) override {
    if (!listener_) return -ENOTCONN;
    const StreamPlace place{&operation, {data, bytes}};
    StreamEarly* early = matching_.post(place, tag, ignore);
    if (early == nullptr) return 0;
    if (early->header.kind == StreamKind::kOffer) {
      accept_offer(*early->link, early->header, place);
      matching_.forget(*early);
    } else if (early->complete) {
      const uint64_t kept = std::min<uint64_t>(early->header.bytes, bytes);
      if (kept != 0) std::memcpy(data, early->bytes.data(), kept);
      complete(operation, bytes, early->header);
      matching_.forget(*early);
    } else {
      early->taker = place;  // the rest of it is on its way
    }
    return 0;
  }

  void cancel(FabricOperation& operation) override {
    bool found = matching_.cancel(operation);
    for (const auto& link : links_) {
      if (link->taker != &operation) continue;
      link->taker = nullptr;
      link->drop_payload();
      found = true;
    }
    for (auto arriving = arriving_.begin(); arriving != arriving_.end();) {
      const bool is = arriving->second.place.operation == &operation;
      if (is && arriving->second.begun) arriving->first.link->drop_payload();
      found = found || is;
      arriving = is ? arriving_.erase(arriving) : std::next(arriving);
    }
    if (found) done_.push_back({&operation, true, ECANCELED, 0, 0, 0});
  }

  uint32_t depth() const override { return 1024; }

  int poll(std::span<FabricCompletion> completions) override {
    if (!listener_) return -ENOTCONN;
    if (done_.empty()) progress();
    if (lost_ != 0 && done_.empty()) return -lost_;
    const size_t count = std::min(done_.size() - told_, completions.size());
    std::copy_n(done_.begin() + static_cast<ptrdiff_t>(told_), count, completions.begin());
    told_ += count;
    if (told_ == done_.size()) {
      done_.clear();
      told_ = 0;
    }
    return static_cast<int>(count);
  }

  bool has_arrived() const override {
    return std::all_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->has_arrived(); });
  }

  void close() override {
    if (!listener_) return;
    try {
      // Who has connected and was not seen yet learns that this rank has left, too.
      welcome();
      const base::Deadline deadline = base::Deadline::after(kLettingGo);
      // All in turns: one peer that takes nothing must not hold up what others still need.
      for (bool all = false; !all && !deadline.expired();) {
        all = true;
        for (const auto& link : links_) all = link->finish() && all;
        if (!all) base::yield_processor();
      }
    } catch (const std::bad_alloc&) {
      // What has not left by now is lost.
    }
    for (const auto& link : links_) ::shutdown(link->socket(), SHUT_WR);
    strangers_.clear();
    links_.clear();
    listener_.reset();
    events_.reset();
    offered_.clear();
    arriving_.clear();
    matching_ = {};
    done_.clear();
    told_ = 0;
  }

  const Error& failure() const override { return failure_; }
  const std::string& provider() const override { return name_; }
  std::string route(Rank peer) const override {
    return text_ + " -> " +
           (peer < peers_.size() ? text_of(address_of(peers_[peer].address.at)) : "?");
  }

 private:
  struct Peer {
    StreamAddress address;
    StreamLink* mine = nullptr;    // connected by this rank
    StreamLink* theirs = nullptr;  // by the peer
    int error = 0;                 // of a connection that broke
  };
  struct Offered {
    Rank peer = 0;
    std::span<const std::byte> payload;
    FabricOperation* operation = nullptr;
  };
  // An offered message that has a place.
  struct ArrivingKey {
    StreamLink* link = nullptr;
    uint64_t id = 0;
    bool operator==(const ArrivingKey&) const = default;
  };
  struct Hash {
    size_t operator()(const ArrivingKey& key) const {
      return std::hash<const void*>()(key.link) ^ std::hash<uint64_t>()(key.id);
    }
  };
  struct Arriving {
    StreamPlace place;
    StreamHeader header;
    bool begun = false;
  };

  struct Stranger {
    StreamLink* link = nullptr;
    base::Deadline patience;
  };

  void watch(int operation, int file, uint32_t what, StreamLink* link) {
    epoll_event event{};
    event.events = what;
    event.data.ptr = link;
    ::epoll_ctl(events_.get(), operation, file, &event);
  }

  void await_room(StreamLink& link) {
    const bool wants = link.wants_to_write();
    if (wants == link.writing || link.broken) return;
    link.writing = wants;
    watch(EPOLL_CTL_MOD, link.socket(), wants ? EPOLLIN | EPOLLOUT : EPOLLIN, &link);
  }

  // Behind a message that was given to it.
  void was_given(StreamLink& link) {
    if (!held_) return await_room(link);
    if (holding_.empty() || holding_.back() != &link) holding_.push_back(&link);
  }

  // The connection for new messages to a peer, or null with a negative errno value.
  StreamLink* link_to(Rank rank, int& error) {
    Peer& peer = peers_[rank];
    error = -(listener_ ? peer.error : ENOTCONN);
    if (error != 0) return nullptr;
    if (peer.mine != nullptr && peer.theirs != nullptr) {
      return rank_ < rank ? peer.mine : peer.theirs;
    }
    if (peer.mine != nullptr) return peer.mine;
    if (peer.theirs != nullptr) return peer.theirs;
    const SystemAddress& at = peer.address.at;
    base::FileDescriptor socket(
        ::socket(at.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    error = -errno;
    if (!socket) return nullptr;
    // Else each connection of the host has a port for itself, of which there are 28,000.
    const int later = 1;
    ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
    // Leaves from the address that this rank gave to the others.
    SystemAddress from = own_.at;
    if (from.get()->sa_family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(from.get())->sin_port = 0;
    } else {
      reinterpret_cast<sockaddr_in6*>(from.get())->sin6_port = 0;
    }
    if (::bind(socket.get(), from.get(), from.length) != 0 ||
        (::connect(socket.get(), at.get(), at.length) != 0 && errno != EINPROGRESS)) {
      error = -errno;
      return nullptr;
    }
    error = 0;
    peer.mine = &adopt(std::move(socket), true);
    peer.mine->peer = rank;
    peer.mine->send({StreamKind::kHello, rank_, 0, sizeof(PortKey), 0}, peer.address.token,
                    nullptr);
    return peer.mine;
  }

  StreamLink& adopt(base::FileDescriptor socket, bool connecting) {
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    links_.push_back(std::make_unique<StreamLink>(*this, std::move(socket), connecting));
    StreamLink& link = *links_.back();
    link.writing = connecting;
    watch(EPOLL_CTL_ADD, link.socket(), connecting ? EPOLLIN | EPOLLOUT : EPOLLIN, &link);
    return link;
  }

  void progress() {
    std::array<epoll_event, kEventsAtOnce> events;
    const int count = ::epoll_wait(events_.get(), events.data(), kEventsAtOnce, 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      auto* link = static_cast<StreamLink*>(event.data.ptr);
      if (link == nullptr) {
        welcome();
      } else if (!link->broken) {
        advance(*link, (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0);
      }
    }
    if (std::exchange(dropping_, false)) {
      std::erase_if(links_, [](const auto& link) { return link->broken; });
    }
  }

  void advance(StreamLink& link, bool readable) {
    const bool connecting = link.connecting();
    int error = readable && !connecting ? link.read() : 0;
    if (error == 0 && link.wants_to_write()) {
      error = link.write();
      // What a peer has sent before it left is still there.
      if (!connecting && (error == EPIPE || error == ECONNRESET)) {
        link.unwritable = error;
        link.fail(error);
        error = 0;
      }
    }
    if (error == ESHUTDOWN && link.unwritable == ECONNRESET) error = ECONNRESET;
    if (error != 0) {
      broke(link, error);
    } else {
      await_room(link);
    }
  }

  // Strangers may not use up the descriptors: while there are many, others wait in the kernel, and
  // those that stay silent have to go. A rank is soon no stranger, as its hello comes with its
  // connection.
  void welcome() {
    for (;;) {  // bounded: by those who have connected
      if (strangers_.size() >= kStrangers) {
        if (!strangers_.front().patience.expired()) return;
        broke(*strangers_.front().link, ECONNABORTED);
      }
      base::FileDescriptor socket(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return leave_waiting(errno);
      crowded_.reset();
      StreamLink& link = adopt(std::move(socket), false);
      strangers_.push_back({&link, base::Deadline::after(kPatience)});
      advance(link, true);
    }
  }
  // Somebody of this process may close others soon. If nobody does, a rank that waits behind the
  // listening socket would wait until its operation's deadline, and nobody would know why.
  void leave_waiting(int error) {
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return;
    if (!crowded_) {
      crowded_ = base::Deadline::after(kPatience);
    } else if (crowded_->expired()) {
      lost_ = error;
      failure_ = system_error(error, format("no other rank can be accepted at {} for {} ms already",
                                            text_, kPatience.count()));
    }
  }
  void know(const StreamLink& link) {
    std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.link == &link; });
  }

  // Everything that waits for this connection ends.
  void broke(StreamLink& link, int error) {
    link.broken = true;
    dropping_ = true;
    know(link);
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, link.socket(), nullptr);
    // A child of this process may have the socket, too.
    ::shutdown(link.socket(), SHUT_RDWR);
    link.fail(error);
    if (link.taker != nullptr) failed(*std::exchange(link.taker, nullptr), error);
    matching_.abandon(link, [&](const StreamPlace& place) { failed(*place.operation, error); });
    for (auto arriving = arriving_.begin(); arriving != arriving_.end();) {
      const bool is = arriving->first.link == &link;
      if (is) failed(*arriving->second.place.operation, error);
      arriving = is ? arriving_.erase(arriving) : std::next(arriving);
    }
    if (link.peer >= peers_.size()) return;
    Peer& peer = peers_[link.peer];
    if (peer.mine == &link) peer.mine = nullptr;
    if (peer.theirs == &link) peer.theirs = nullptr;
    // What a link says first is the reason; the other one of the pair only ends, too.
    if (peer.error == 0) peer.error = error;
    for (auto offer = offered_.begin(); offer != offered_.end();) {
      const bool is = offer->second.peer == link.peer;
      if (is) sent(*offer->second.operation, error);
      offer = is ? offered_.erase(offer) : std::next(offer);
    }
  }

  void failed(FabricOperation& operation, int error) {
    done_.push_back({&operation, true, error, 0, 0, 0});
  }
  void complete(FabricOperation& operation, uint64_t room, const StreamHeader& header) {
    done_.push_back({&operation, true, header.bytes > room ? EMSGSIZE : 0, header.tag, header.word,
                     header.bytes});
  }
  void sent(FabricOperation& operation, int error) override {
    done_.push_back({&operation, false, error, 0, 0, 0});
  }

  void accept_offer(StreamLink& link, const StreamHeader& offer, const StreamPlace& place) {
    arriving_[{&link, offer.id}] = {place, offer, false};
    link.send({StreamKind::kGo, 0, 0, 0, offer.id}, {}, nullptr);
    await_room(link);
  }

  bool begins(StreamLink& link, const StreamHeader& header, std::span<std::byte>& place) override {
    if (link.peer == StreamLink::kNobody && header.kind != StreamKind::kHello) return false;
    switch (header.kind) {
      case StreamKind::kHello:
        place = link.token;
        return link.peer == StreamLink::kNobody && header.bytes == sizeof(PortKey) &&
               header.word < peers_.size() && header.word != rank_;
      case StreamKind::kWhole: {
        if (header.bytes > kAtOnce) return false;
        if (const auto posted = matching_.take(header.tag)) {
          place = posted->bytes;
          link.taker = posted->operation;
          link.taker_bytes = posted->bytes.size();
        } else {
          place = matching_.keep(link, header).bytes;
        }
        return true;
      }
      case StreamKind::kOffer:
        // In order, so that no number is there twice.
        return header.id > std::exchange(link.last_offer, header.id);
      case StreamKind::kGo:
        return true;
      case StreamKind::kRest: {
        const auto arriving = arriving_.find({&link, header.id});
        if (header.id == 0) return false;
        if (arriving == arriving_.end()) return true;  // it was cancelled: dropped
        arriving->second.begun = true;
        place = arriving->second.place.bytes;
        return header.bytes == arriving->second.header.bytes;
      }
    }
    return false;
  }

  bool ends(StreamLink& link, const StreamHeader& header) override {
    switch (header.kind) {
      case StreamKind::kHello:
        return greeted(link, header.word);
      case StreamKind::kWhole:
        if (link.taker != nullptr) {
          complete(*std::exchange(link.taker, nullptr), link.taker_bytes, header);
        } else {
          kept(link);
        }
        return true;
      case StreamKind::kRest: {
        const auto arriving = arriving_.find({&link, header.id});
        if (arriving != arriving_.end()) {
          const Arriving what = arriving->second;
          arriving_.erase(arriving);
          complete(*what.place.operation, what.place.bytes.size(), what.header);
        }
        return true;
      }
      case StreamKind::kOffer:
        if (const auto posted = matching_.take(header.tag)) {
          accept_offer(link, header, *posted);
        } else {
          matching_.keep(link, header).complete = true;
        }
        return true;
      case StreamKind::kGo: {
        const auto offer = offered_.find(header.id);
        if (offer == offered_.end() || offer->second.peer != link.peer) return false;
        const Offered what = offer->second;
        offered_.erase(offer);
        link.send({StreamKind::kRest, 0, 0, what.payload.size(), header.id}, what.payload,
                  what.operation);
        return true;
      }
    }
    return false;
  }

  // A message that nobody waited for when it began is complete.
  void kept(StreamLink& link) {
    StreamEarly* early = matching_.unfinished(link);
    if (early == nullptr) return;  // its receive was cancelled
    early->complete = true;
    if (!early->taker) return;
    const StreamPlace place = *early->taker;
    const uint64_t bytes = std::min<uint64_t>(early->header.bytes, place.bytes.size());
    if (bytes != 0) std::memcpy(place.bytes.data(), early->bytes.data(), bytes);
    complete(*place.operation, place.bytes.size(), early->header);
    matching_.forget(*early);
  }

  bool greeted(StreamLink& link, Rank rank) {
    if (link.token != own_.token || peers_[rank].theirs != nullptr) return false;
    know(link);
    link.peer = rank;
    peers_[rank].theirs = &link;
    return true;
  }

  base::FileDescriptor listener_, events_;
  const StreamAddress own_;
  const std::string text_, name_;
  Rank rank_ = 0;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<StreamLink>> links_;
  std::deque<Stranger> strangers_;    // in the order in which they have come
  bool dropping_ = false;             // some of the links are broken
  bool held_ = false;                 // messages wait for let_go()
  std::vector<StreamLink*> holding_;  // those with such messages
  StreamMatching matching_;
  uint64_t offers_ = 0;
  std::unordered_map<uint64_t, Offered> offered_;
  std::unordered_map<ArrivingKey, Arriving, Hash> arriving_;
  std::vector<FabricCompletion> done_;
  size_t told_ = 0;                        // of them
  std::optional<base::Deadline> crowded_;  // since there is no descriptor for who connects
  int lost_ = 0;                           // why no rank can be accepted any more
  Error failure_;
};

}  // namespace

Result<std::unique_ptr<FabricEndpoint>> open_stream(const std::string& local_address) {
  const bool six = local_address.find(':') != std::string::npos;
  // The parser of addresses wants a port; any will do.
  const auto parsed = parse_address((six ? "[" + local_address + "]" : local_address) + ":1");
  if (!parsed) {
    return fail(CCOM_INVALID, "\"{}\" is no internet address of this host", local_address);
  }
  Address address = *parsed;
  address.port = 0;
  NEURON_TRY(socket, open_listener(address, "messages between hosts"));
  base::FileDescriptor listener(socket);
  base::FileDescriptor events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events || ::fcntl(listener.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_error(errno, "cannot watch the sockets of the network");
  }
  NEURON_TRY(token, new_port_key());
  return std::unique_ptr<FabricEndpoint>(
      std::make_unique<StreamEndpoint>(std::move(listener), std::move(events), address, token));
}

}  // namespace neuron::ccom
