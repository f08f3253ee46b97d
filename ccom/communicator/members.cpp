// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/members.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "ccom/bootstrap/rank_list.h"
#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

using FileId = std::pair<uint64_t, uint64_t>;  // device, inode

// Arenas of this process by their file: ranks that are threads share one mapping of each file.
struct Registry {
  std::mutex mutex;
  std::map<FileId, std::weak_ptr<Arena>> arenas;
};

Registry& registry() {
  static auto* all = new Registry;  // outlives everything that may still run at exit
  return *all;
}

Result<FileId> file_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) {
    return system_error(errno, "a peer's descriptor of shared memory cannot be read");
  }
  return FileId{status.st_dev, status.st_ino};
}

// Takes ownership of the descriptor.
Result<std::shared_ptr<Arena>> arena_of(int descriptor) {
  const auto file = file_of(descriptor);
  if (!file) {
    close(descriptor);
    return file.error();
  }
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<Arena>& known = registry().arenas[*file];
  if (std::shared_ptr<Arena> arena = known.lock()) {
    close(descriptor);
    return arena;
  }
  NEURON_TRY(mapped, Arena::map(descriptor));
  std::shared_ptr<Arena> arena = std::move(mapped);
  known = arena;
  return arena;
}

void note(const std::shared_ptr<Arena>& arena) {
  const auto file = file_of(arena->descriptor());
  const std::lock_guard lock(registry().mutex);
  auto& arenas = registry().arenas;
  for (auto at = arenas.begin(); at != arenas.end();) {
    at = at->second.expired() ? arenas.erase(at) : std::next(at);
  }
  if (file) {
    arenas[*file] = arena;
  }
}

void close_all(const std::vector<int>& descriptors) {
  for (const int descriptor : descriptors) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::vector<std::shared_ptr<Arena>>> share_arenas(Bootstrap& bootstrap,
                                                         const Settings& settings,
                                                         base::Deadline deadline) {
  const auto& members = bootstrap.members();
  const auto ranks = static_cast<uint32_t>(members.size());
  const Rank me = bootstrap.rank();
  NEURON_TRY(made, Arena::create(ArenaLayout::of(ranks).heap + settings.memory_bytes));
  std::vector<std::shared_ptr<Arena>> arenas(ranks);
  arenas[me] = std::move(made);
  if (!settings.shared_memory || ranks == 1) {
    return arenas;
  }
  note(arenas[me]);
  NEURON_TRY(descriptors, bootstrap.exchange_descriptors(arenas[me]->descriptor(), deadline));
  for (Rank i = 0; i < ranks; ++i) {
    if (i == me || descriptors[i] < 0) {
      continue;
    }
    auto arena = arena_of(std::exchange(descriptors[i], -1));
    if (arena && (*arena)->size() < ArenaLayout::of(ranks).heap) {
      arena = fail(CCOM_MISMATCH, "its shared memory has {} bytes, expected at least {}",
                   (*arena)->size(), ArenaLayout::of(ranks).heap);
    }
    if (!arena) {
      close_all(descriptors);
      return arena.error().with("{} cannot use the memory of {}", describe(members[me]),
                                describe(members[i]));
    }
    arenas[i] = std::move(*arena);
  }
  close_all(descriptors);
  return arenas;
}

Result<void> agree(Bootstrap& bootstrap, const Settings& settings, base::Deadline deadline) {
  const std::string mine = ccom::format(
      "order={} shared_memory={} topology={} CCOM_HEARTBEAT_MS={} CCOM_ALGORITHM={} "
      "CCOM_CALIBRATION: {}",
      settings.rank_order ? "rank" : "fast", settings.shared_memory ? 1 : 0,
      settings.topology.empty() ? "hosts" : settings.topology, settings.heartbeat.count(),
      settings.algorithm.empty() ? "auto" : settings.algorithm,
      settings.calibration.empty() ? "built-in" : settings.calibration);
  // Only the beginning of a long text is compared; names of algorithms are shorter.
  const size_t length = std::min<size_t>(mine.size(), 4096);
  NEURON_TRY(
      all, bootstrap.all_gather(std::span(reinterpret_cast<const std::byte*>(mine.data()), length),
                                deadline));
  const auto& members = bootstrap.members();
  for (Rank i = 1; i < all.size(); ++i) {
    if (all[i] != all[0]) {
      return fail(CCOM_MISMATCH,
                  "ranks were started with different settings: {} has \"{}\", {} has \"{}\"; give "
                  "all ranks the same options and environment",
                  describe(members[0]), text_of(all[0]), describe(members[i]), text_of(all[i]));
    }
  }
  return {};
}

bool one_host(const std::vector<Member>& members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& m) { return m.host_id == members.front().host_id; });
}

Result<Group> place_members(const std::vector<Member>& members, const Settings& settings) {
  NEURON_TRY(profile,
             Topology::profile(settings.topology.empty() ? "host" : settings.topology.c_str()));
  // Makes a node for each host, in the order of its first rank.
  std::map<uint64_t, uint32_t> nodes;
  std::map<uint32_t, uint32_t> local;                       // ranks seen, by node
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> cores;  // ranks seen, by node and device
  std::vector<Place> places;
  std::set<uint32_t> devices;
  for (const Member& member : members) {
    devices.insert(member.device);
  }
  for (const Member& member : members) {
    const uint32_t node =
        nodes.emplace(member.host_id, static_cast<uint32_t>(nodes.size())).first->second;
    const uint32_t index = local[node]++;
    Place place{node, 0, index, 0};
    if (!settings.topology.empty()) {
      // Uses the devices that the ranks named; if they named none, fills chip by chip.
      const bool named = devices.size() > 1;
      place.chip = named ? member.device : index / profile.ranks_per_chip;
      place.core = named ? cores[{node, member.device}]++ : index % profile.ranks_per_chip;
      if (place.chip >= profile.chips || place.core >= profile.ranks_per_chip) {
        return fail(CCOM_INVALID,
                    "{} does not fit into topology {}: it would be rank {} of chip {}, a node has "
                    "{} chips with {} ranks each",
                    describe(member), profile.name, place.core, place.chip, profile.chips,
                    profile.ranks_per_chip);
      }
    }
    places.push_back(place);
  }
  if (settings.topology.empty()) {
    for (const auto& [node, count] : local) {
      profile.ranks_per_chip = std::max(profile.ranks_per_chip, count);
    }
  }
  return Group{std::move(places),
               Topology(std::move(profile), static_cast<uint32_t>(nodes.size()))};
}

}  // namespace neuron::ccom
