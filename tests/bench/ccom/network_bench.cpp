// SPDX-License-Identifier: Apache-2.0
// between-hosts: all-reduces of the executor between hosts against a ring written straight onto the
// same provider of libfabric. Ranks are processes without shared memory between them; both kinds
// take turns, and a round counts its slowest rank.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/progress/executor.h"
#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/network_ring.h"
#include "tests/support/child.h"

namespace neuron::bench {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kMaxRanks = 4;
constexpr uint32_t kMessage = 4096;
constexpr uint32_t kRounds = 21;
constexpr uint64_t kMaxBytes = 4u << 20;
constexpr milliseconds kPatience{20000};

// What the processes share: a counter of meetings, messages of an exchange, times.
struct Board {
  std::atomic<uint64_t> arrived{0};
  std::atomic<uint64_t> failed{0};
  uint32_t bytes[kMaxRanks] = {};
  std::byte messages[kMaxRanks][kMessage] = {};
  double times[kMaxRanks] = {};
};

bool meet(Board& board, uint32_t ranks, uint64_t& count) {
  ++count;
  // Pairs with the loads of the others: what was written before is seen behind the barrier.
  board.arrived.fetch_add(1, std::memory_order_acq_rel);
  const double deadline = now_seconds() + 60;
  while (board.arrived.load(std::memory_order_acquire) < count * ranks) {
    if (board.failed.load(std::memory_order_relaxed) != 0 || now_seconds() > deadline) return false;
    sched_yield();
  }
  return true;
}

// Gathers addresses through the board; these processes neither die nor abort.
class BoardBootstrap final : public ccom::Bootstrap {
 public:
  BoardBootstrap(Board& board, uint32_t rank, uint32_t ranks, uint64_t& meetings)
      : board_(board), rank_(rank), meetings_(meetings), members_(ranks) {
    for (uint32_t i = 0; i < ranks; ++i) {
      members_[i].rank = i;
      members_[i].host = "bench";
      members_[i].host_id = i;
    }
  }
  ccom::Rank rank() const override { return rank_; }
  const std::vector<ccom::Member>& members() const override { return members_; }
  uint64_t capabilities() const override { return 0; }
  ccom::Result<std::vector<ccom::Bytes>> all_gather(std::span<const std::byte> mine,
                                                    base::Deadline) override {
    if (mine.size() > kMessage) return ccom::fail(CCOM_INVALID, "{} bytes", mine.size());
    board_.bytes[rank_] = static_cast<uint32_t>(mine.size());
    std::memcpy(board_.messages[rank_], mine.data(), mine.size());
    std::vector<ccom::Bytes> all;
    const auto ranks = static_cast<uint32_t>(members_.size());
    if (!meet(board_, ranks, meetings_)) return ccom::fail(CCOM_TIMEOUT, "a rank is missing");
    for (uint32_t i = 0; i < ranks; ++i) {
      all.emplace_back(board_.messages[i], board_.messages[i] + board_.bytes[i]);
    }
    if (!meet(board_, ranks, meetings_)) return ccom::fail(CCOM_TIMEOUT, "a rank is missing");
    return all;
  }
  ccom::Result<std::vector<int>> exchange_descriptors(int, base::Deadline) override {
    return std::vector<int>(members_.size(), -1);
  }
  void on_failure(std::function<void(ccom::Rank, const ccom::Error&)>) override {}
  void abort(const ccom::Error&) override {}
  void tell(ccom::NoticeAbout, uint64_t, const std::string&) override {}
  std::optional<ccom::Notice> told(ccom::NoticeAbout, uint64_t) const override {
    return std::nullopt;
  }
  std::vector<ccom::Rank> dead() const override { return {}; }
  ccom::Result<std::unique_ptr<ccom::Bootstrap>> regroup(const std::vector<ccom::Rank>&,
                                                         base::Deadline) override {
    return ccom::fail(CCOM_UNSUPPORTED, "not in a benchmark");
  }

 private:
  Board& board_;
  ccom::Rank rank_;
  uint64_t& meetings_;
  std::vector<ccom::Member> members_;
};

class Worker {
 public:
  Worker(Board& board, uint32_t rank, uint32_t ranks, std::string provider)
      : board_(board),
        rank_(rank),
        ranks_(ranks),
        provider_(std::move(provider)),
        bootstrap_(board, rank, ranks, meetings_),
        ring_(rank, ranks),
        input_(kMaxBytes / sizeof(float), 1.0f),
        output_(kMaxBytes / sizeof(float)) {}

  bool run() {
    if (!open()) return false;
    for (const uint64_t bytes : {8u, 4096u, 65536u, 262144u, 1048576u, 4194304u}) {
      if (!measure(bytes)) return false;
    }
    return meet(board_, ranks_, meetings_);
  }

 private:
  bool complain(const std::string& sentence) {
    std::fprintf(stderr, "between-hosts, rank %u: %s\n", rank_, sentence.c_str());
    board_.failed = 1;
    return false;
  }

  bool open() {
    ccom::ExecutorContext context;
    context.rank = rank_;
    context.size = ranks_;
    context.bootstrap = &bootstrap_;
    context.arenas.resize(ranks_);
    context.providers = provider_;
    context.local_address = "127.0.0.1";
    context.deadline = base::Deadline::after(kPatience);
    auto executor = ccom::make_network_executor(context);
    if (!executor) return complain(executor.error().sentence);
    executor_ = std::move(*executor);
    ccom::NodeProfile node;
    node.name = "host";
    node.ranks_per_chip = 1;
    ccom::Group group{{}, ccom::Topology(node, ranks_)};
    for (uint32_t i = 0; i < ranks_; ++i) group.places.push_back({i, 0, 0, 0});
    planner_ = std::make_unique<ccom::Planner>(group, ccom::CostParameters{});
    if (!ring_.open(provider_, kMaxBytes)) return complain(ring_.error());
    const auto address = ring_.address();
    const auto addresses = bootstrap_.all_gather(address, context.deadline);
    if (!addresses) return complain(addresses.error().sentence);
    return ring_.connect(*addresses) || complain(ring_.error());
  }

  bool ours(uint64_t bytes) {
    ccom::Signature signature;
    signature.operation = operation_++;
    signature.count = bytes / sizeof(float);
    signature.type = CCOM_FP32;
    const auto done = executor_->run(plan_,
                                     {reinterpret_cast<const std::byte*>(input_.data()),
                                      reinterpret_cast<std::byte*>(output_.data())},
                                     signature, kPatience);
    return done || complain(done.error().sentence);
  }
  bool peer(uint64_t bytes) {
    return ring_.all_reduce(input_.data(), output_.data(), bytes / sizeof(float)) ||
           complain(ring_.error());
  }

  // Seconds of one operation on the slowest rank; negative: failed.
  double round(uint64_t bytes, bool of_ours, uint32_t times) {
    if (!meet(board_, ranks_, meetings_)) return -1;
    const double begin = now_seconds();
    for (uint32_t i = 0; i < times; ++i) {
      if (!(of_ours ? ours(bytes) : peer(bytes))) return -1;
    }
    board_.times[rank_] = (now_seconds() - begin) / times;
    for (uint64_t i : {uint64_t{0}, bytes / sizeof(float) - 1}) {
      if (output_[i] != static_cast<float>(ranks_)) return complain("a sum is wrong"), -1;
    }
    if (!meet(board_, ranks_, meetings_)) return -1;
    return *std::max_element(board_.times, board_.times + ranks_);
  }

  bool measure(uint64_t bytes) {
    ccom::Request request;
    request.operation = CCOM_ALL_REDUCE;
    request.type = CCOM_FP32;
    request.count = bytes / sizeof(float);
    auto plan = planner_->plan(request);
    if (!plan) return complain(plan.error().sentence);
    plan_ = std::make_shared<const ccom::Plan>(std::move(*plan));
    const uint32_t times = bytes <= 65536 ? 20 : bytes <= 1048576 ? 5 : 2;
    std::vector<double> times_peer, ratios;
    for (uint32_t i = 0; i < kRounds; ++i) {
      const double a = round(bytes, true, times);
      const double b = a < 0 ? -1 : round(bytes, false, times);
      if (b < 0) return false;
      // The first ones connect and touch memory.
      if (i >= 2) {
        times_peer.push_back(b);
        ratios.push_back(a / b);
      }
    }
    if (rank_ == 0) print(bytes, times_peer, ratios);
    return true;
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  void print(uint64_t bytes, const std::vector<double>& peers,
             const std::vector<double>& ratios) const {
    Row row;
    row.name = "between-hosts " + provider_ + " " + std::to_string(ranks_) + " ranks " +
               std::to_string(bytes) + " B";
    // Rounds are compared in pairs: neighbours on the machine change from second to second.
    row.peer = median(peers) * 1e6;
    row.ours = median(ratios) * row.peer;
    row.peer_name = "raw libfabric ring";
    row.unit = "us";
    row.bound = Bound::kAtMost;
    row.goal = bytes == 8 ? 0.7 : bytes >= 65536 ? 1.2 : 1.5;
    report(row);
    std::fflush(stdout);
  }

  Board& board_;
  uint32_t rank_;
  uint32_t ranks_;
  std::string provider_;
  uint64_t meetings_ = 0;
  BoardBootstrap bootstrap_;
  NetworkRing ring_;
  std::unique_ptr<ccom::Executor> executor_;
  std::unique_ptr<ccom::Planner> planner_;
  std::shared_ptr<const ccom::Plan> plan_;
  std::vector<float> input_;
  std::vector<float> output_;
  uint64_t operation_ = 0;
};

bool run_ranks(uint32_t ranks, const std::string& provider) {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* board = new (memory) Board;
  std::vector<test::Child> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    children.push_back(test::Child::forked([&] {
      // Both kinds alike: two ranks on one core measure the scheduler.
      cpu_set_t cores;
      CPU_ZERO(&cores);
      CPU_SET(rank % std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)), &cores);
      sched_setaffinity(0, sizeof cores, &cores);
      return std::make_unique<Worker>(*board, rank, ranks, provider)->run() ? 0 : 1;
    }));
  }
  bool good = true;
  for (test::Child& child : children) good = child.wait(std::chrono::minutes(10)) == 0 && good;
  munmap(memory, sizeof(Board));
  return good;
}

bool run_between_hosts() {
  bool good = true;
  for (const uint32_t ranks : {2u, 4u}) good = run_ranks(ranks, "tcp;ofi_rxm") && good;
  return good;
}

const Bench kBetweenHosts("between-hosts", run_between_hosts);

}  // namespace
}  // namespace neuron::bench
