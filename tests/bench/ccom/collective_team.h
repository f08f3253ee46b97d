// SPDX-License-Identifier: Apache-2.0
// Processes that obey one board: the ranks of ours, or those of an MPI. They live through a bench,
// and sleep while another team works.
//
// Callers: a bench, one thread. The destructor ends the processes. Fails: false or a negative time,
// with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_COLLECTIVE_TEAM_H
#define TESTS_BENCH_CCOM_COLLECTIVE_TEAM_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ccom/collective_board.h"
#include "tests/support/process.h"

namespace neuron::bench {

double median(std::vector<double> values);

class Team {
 public:
  // What a rank of ours does in a process of its own: run_worker(), or something like it.
  using Work = std::function<void(board& orders, uint32_t rank)>;

  // No buffer will be larger than `most` bytes.
  Team(std::string name, uint32_t ranks, uint64_t most);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Ranks of ours that meet on this host.
  bool start_ours();
  bool start(const Work& work);
  // `command` starts all ranks of the peer; the path of the board is put behind it.
  bool start_peer(std::vector<std::string> command);

  // Seconds for one collective; negative: it failed.
  double measure(board_operation operation, uint64_t bytes, bool bf16, uint32_t inner);
  const std::string& name() const { return name_; }

 private:
  void publish();
  bool reached(const uint32_t& counter) const;
  bool joined() const { return reached(board_->ready); }

  std::string name_;
  uint32_t ranks_;
  std::string path_;
  board* board_ = nullptr;
  std::vector<test::Child> ranks_of_ours_;
  std::unique_ptr<test::Process> peer_;
};

// How often a batch repeats a collective, from a first look. 0: it failed.
uint32_t repetitions(Team& team, board_operation operation, uint64_t bytes, bool bf16);

}  // namespace neuron::bench

#endif
