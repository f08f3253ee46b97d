// SPDX-License-Identifier: Apache-2.0
// hosts-allreduce, hosts-allgather, hosts-alltoall: ranks of two and of four hosts, which are
// network namespaces that a bridge joins, against Open MPI over tcp between the same namespaces.
// hosts-device-allreduce: device buffers of two instances, each behind a daemon in its namespace,
// against libccom on host buffers there. Both sides take turns; a cell is the median over rounds of
// the ratio of the slowest ranks' times. Behind a cell stands how fast both sides are in terms of
// plain sockets that only move bytes between the hosts (socket_worker.h), which take turns with
// them.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/bridged_hosts.h"
#include "tests/bench/ccom/collective_team.h"
#include "tests/bench/ccom/collective_worker.h"
#include "tests/bench/ccom/device_worker.h"
#include "tests/bench/ccom/socket_worker.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

constexpr uint64_t kKi = 1024, kMi = 1024 * 1024;
constexpr uint16_t kPort = 45321, kDevicePort = 45421, kSocketPort = 45521;
constexpr int kShortRounds = 21, kLongRounds = 7;

// Ranks of a host follow each other.
Team::Work host_work(const BridgedHosts& hosts, uint32_t each, uint32_t ranks) {
  const std::string root = hosts.address(0) + ":" + std::to_string(kPort);
  return [&hosts, each, ranks, root](board& orders, uint32_t rank) {
    if (hosts.enter(rank / each)) run_worker(orders, root, rank, ranks);
  };
}

// What mpirun calls in the place of ssh: AGENT ADDRESS COMMAND. Each namespace has a host name of
// its own, so that nothing takes two of them for one host.
bool write_agent(const std::string& path, const BridgedHosts& hosts, uint32_t count) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::fputs("#!/bin/sh\naddress=$1\nshift\ncase $address in\n", file);
  for (uint32_t host = 0; host < count; ++host) {
    std::fprintf(file, "%s) space=%s ;;\n", hosts.address(host).c_str(), hosts.name(host).c_str());
  }
  std::fputs(
      "*) exit 1 ;;\nesac\n"
      "exec ip netns exec \"$space\" unshare --uts sh -c \"hostname $space; exec $*\"\n",
      file);
  return std::fclose(file) == 0 && chmod(path.c_str(), 0700) == 0;
}

std::vector<std::string> open_mpi(const BridgedHosts& hosts, uint32_t count, uint32_t each,
                                  const std::string& agent) {
  std::string list;
  for (uint32_t host = 0; host < count; ++host) {
    list += (host == 0 ? "" : ",") + hosts.address(host) + ":" + std::to_string(each);
  }
  // Shared memory within a host, as ours has it; the device is named, so that none is looked for.
  // Each namespace seems to have all processors, so its ranks would spin where they share one.
  return {agent,
          hosts.address(0),
          "mpirun.openmpi",
          "--host",
          list,
          "--map-by",
          "slot",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "plm_rsh_agent",
          agent,
          "--mca",
          "mpi_yield_when_idle",
          "1",
          "--mca",
          "pml",
          "ob1",
          "--mca",
          "btl",
          "tcp,vader,self",
          "--mca",
          "btl_tcp_if_include",
          "eth0",
          "--mca",
          "oob_tcp_if_include",
          "eth0",
          "-np",
          std::to_string(count * each),
          std::string(NEURON_BUILD_DIR) + "/bench/collective-openmpi"};
}

Team::Work socket_work(const BridgedHosts& hosts, uint32_t count, uint32_t each) {
  SocketWork work{.addresses = {}, .port = kSocketPort, .each = each, .rank = 0};
  for (uint32_t host = 0; host < count; ++host) work.addresses.push_back(hosts.address(host));
  return [&hosts, work](board& orders, uint32_t rank) mutable {
    work.rank = rank;
    if (hosts.enter(rank / work.each)) run_socket_worker(orders, work);
  };
}

// Ours in terms of the peer, as operations a second; `sockets`, if given, are shown beside both.
bool run_cell(Team& ours, Team& peer, Team* sockets, const std::string& name,
              board_operation operation, uint64_t bytes, double goal) {
  std::vector<Team*> teams = {&ours, &peer};
  if (sockets != nullptr) teams.push_back(sockets);
  std::vector<uint32_t> inner;
  for (Team* team : teams) {
    inner.push_back(repetitions(*team, operation, bytes, false));
    if (inner.back() == 0) return false;
  }
  const int rounds = bytes > kMi ? kLongRounds : kShortRounds;
  std::vector<double> times, ratios, of_sockets[2];
  for (int round = 0; round < rounds; ++round) {
    double seconds[3] = {};
    for (size_t i = 0; i < teams.size(); ++i) {
      seconds[i] = teams[i]->measure(operation, bytes, false, inner[i]);
      if (seconds[i] < 0) return false;
    }
    times.push_back(seconds[0]);
    ratios.push_back(seconds[1] / seconds[0]);
    for (int side = 0; side < 2; ++side) of_sockets[side].push_back(seconds[2] / seconds[side]);
  }
  Row row;
  row.name = name;
  row.ours = 1 / median(times);
  row.peer = row.ours / median(ratios);
  row.peer_name = peer.name();
  row.unit = "operations/s";
  row.goal = goal;
  report(row);
  if (sockets == nullptr) return true;
  std::printf("{\"name\":\"%s-sockets\", \"ours_of_sockets\":%.3f, \"peer_of_sockets\":%.3f}\n",
              name.c_str(), median(of_sockets[0]), median(of_sockets[1]));
  std::fflush(stdout);
  return true;
}

bool between_hosts(const std::string& name, board_operation operation,
                   const std::vector<uint64_t>& sizes, double goal) {
  constexpr uint32_t kEach = 2;
  const test::Folder folder;
  for (const uint32_t count : {2u, 4u}) {
    const uint32_t ranks = count * kEach;
    const char* wanted = std::getenv("CCOM_RATIOS_RANKS");
    if (wanted != nullptr && std::atoi(wanted) != static_cast<int>(ranks)) continue;
    const BridgedHosts hosts(count);
    const std::string agent = folder.path("agent");
    if (!hosts.ready() || !write_agent(agent, hosts, count)) return false;
    Team ours("ours", ranks, sizes.back()), peer("Open MPI over tcp", ranks, sizes.back()),
        sockets("plain sockets", ranks, sizes.back());
    if (!ours.start(host_work(hosts, kEach, ranks)) ||
        !sockets.start(socket_work(hosts, count, kEach)) ||
        !peer.start_peer(open_mpi(hosts, count, kEach, agent))) {
      std::fprintf(stderr, "%s: %u ranks of %u hosts did not come together\n", name.c_str(), ranks,
                   count);
      return false;
    }
    for (const uint64_t bytes : sizes) {
      const std::string cell = name + "-" + std::to_string(count) + "x" + std::to_string(kEach) +
                               "-" + std::to_string(bytes);
      if (!run_cell(ours, peer, &sockets, cell, operation, bytes, goal)) return false;
    }
  }
  return true;
}

bool hosts_all_reduce() {
  return between_hosts("hosts-allreduce", BOARD_ALL_REDUCE,
                       {8, 512, 4 * kKi, 64 * kKi, 512 * kKi, kMi, 16 * kMi, 64 * kMi}, 1.2);
}
bool hosts_all_gather() {
  return between_hosts("hosts-allgather", BOARD_ALL_GATHER,
                       {4 * kKi, 64 * kKi, kMi, 16 * kMi, 64 * kMi}, 1.0);
}
bool hosts_all_to_all() {
  return between_hosts("hosts-alltoall", BOARD_ALL_TO_ALL,
                       {4 * kKi, 64 * kKi, kMi, 16 * kMi, 64 * kMi}, 1.0);
}

bool hosts_device_all_reduce() {
  constexpr uint32_t kHosts = 2, kEach = 4, kRanks = kHosts * kEach;
  constexpr uint64_t kMost = 16 * kMi;
  const BridgedHosts hosts(kHosts);
  if (!hosts.ready()) return false;
  const test::Folder folder;
  std::vector<std::unique_ptr<test::Daemon>> daemons;
  for (uint32_t host = 0; host < kHosts; ++host) {
    daemons.push_back(std::make_unique<test::Daemon>(
        folder, "trn1.32xlarge",
        test::Daemon::Options{.name = hosts.name(host),
                              .before = {"ip", "netns", "exec", hosts.name(host)},
                              .arguments = {}}));
  }
  Team devices("device buffers", kRanks, kMost), buffers("libccom on host buffers", kRanks, kMost);
  const std::string root = hosts.address(0) + ":" + std::to_string(kDevicePort);
  const Team::Work work = [&](board& orders, uint32_t rank) {
    const uint32_t host = rank / kEach;
    if (!hosts.enter(host)) return;
    run_device_worker(orders, {.emulator = daemons[host]->emulator(),
                               .root = root,
                               .core = rank % kEach,
                               .rank = rank,
                               .ranks = kRanks});
  };
  if (!buffers.start(host_work(hosts, kEach, kRanks)) || !devices.start(work)) {
    std::fprintf(stderr, "hosts-device-allreduce: the ranks did not come together\n");
    return false;
  }
  bool good = true;
  for (const uint64_t bytes : {64 * kKi, kMi, kMost}) {
    good = good &&
           run_cell(devices, buffers, nullptr, "hosts-device-allreduce-" + std::to_string(bytes),
                    BOARD_ALL_REDUCE, bytes, 0.8);
  }
  return good;
}

const Bench kHostsAllReduce("hosts-allreduce", hosts_all_reduce);
const Bench kHostsAllGather("hosts-allgather", hosts_all_gather);
const Bench kHostsAllToAll("hosts-alltoall", hosts_all_to_all);
const Bench kHostsDevice("hosts-device-allreduce", hosts_device_all_reduce);

}  // namespace
}  // namespace neuron::bench
