// SPDX-License-Identifier: Apache-2.0
// One rank of a network test: told by lines on standard input, answers with events.
//
// "join COMM RANK SIZE ROOT TIMEOUT_MS" makes a communicator ("joined COMM" or "refused COMM ..."),
// "run OPERATIONS" does that many operations one after another (0: until one fails) and says "ran",
// "leave" aborts and frees the communicator and says "left". Ends with its input.
#include <ccom/ccom.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "tests/system/network/history.h"
#include "tests/system/network/operation.h"

namespace neuron::network {
namespace {

uint64_t now_ms() {
  // The steady clock is the same for all processes of a host.
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class Rank {
 public:
  void join(std::istringstream& words) {
    std::string root;
    ccom_options_t options{};
    words >> comm_number_ >> rank_ >> size_ >> root >> timeout_ms_;
    // Joining may take longer on a busy host; only operations are measured.
    options.timeout_ms = 20000;
    options.size_of = sizeof options;
    options.root = root.c_str();
    options.secret = "history";
    options.memory_bytes = 16u << 20;
    // Those over TCP take turns, by the job's port.
    options.providers = (root.back() - '0') % 2 == 0 ? "stream" : "tcp";
    const auto status = ccom_init(rank_, size_, &options, &comm_);
    if (status == CCOM_SUCCESS) {
      say("joined " + std::to_string(comm_number_));
    } else {
      say("refused " + std::to_string(comm_number_) + " " + ccom_last_error());
    }
  }

  void run(uint64_t operations) {
    for (uint64_t s = 0; comm_ != nullptr && (operations == 0 || s < operations); ++s) {
      if (!one(s)) break;
    }
    say("ran");
  }

  void leave() {
    if (comm_ != nullptr) {
      ccom_abort(comm_);
      ccom_free(comm_);
    }
    comm_ = nullptr;
    say("left");
  }

 private:
  bool one(uint64_t sequence) {
    const TestOperation operation = operation_of(sequence, size_);
    const auto input = input_of(operation, rank_, comm_number_, sequence);
    std::vector<uint32_t> output(operation.output_elements);
    Event event;
    event.rank = rank_;
    event.comm = comm_number_;
    event.sequence = sequence;
    event.operation = operation.name;
    event.bytes = operation.output_elements * 4;
    event.time_ms = now_ms();
    say(to_line(event));
    ccom_collective_t collective{};
    collective.size_of = sizeof collective;
    collective.operation = operation.operation;
    collective.type = CCOM_UINT32;
    collective.input = input.data();
    collective.output = output.data();
    collective.count = operation.count;
    collective.timeout_ms = timeout_ms_;
    const auto status = ccom_run(comm_, &collective);
    event.time_ms = now_ms();
    event.kind = status == CCOM_SUCCESS ? Event::Kind::kOk : Event::Kind::kError;
    if (status == CCOM_SUCCESS) {
      event.hash = hash_of(output);
    } else {
      event.text = std::string(ccom_status_name(status)) + " " + ccom_last_error();
    }
    say(to_line(event));
    return status == CCOM_SUCCESS;
  }

  ccom_comm_t* comm_ = nullptr;
  uint32_t comm_number_ = 0, rank_ = 0, size_ = 0, timeout_ms_ = 0;
};

}  // namespace
}  // namespace neuron::network

int main() {
  neuron::network::Rank rank;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "join") {
      rank.join(words);
    } else if (verb == "run") {
      uint64_t operations = 0;
      words >> operations;
      rank.run(operations);
    } else if (verb == "leave") {
      rank.leave();
    }
  }
  return 0;
}
