// SPDX-License-Identifier: Apache-2.0
// allreduce, reduce-scatter, all-gather, all-to-all, broadcast, bf16: collectives in host memory,
// by ccom_run, against Open MPI and MPICH; every rank compares its whole result after each batch.
// Groups of processes live through a bench and take turns; a cell is the median over rounds of
// (better peer / ours), of the slowest rank's time.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/collective_team.h"

namespace neuron::bench {
namespace {

struct Cell {
  uint64_t bytes;
  double goal;
};

struct Teams {
  Teams(uint32_t ranks, uint64_t most)
      : ours("ours", ranks, most), openmpi("Open MPI", ranks, most), mpich("MPICH", ranks, most) {
    const std::string count = std::to_string(ranks);
    const std::string folder = std::string(NEURON_BUILD_DIR) + "/bench/";
    good = ours.start_ours() &&
           openmpi.start_peer({"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np",
                               count, folder + "collective-openmpi"}) &&
           mpich.start_peer({"mpirun.mpich", "-np", count, folder + "collective-mpich"});
  }
  Team ours, openmpi, mpich;
  bool good = false;
};

bool run_cell(Teams& teams, const std::string& name, board_operation operation, uint32_t ranks,
              const Cell& cell) {
  Team* all[] = {&teams.ours, &teams.openmpi, &teams.mpich};
  uint32_t inner[3];
  for (int i = 0; i < 3; ++i) {
    inner[i] = repetitions(*all[i], operation, cell.bytes, false);
    if (inner[i] == 0) return false;
  }
  const int rounds = cell.bytes >= (4u << 20) ? 7 : cell.bytes > (1u << 20) ? 15 : 41;
  std::vector<double> times[3];
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      times[i].push_back(all[i]->measure(operation, cell.bytes, false, inner[i]));
      if (times[i].back() < 0) return false;
    }
  }
  const int best = median(times[1]) <= median(times[2]) ? 1 : 2;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    ratios.push_back(times[best][round] / times[0][round]);
  }
  Row row;
  row.name = name + "-" + std::to_string(ranks) + "-" + std::to_string(cell.bytes);
  row.ours = 1 / median(times[0]);
  row.peer = row.ours / median(ratios);
  row.peer_name = all[best]->name();
  row.unit = "operations/s";
  row.goal = cell.goal;
  report(row);
  return true;
}

struct Group {
  uint32_t ranks;
  std::vector<Cell> cells;
};

bool run_table(const std::string& name, board_operation operation,
               const std::vector<Group>& groups) {
  bool good = true;
  for (const Group& group : groups) {
    const char* wanted = std::getenv("CCOM_RATIOS_RANKS");
    if (wanted != nullptr && std::atoi(wanted) != static_cast<int>(group.ranks)) continue;
    uint64_t most = 4096;
    for (const Cell& cell : group.cells) most = std::max(most, cell.bytes);
    Teams teams(group.ranks, most);
    if (!teams.good) {
      std::fprintf(stderr, "a group of %u ranks did not come together\n", group.ranks);
      return false;
    }
    for (const Cell& cell : group.cells) {
      if (!run_cell(teams, name, operation, group.ranks, cell)) {
        good = false;
        break;
      }
    }
  }
  return good;
}

constexpr uint64_t kKi = 1024, kMi = 1024 * 1024;

bool allreduce() {
  const std::vector<Cell> four = {{4 * kKi, 3}, {64 * kKi, 5}, {kMi, 3}, {16 * kMi, 3}};
  std::vector<Cell> eight = four;
  eight.insert(eight.begin(), {8, 2});
  return run_table("allreduce", BOARD_ALL_REDUCE,
                   {{2,
                     {{8, 1.5},
                      {64, 1.5},
                      {512, 1.5},
                      {4 * kKi, 4},
                      {64 * kKi, 6},
                      {kMi, 3},
                      {16 * kMi, 2.5},
                      {64 * kMi, 2.5}}},
                    {4, four},
                    {8, eight}});
}

bool reduce_scatter() {
  const std::vector<Cell> cells = {{64 * kKi, 4}, {kMi, 4}, {16 * kMi, 4}, {64 * kMi, 2.5}};
  return run_table("reduce-scatter", BOARD_REDUCE_SCATTER, {{2, cells}, {4, cells}, {8, cells}});
}

bool blocks(const char* name, board_operation operation) {
  const std::vector<Cell> many = {{4 * kKi, 0.8}, {64 * kKi, 2}, {kMi, 0.9}, {16 * kMi, 0.9}};
  return run_table(
      name, operation,
      {{2, {{4 * kKi, 1.5}, {64 * kKi, 1.5}, {kMi, 0.9}, {16 * kMi, 0.9}}}, {4, many}, {8, many}});
}
bool all_gather() { return blocks("all-gather", BOARD_ALL_GATHER); }
bool all_to_all() { return blocks("all-to-all", BOARD_ALL_TO_ALL); }

bool broadcast() {
  const std::vector<Cell> many = {{4 * kKi, 0.8}, {64 * kKi, 2}};
  return run_table("broadcast", BOARD_BROADCAST,
                   {{2, {{4 * kKi, 2.5}, {64 * kKi, 2.5}}}, {4, many}, {8, many}});
}

// Equal bytes in bf16 and in fp32, both ours.
bool bf16() {
  Team ours("ours", 2, 16 * kMi);
  if (!ours.start_ours()) return false;
  for (const uint64_t bytes : {64 * kKi, kMi, 16 * kMi}) {
    const uint32_t inner = repetitions(ours, BOARD_ALL_REDUCE, bytes, false);
    if (inner == 0 || repetitions(ours, BOARD_ALL_REDUCE, bytes, true) == 0) return false;
    std::vector<double> ratios, times;
    for (int round = 0; round < 15; ++round) {
      const double fp32 = ours.measure(BOARD_ALL_REDUCE, bytes, false, inner);
      times.push_back(ours.measure(BOARD_ALL_REDUCE, bytes, true, inner));
      if (fp32 < 0 || times.back() < 0) return false;
      ratios.push_back(times.back() / fp32);
    }
    Row row;
    row.name = "bf16-2-" + std::to_string(bytes);
    row.ours = median(times);
    row.peer = row.ours / median(ratios);
    row.peer_name = "fp32 of equal bytes";
    row.unit = "s";
    row.goal = 1.8;
    row.bound = Bound::kAtMost;
    report(row);
  }
  return true;
}

const Bench kAllReduce("allreduce", allreduce);
const Bench kReduceScatter("reduce-scatter", reduce_scatter);
const Bench kAllGather("all-gather", all_gather);
const Bench kAllToAll("all-to-all", all_to_all);
const Bench kBroadcast("broadcast", broadcast);
const Bench kBf16("bf16", bf16);

}  // namespace
}  // namespace neuron::bench
