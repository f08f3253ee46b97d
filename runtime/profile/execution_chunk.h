// SPDX-License-Identifier: Apache-2.0
//
// An execution as a profile has it: the JSON of a chunk of kind kExecution. Pure. Cannot fail.
#ifndef RUNTIME_PROFILE_EXECUTION_CHUNK_H
#define RUNTIME_PROFILE_EXECUTION_CHUNK_H

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/device/core_trace.h"

namespace neuron::runtime {

inline std::string execution_text(const TracedExecution& execution) {
  const neuron_work_record& work = execution.work;
  std::string busy;
  for (const auto ps : work.engine_busy_ps) busy += (busy.empty() ? "" : ",") + std::to_string(ps);
  return format(R"({{"exec_id":{},"failed":{},"begin_ns":{},"end_ns":{},"device_ps":{},"lost":{},)"
                R"("multiply_accumulates":{},"dma_bytes":{},"link_bytes":{},"busy_ps":[{}]}})",
                execution.exec_id, execution.failed, execution.begin_ns, execution.end_ns,
                execution.device_ps, execution.lost, work.multiply_accumulates, work.dma_bytes,
                work.link_bytes, busy);
}

// Of one whose entries and counts are those of an earlier one of the same part. Each execution of a
// program that repeats itself has one, so no memory is allocated for it.
class RepeatedExecutionText {
 public:
  // Valid until the next call.
  std::string_view of(const TracedExecution& execution, uint64_t same_as) {
    end_ = text_.data();
    put("{\"exec_id\":", execution.exec_id);
    put(",\"begin_ns\":", execution.begin_ns);
    put(",\"end_ns\":", execution.end_ns);
    put(",\"same_as\":", same_as);
    *end_++ = '}';
    return {text_.data(), static_cast<size_t>(end_ - text_.data())};
  }

 private:
  static constexpr size_t kLongestNumber = 20;

  void put(std::string_view key, uint64_t value) {
    end_ = std::copy(key.begin(), key.end(), end_);
    end_ = std::to_chars(end_, end_ + kLongestNumber, value).ptr;
  }

  std::array<char, 128 + 4 * kLongestNumber> text_;
  char* end_ = nullptr;
};

}  // namespace neuron::runtime

#endif
