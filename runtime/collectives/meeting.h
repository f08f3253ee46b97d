// SPDX-License-Identifier: Apache-2.0
//
// Exchange of small messages between the ranks of one process: each rank gives one and gets all.
// Callers: World, one thread a rank. Thread-safe: yes. Owns the messages of exchanges under way. A
// rank may be one exchange ahead of the others. Fails: NRT_TIMEOUT with the ranks that did not
// come. The message of this rank is then taken back, so that it may come again.
#ifndef RUNTIME_COLLECTIVES_MEETING_H
#define RUNTIME_COLLECTIVES_MEETING_H

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/base/deadline.h"
#include "runtime/base/error.h"

namespace neuron::runtime {

using Message = std::vector<std::byte>;

class Meeting {
 public:
  explicit Meeting(uint32_t size) : size_(size), exchanges_(size) {}

  Result<std::vector<Message>> exchange(uint32_t rank, std::span<const std::byte> mine,
                                        base::Deadline deadline);

  // The number of exchanges of the rank so far, including one in which it waits now. After an
  // exchange all ranks have the same number.
  uint64_t exchanges(uint32_t rank);
  // Notes that an execution of the rank has failed: executions on other ranks may wait for its
  // data. A failure has the number exchanges() of its rank. Of failures with the same number the
  // first is kept, because it causes the others. Only the kFailures highest numbers are kept.
  void note_failure(uint32_t rank, const std::string& sentence);
  // Why a program whose ranks connected in exchange `number` fails: the first failure with this
  // number or a higher one.
  std::optional<std::string> failure_since(uint64_t number);
  static constexpr size_t kFailures = 64;

 private:
  struct Round {
    std::vector<std::optional<Message>> given;
    uint32_t arrived = 0;
    uint32_t taken = 0;
  };

  const uint32_t size_;
  std::mutex mutex_;  // all below
  std::condition_variable complete_;
  std::map<uint64_t, Round> rounds_;
  std::vector<uint64_t> exchanges_;  // of each rank so far
  std::map<uint64_t, std::string> failures_;
};

// "rank 1 has failed (...)": the sentence for other ranks.
std::string describe_failure_of(uint32_t rank, const std::string& sentence);

// "ranks 3, 5-7 of 8": the ranks that are false in `there`.
std::string missing_ranks(const std::vector<bool>& there);

}  // namespace neuron::runtime

#endif
