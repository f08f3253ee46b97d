// SPDX-License-Identifier: Apache-2.0
// Some or all ranks of a job as threads of this process. Callers: launcher. Owns: threads and
// participants. Fails to be made with the library's sentence; later failures go to the sink.
#ifndef TOOLS_NCCOM_TEST_RUN_RANK_THREADS_H
#define TOOLS_NCCOM_TEST_RUN_RANK_THREADS_H

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/nccom-test/run/launcher.h"
#include "tools/nccom-test/run/participant.h"

namespace neuron::nccom {

class RankThreads {
 public:
  // `root` empty: all ranks are here, and join without sockets.
  static ccom::Result<std::unique_ptr<RankThreads>> start(const RunContext& context,
                                                          const WorkerPart& part,
                                                          const std::string& root,
                                                          const std::string& secret, Sink sink);
  ~RankThreads();

  void abort();
  bool ended(std::chrono::milliseconds patience);
  // Whether a rank has ended an operation since the last call. Callers: one thread.
  bool got_on();

 private:
  struct Rank;
  RankThreads() = default;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::atomic<size_t> running_{0};
  uint64_t seen_ = 0;  // of all ranks' progress
};

}  // namespace neuron::nccom

#endif
