// SPDX-License-Identifier: Apache-2.0
// allreduce, reduce-scatter, all-gather, all-to-all, broadcast, bf16: collectives in host memory,
// by ccom_run, against Open MPI and MPICH; every rank compares its whole result after each batch.
// Groups of processes live through a bench and take turns; a cell is the median over rounds of
// (better peer / ours), of the slowest rank's time.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/collective_worker.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

constexpr double kPatience = 60;  // seconds that a group may take for anything
// Seconds of a batch of repetitions, if they fit: short ones where many fit, since then most of
// them escape the scheduler, and the median ignores the others.
constexpr double kBatch = 0.008, kShortBatch = 0.001, kShort = 500e-6, kLong = 0.01;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

std::string free_root() { return "127.0.0.1:" + std::to_string(test::free_port()); }

// Processes that obey one board.
class Team {
 public:
  Team(std::string name, uint32_t ranks, uint64_t most) : name_(std::move(name)), ranks_(ranks) {
    char path[] = "/tmp/ccom-ratios-XXXXXX";
    const int file = mkstemp(path);
    path_ = path;
    if (file < 0 || ftruncate(file, sizeof(board)) != 0) return;
    close(file);
    board_ = board_map(path);
    if (board_ != nullptr) board_->most = most;
  }
  ~Team() {
    if (board_ != nullptr) {
      board_->operation = BOARD_END;
      publish();
      munmap(board_, sizeof(board));
    }
    for (test::Child& rank : ranks_of_ours_) rank.wait(std::chrono::seconds(2));
    if (peer_ != nullptr) peer_->wait(std::chrono::seconds(2));
    unlink(path_.c_str());
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool start_ours() {
    if (board_ == nullptr) return false;
    const std::string root = free_root();
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      ranks_of_ours_.push_back(test::Child::forked([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_worker(*board_, root, rank, ranks_);
        return 0;
      }));
    }
    return joined();
  }

  bool start_peer(std::vector<std::string> command) {
    if (board_ == nullptr) return false;
    command.push_back(path_);
    const test::Environment settings = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                        // Huge pages for the peer's buffers.
                                        {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
    peer_ = std::make_unique<test::Process>(command, settings, "/dev/stderr");
    return joined();
  }

  // Seconds for one collective; negative: it failed.
  double measure(board_operation operation, uint64_t bytes, bool bf16, uint32_t inner) {
    board_->operation = operation;
    board_->bytes = bytes;
    board_->bf16 = bf16;
    board_->inner = inner;
    __atomic_store_n(&board_->finished, 0, __ATOMIC_RELEASE);
    publish();
    if (!reached(board_->finished) || board_->failed != 0) {
      std::fprintf(stderr, "%s with %u ranks failed at %llu bytes\n", name_.c_str(), ranks_,
                   static_cast<unsigned long long>(bytes));
      return -1;
    }
    return *std::max_element(board_->seconds, board_->seconds + ranks_) / inner;
  }
  const std::string& name() const { return name_; }

 private:
  void publish() {
    __atomic_add_fetch(&board_->order, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &board_->order, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  bool reached(const uint32_t& counter) const {
    const double end = now_seconds() + kPatience;
    while (__atomic_load_n(&counter, __ATOMIC_ACQUIRE) < ranks_) {
      if (now_seconds() > end || board_->failed != 0) return false;
      usleep(200);
    }
    return true;
  }
  bool joined() const { return reached(board_->ready); }

  std::string name_;
  uint32_t ranks_;
  std::string path_;
  board* board_ = nullptr;
  std::vector<test::Child> ranks_of_ours_;
  std::unique_ptr<test::Process> peer_;
};

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

// Repetitions of a batch, from a first look.
uint32_t batch(Team& team, board_operation operation, uint64_t bytes, bool bf16) {
  double once = team.measure(operation, bytes, bf16, 2);
  // Warm, with enough repetitions to tell, and the best of some, since the host has others to
  // serve.
  for (int i = 0; i < 4 && once >= 0 && once < kLong; ++i) {
    const double again = team.measure(operation, bytes, bf16, 20);
    once = again < 0 ? again : std::min(once, again);
  }
  if (once < 0) return 0;
  return static_cast<uint32_t>(
      std::clamp((once < kShort ? kShortBatch : kBatch) / once, 1.0, 4000.0));
}

bool run_cell(Teams& teams, const std::string& name, board_operation operation, uint32_t ranks,
              const Cell& cell) {
  Team* all[] = {&teams.ours, &teams.openmpi, &teams.mpich};
  uint32_t inner[3];
  for (int i = 0; i < 3; ++i) {
    inner[i] = batch(*all[i], operation, cell.bytes, false);
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
    const uint32_t inner = batch(ours, BOARD_ALL_REDUCE, bytes, false);
    if (inner == 0 || batch(ours, BOARD_ALL_REDUCE, bytes, true) == 0) return false;
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
