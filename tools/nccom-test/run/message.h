// SPDX-License-Identifier: Apache-2.0
// What a rank tells the collector: where it is, how long operations took, what failed. Between
// processes a message is one line of text. Callers: ranks write, the collector reads.
// Thread-safe: values. Fails: any other line is not a message (and is shown as output).
#ifndef TOOLS_NCCOM_TEST_RUN_MESSAGE_H
#define TOOLS_NCCOM_TEST_RUN_MESSAGE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::nccom {

struct Message {
  enum class Kind : uint8_t {
    kAt,       // rank begins something: text
    kDone,     // a block's step: times, algorithm in text
    kSkipped,  // the rank does not take part in the block
    kFailed,   // a step cannot be done; the rank goes on with the next one: text
    kBroken,   // the rank ends: text
    kEnd,      // the rank is through
    kGetsOn,   // ranks of the process of this one have ended operations since the last message
  };
  Kind kind = Kind::kAt;
  uint32_t rank = 0;
  uint32_t phase = 0;
  uint32_t block = 0;
  uint32_t step = 0;
  uint64_t compared = 0;  // results, each with that of the host
  uint64_t size = 0, count = 0, total_input = 0, total_output = 0;
  std::vector<double> times_us;
  std::string text;  // one line
};

std::string to_line(const Message& message);  // without the line's end
std::optional<Message> from_line(std::string_view line);

}  // namespace neuron::nccom

#endif
