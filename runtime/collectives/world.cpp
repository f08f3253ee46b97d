// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "driver/base/process_status.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/collectives/instance_key.h"
#include "runtime/collectives/ultra_server.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

const char* name_of(uint8_t occasion) {
  constexpr const char* kNames[] = {"joins",
                                    "is in nrt_barrier",
                                    "is in nrt_all_gather",
                                    "brings a model with collectives",
                                    "has made a model with collectives ready",
                                    "is in nrta_cc_prepare"};
  return occasion < std::size(kNames) ? kNames[occasion] : "runs another version of libnrt.so.1";
}

// The library's sentence; the variable that limits the wait is replaced by this library's own.
std::string in_our_words(std::string sentence) {
  constexpr std::string_view kTheirs = "CCOM_TIMEOUT_MS";
  const size_t at = sentence.find(kTheirs);
  return at == std::string::npos
             ? sentence
             : sentence.replace(at, kTheirs.size(), "NEURON_OPEN_COLLECTIVES_TIMEOUT");
}

Result<MemberPlace> place_of(Core& core) {
  MemberPlace place;
  gethostname(place.host, sizeof(place.host) - 1);
  place.process = getpid();
  const std::string emulator = environment_text("NEURON_EMULATOR");
  place.embedded = !emulator.empty() && !emulator.starts_with("unix:") ? 1 : 0;
  place.device = static_cast<uint32_t>(core.device().index());
  place.core = core.place().number;
  place.generation = core.device().chip().generation;
  uint32_t count = 0;
  std::array<uint32_t, 256> ids{};
  const int result = ndl_get_host_device_id_to_rid_map(&count, ids.data());
  if (result != 0 || place.device >= count) {
    return driver_error(NRT_FAILURE, result, "asking for the routing id of device {}",
                        place.device);
  }
  place.chip = ids[place.device];
  const HostFacts facts = facts_of_this_process();
  place.process_space = process_space_key(facts);
  if (const auto whole = ultra_server_of(core.device().index(), emulator)) {
    place.instance_key = instance_key_of_ultra_server(whole->id);
    place.node = whole->node;
  } else {
    place.instance_key = instance_key(facts, emulator);
  }
  return place;
}

}  // namespace

Result<std::shared_ptr<World>> World::join(Core& core, uint32_t rank, uint32_t size,
                                           std::shared_ptr<Meeting> meeting,
                                           const std::string& root,
                                           std::chrono::milliseconds timeout) {
  std::shared_ptr<World> world(new World(rank, size, timeout));
  NEURON_TRY(library, collectives_library());
  world->library_ = library;
  world->meeting_ = std::move(meeting);
  if (world->meeting_ == nullptr) {
    ccom_options_t options{};
    options.size_of = sizeof(options);
    options.root = root.c_str();
    options.timeout_ms = static_cast<uint32_t>(timeout.count());
    options.local_device = static_cast<uint32_t>(core.device().index());
    const ccom_status_t status = library->init(rank, size, &options, &world->comm_);
    if (status != CCOM_SUCCESS) {
      return fail(status_of_collectives(status), "joining at {}: {}", root,
                  in_our_words(library->last_error()));
    }
  }
  NEURON_TRY(place, place_of(core));
  NEURON_TRY(all, world->exchange(Occasion::kJoin, std::as_bytes(std::span(&place, 1))));
  for (const Message& message : all) {
    MemberPlace& member = world->members_.emplace_back();
    if (message.size() != sizeof(member)) {
      return fail(NRT_INVALID, "a rank runs another version of libnrt.so.1");
    }
    std::memcpy(&member, message.data(), sizeof(member));
    member.host[sizeof(member.host) - 1] = 0;
  }
  world->number_members(core.device().chip().cores);
  return world;
}

// A CC core counts the credits of so many ranks. The nodes of an UltraServer that has more of them
// are instances of their own, whose ranks meet over the network.
void World::part_large_ultra_servers() {
  std::map<uint64_t, std::set<uint32_t>> nodes;
  std::map<uint64_t, uint32_t> ranks;
  for (const MemberPlace& member : members_) {
    nodes[member.instance_key].insert(member.node);
    ++ranks[member.instance_key];
  }
  for (MemberPlace& member : members_) {
    const uint64_t key = member.instance_key;
    if (nodes[key].size() == 1 || ranks[key] <= CCOM_DEVICE_CREDIT_COUNTERS) continue;
    if (&member == &members_[rank_] && rank_ == 0) {
      log_notice(LogComponent::kNrt,
                 "the {} ranks of an UltraServer are more than the {} whose credits a collective "
                 "core counts: its {} nodes exchange data over the network, and no NeuronLink "
                 "between nodes is used",
                 ranks[key], CCOM_DEVICE_CREDIT_COUNTERS, nodes[key].size());
    }
    member.instance_key = instance_key_of_node(key, member.node);
  }
}

// Instances in the order of their first ranks. The cores of several nodes are more than a CC core
// has counters for, and so may be those of one, so there the ranks themselves are numbered.
void World::number_members(uint32_t cores) {
  part_large_ultra_servers();
  uint32_t instances = 0;
  for (MemberPlace& member : members_) {
    const auto same = std::find_if(members_.begin(), members_.end(), [&](const MemberPlace& other) {
      return other.instance_key == member.instance_key;
    });
    member.instance = &*same == &member ? instances++ : same->instance;
  }
  std::vector<uint32_t> counted(instances, 0);
  for (MemberPlace& member : members_) {
    const auto other = std::find_if(members_.begin(), members_.end(), [&](const MemberPlace& m) {
      return m.instance == member.instance &&
             (m.node != member.node || m.chip * cores + m.core >= CCOM_DEVICE_CREDIT_COUNTERS);
    });
    member.credit = 0;
    if (other == members_.end()) continue;
    // One more than there may be is refused where programs are made.
    member.credit = std::min<uint32_t>(++counted[member.instance], UINT16_MAX);
    if (member.instance != members_[rank_].instance) continue;
    for (const uint32_t value : {member.node, member.chip, member.core, member.credit}) {
      credit_numbering_ = (credit_numbering_ ^ (value + 1)) * 0x100000001b3u;
    }
  }
}

World::~World() {
  if (comm_ != nullptr) library_->free(comm_);
}

Result<void> World::check_reachable() const {
  const MemberPlace& own = members_[rank_];
  for (uint32_t r = 0; r < size_; ++r) {
    const MemberPlace& other = members_[r];
    if (other.generation != own.generation) {
      return fail(NRT_INVALID, "rank {} has a chip of generation {}, rank {} one of generation {}",
                  rank_, own.generation, r, other.generation);
    }
    for (uint32_t s = 0; s < r; ++s) {
      if (members_[s].instance != other.instance || members_[s].node != other.node ||
          members_[s].chip != other.chip || members_[s].core != other.core) {
        continue;
      }
      return fail(NRT_INVALID,
                  "ranks {} and {} are both on device {} core {}; each needs a core of its own", s,
                  r, other.device, other.core);
    }
  }
  return {};
}

bool World::spans_instances() const {
  return std::any_of(members_.begin(), members_.end(), [this](const MemberPlace& member) {
    return member.instance != members_[rank_].instance;
  });
}

Result<ccom_device_proxy_t*> World::open_proxy(const ccom_device_host_t& host) {
  const std::unique_lock lock(mutex_, timeout_);
  if (!lock) {
    return fail(NRT_TIMEOUT, "another thread of rank {} has waited {} s for the other ranks", rank_,
                timeout_.count() / 1000);
  }
  ccom_device_proxy_t* proxy = nullptr;
  const ccom_status_t status = library_->proxy_open(comm_, &host, &proxy);
  if (status == CCOM_SUCCESS) return proxy;
  failed_.store(true, std::memory_order_relaxed);
  return fail(status_of_collectives(status), "{}", in_our_words(library_->last_error()));
}

Result<void> World::gather(const void* mine, void* all, uint64_t bytes) {
  ccom_collective_t collective{};
  collective.size_of = sizeof(collective);
  collective.operation = CCOM_ALL_GATHER;
  collective.type = CCOM_UINT8;
  collective.input = mine;
  collective.output = all;
  collective.count = bytes;
  collective.timeout_ms = static_cast<uint32_t>(timeout_.count());
  const ccom_status_t status = library_->run(comm_, &collective);
  if (status == CCOM_SUCCESS) return {};
  failed_.store(true, std::memory_order_relaxed);
  return fail(status_of_collectives(status), "{}", library_->last_error());
}

Result<std::vector<Message>> World::exchange_through_library(std::span<const std::byte> mine) {
  exchanges_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t size = mine.size();
  std::vector<uint64_t> sizes(size_);
  NEURON_CHECK(gather(&size, sizes.data(), sizeof(size)));
  const uint64_t most = std::max<uint64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
  Message padded(most), together(most * size_);
  std::copy(mine.begin(), mine.end(), padded.begin());
  NEURON_CHECK(gather(padded.data(), together.data(), most));
  std::vector<Message> all;
  for (uint32_t r = 0; r < size_; ++r) {
    const auto first = together.begin() + static_cast<ptrdiff_t>(r * most);
    all.emplace_back(first, first + static_cast<ptrdiff_t>(std::min(most, sizes[r])));
  }
  return all;
}

Result<std::vector<Message>> World::exchange_somehow(std::span<const std::byte> mine) {
  if (meeting_ == nullptr) return exchange_through_library(mine);
  auto all = meeting_->exchange(rank_, mine, base::Deadline::after(timeout_));
  if (!all) {
    return all.error().with(
        "rank {} waited {} s for the other ranks of this process (each calls from a thread of its "
        "own; ranks of other processes need NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT)",
        rank_, timeout_.count() / 1000);
  }
  return all;
}

Result<std::vector<Message>> World::exchange(Occasion occasion, std::span<const std::byte> mine,
                                             uint64_t* number) {
  const std::unique_lock lock(mutex_, timeout_);
  if (!lock) {
    return fail(NRT_TIMEOUT, "another thread of rank {} has waited {} s for the other ranks", rank_,
                timeout_.count() / 1000);
  }
  Message tagged(1 + mine.size());
  tagged[0] = static_cast<std::byte>(occasion);
  std::copy(mine.begin(), mine.end(), tagged.begin() + 1);
  NEURON_TRY(all, exchange_somehow(tagged));
  if (number != nullptr) {
    *number = meeting_ ? meeting_->exchanges(rank_) : exchanges_.load(std::memory_order_relaxed);
  }
  for (uint32_t r = 0; r < size_; ++r) {
    Message& message = all[r];
    const auto other = message.empty() ? 0xFF : static_cast<uint8_t>(message[0]);
    if (other != static_cast<uint8_t>(occasion)) {
      return fail(NRT_INVALID,
                  "rank {} {} while rank {} {}; all ranks make the same calls in the same order",
                  rank_, name_of(static_cast<uint8_t>(occasion)), r, name_of(other));
    }
  }
  for (Message& message : all) message.erase(message.begin());
  return all;
}

Result<std::unique_lock<base::TimedMutex>> World::hold() {
  std::unique_lock lock(held_, timeout_);
  if (!lock) {
    return fail(NRT_TIMEOUT, "another thread of rank {} has waited {} s for the other ranks", rank_,
                timeout_.count() / 1000);
  }
  return lock;
}

Result<void> World::check_peers() {
  if (comm_ == nullptr) return {};
  const ccom_status_t status = library_->status(comm_);
  if (status == CCOM_SUCCESS) return {};
  failed_.store(true, std::memory_order_relaxed);
  // The library gives the cause in its next call, which fails at once. If another thread is in a
  // call, that thread gets the cause.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  std::vector<std::byte> all(size_);
  if (lock) {
    const std::byte nothing{};
    NEURON_CHECK(gather(&nothing, all.data(), 1));
  }
  return fail(status_of_collectives(status), "another rank is gone");
}

std::string World::stopped_ranks() const {
  constexpr size_t kMostNamed = 8;
  std::vector<uint32_t> stopped;
  for (uint32_t r = 0; r < size_; ++r) {
    if (members_[r].process_space != members_[rank_].process_space) continue;
    const auto status = base::process_status(members_[r].process);
    if (status && status->is_stopped()) stopped.push_back(r);
  }
  std::string text;
  for (size_t i = 0; i < std::min(stopped.size(), kMostNamed); ++i) {
    const MemberPlace& member = members_[stopped[i]];
    text += format("{}{} (process {} on {})", i == 0 ? "" : ", ", stopped[i], member.process,
                   escaped(member.host));
  }
  if (stopped.empty()) return "";
  if (stopped.size() > kMostNamed) text += format(" and {} more", stopped.size() - kMostNamed);
  return stopped.size() == 1 ? format("rank {} is stopped by a signal", text)
                             : format("ranks {} are stopped by signals", text);
}

bool World::sees_all_processes() const {
  return std::all_of(members_.begin(), members_.end(), [this](const MemberPlace& member) {
    return member.process_space == members_[rank_].process_space;
  });
}

void World::note_failure(const std::string& sentence) {
  if (meeting_) return meeting_->note_failure(rank_, sentence);
  library_->tell(comm_, exchanges_.load(std::memory_order_relaxed), sentence.c_str());
}

std::optional<std::string> World::failure_since(uint64_t number) {
  if (meeting_) return meeting_->failure_since(number);
  ccom_notice_t notice{};
  notice.size_of = sizeof(notice);
  if (library_->told(comm_, number, &notice) != CCOM_SUCCESS) return std::nullopt;
  return describe_failure_of(notice.rank, notice.sentence);
}

Result<void> World::barrier() {
  NEURON_TRY(all, exchange(Occasion::kBarrier, {}));
  (void)all;
  return {};
}

}  // namespace neuron::runtime
