// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/collective_team.h"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/ccom/collective_worker.h"
#include "tests/support/free_port.h"

namespace neuron::bench {
namespace {

constexpr double kPatience = 60;  // seconds that a group may take for anything
// Seconds of a batch of repetitions, if they fit: short ones where many fit, since then most of
// them escape the scheduler, and the median ignores the others.
constexpr double kBatch = 0.008, kShortBatch = 0.001, kShort = 500e-6, kLong = 0.01;

}  // namespace

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

Team::Team(std::string name, uint32_t ranks, uint64_t most)
    : name_(std::move(name)), ranks_(ranks) {
  char path[] = "/tmp/ccom-ratios-XXXXXX";
  const int file = mkstemp(path);
  path_ = path;
  if (file < 0 || ftruncate(file, sizeof(board)) != 0) return;
  close(file);
  board_ = board_map(path);
  if (board_ != nullptr) board_->most = most;
}

Team::~Team() {
  if (board_ != nullptr) {
    board_->operation = BOARD_END;
    publish();
    munmap(board_, sizeof(board));
  }
  for (test::Child& rank : ranks_of_ours_) rank.wait(std::chrono::seconds(2));
  if (peer_ != nullptr) peer_->wait(std::chrono::seconds(2));
  unlink(path_.c_str());
}

bool Team::start_ours() {
  const std::string root = "127.0.0.1:" + std::to_string(test::free_port());
  return start(
      [&, ranks = ranks_](board& orders, uint32_t rank) { run_worker(orders, root, rank, ranks); });
}

bool Team::start(const Work& work) {
  if (board_ == nullptr) return false;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    ranks_of_ours_.push_back(test::Child::forked([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      work(*board_, rank);
      return 0;
    }));
  }
  return joined();
}

bool Team::start_peer(std::vector<std::string> command) {
  if (board_ == nullptr) return false;
  command.push_back(path_);
  const test::Environment settings = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                      // Huge pages for the peer's buffers.
                                      {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
  peer_ = std::make_unique<test::Process>(command, settings, test::Process::kSameError);
  if (joined()) return true;
  std::fprintf(stderr, "%s: %s %s\n", name_.c_str(), command.front().c_str(),
               peer_->wait(std::chrono::milliseconds(0)).sentence().c_str());
  return false;
}

double Team::measure(board_operation operation, uint64_t bytes, bool bf16, uint32_t inner) {
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

void Team::publish() {
  __atomic_add_fetch(&board_->order, 1, __ATOMIC_ACQ_REL);
  syscall(SYS_futex, &board_->order, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

bool Team::reached(const uint32_t& counter) const {
  const double end = now_seconds() + kPatience;
  while (__atomic_load_n(&counter, __ATOMIC_ACQUIRE) < ranks_) {
    if (now_seconds() > end || board_->failed != 0) return false;
    usleep(200);
  }
  return true;
}

uint32_t repetitions(Team& team, board_operation operation, uint64_t bytes, bool bf16) {
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

}  // namespace neuron::bench
