// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/result_check.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "ccom/request/layout.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

// Results that are right may differ in rounding; so many of them are remembered.
constexpr size_t kMostDigests = 16;
// Between the seeds of inputs that iterations take in turn.
constexpr uint64_t kNextInput = 0xA0761D6478BD642Fu;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Two results that differ in one word of eight bytes always have different digests.
size_t digest_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>{}(text_of(bytes));
}

}  // namespace

ResultCheck::ResultCheck(Participant& participant, const std::vector<BlockCase>& cases,
                         const Job& job, Settings settings)
    : participant_(participant),
      cases_(cases),
      job_(job),
      settings_(std::move(settings)),
      blocks_(cases.size()) {}

uint32_t ResultCheck::turn_of(size_t iteration) const {
  return static_cast<uint32_t>(iteration % participant_.inputs_in_turn());
}

Data ResultCheck::data_of(const Work& work, uint32_t turn) const {
  return Data(settings_.seed + turn * kNextInput, settings_.ones, work.type, work.reduction,
              ccom::reduces(work.operation) ? work.ranks : 1);
}

Result<void> ResultCheck::begin() {
  for (size_t b = 0; b < cases_.size(); ++b) {
    const BlockCase& block = cases_[b];
    if (!block.takes_part) continue;
    if (block.in_place && participant_.results_of(b) < block.repetitions) {
      return fail(CCOM_UNSUPPORTED,
                  "{} in place, {} times in an iteration, has only its last result on the device, "
                  "which --check cannot compute; leave out --check or in_place",
                  operation_name(block.what.works.front().operation), block.repetitions);
    }
    for (size_t w = 0; w < block.what.works.size(); ++w) {
      const Work& work = block.what.works[w];
      WorkState& state = blocks_[b].works.emplace_back();
      for (uint32_t turn = 0; turn < participant_.inputs_in_turn(); ++turn) {
        auto& input =
            state.inputs.emplace_back(work.input_elements(block.place) * type_size(work.type));
        data_of(work, turn).fill(participant_.rank(), 0, input);
        state.digests.emplace_back();
      }
      for (size_t set = 0; set < participant_.sets(); ++set) {
        NEURON_CHECK(participant_.write({b, w, set}, state.inputs[turn_of(set)]));
      }
    }
  }
  return {};
}

Result<void> ResultCheck::look(size_t first, size_t last, bool at_end) {
  for (size_t iteration = first; iteration <= last; ++iteration) {
    const size_t set = iteration % participant_.sets();
    for (size_t b = 0; b < cases_.size(); ++b) {
      if (!cases_[b].takes_part) continue;
      for (size_t w = 0; w < blocks_[b].works.size(); ++w) {
        for (uint32_t r = 0; r < participant_.results_of(b); ++r) {
          NEURON_CHECK(look_at({b, w, set, r}, iteration, at_end && iteration == last));
        }
        if (at_end) continue;
        const uint32_t next = turn_of(iteration + participant_.sets());
        NEURON_CHECK(participant_.renew({b, w, set}, blocks_[b].works[w].inputs[next]));
      }
    }
  }
  return {};
}

Result<void> ResultCheck::look_at(const Slot& slot, size_t iteration, bool whole) {
  BlockState& state = blocks_[slot.block];
  const BlockCase& block = cases_[slot.block];
  const Work& work = block.what.works[slot.work];
  const uint32_t turn = turn_of(iteration);
  NEURON_TRY(output, participant_.result(slot));
  if (output.empty()) return {};
  ++state.compared;
  std::vector<size_t>& right = state.works[slot.work].digests[turn];
  const size_t digest = digest_of(output);
  const bool known = std::find(right.begin(), right.end(), digest) != right.end();
  if (known && !whole) return {};
  const auto wrong =
      verify(data_of(work, turn), work, block.place, block.ranks, output, !block.in_place);
  if (wrong) {
    note(slot, iteration, *wrong, output);
  } else if (!known && right.size() < kMostDigests) {
    right.push_back(digest);
  }
  return {};
}

void ResultCheck::note(const Slot& slot, size_t iteration, const Mismatch& wrong,
                       std::span<const std::byte> output) {
  BlockState& state = blocks_[slot.block];
  if (++state.wrong != 1) return;
  const BlockCase& block = cases_[slot.block];
  const Work& work = block.what.works[slot.work];
  std::string which = iteration_name(job_, iteration);
  if (participant_.results_of(slot.block) > 1) {
    which += format(", repetition {} of {}", slot.repetition + 1, block.repetitions);
  }
  state.sentence = format("rank {}, {}, {}: output element {} (byte {}) is {}, expected {}",
                          participant_.rank(), operation_name(work.operation), which, wrong.element,
                          wrong.element * type_size(work.type), wrong.found, wrong.expected);
  state.files = dump(slot, turn_of(iteration), output);
}

std::string ResultCheck::mismatch(size_t block) const {
  const BlockState& state = blocks_[block];
  if (state.wrong == 0) return "";
  std::string text = state.sentence;
  if (state.wrong > 1) {
    text += format("; wrong are {} of the {} results of this rank", state.wrong, state.compared);
  }
  return text + state.files;
}

std::string ResultCheck::dump(const Slot& slot, uint32_t turn,
                              std::span<const std::byte> output) const {
  const BlockCase& block = cases_[slot.block];
  const Work& work = block.what.works[slot.work];
  const std::string stem =
      format("{}/nccom-test-{}-{}-rank{}", settings_.dump_folder, operation_name(work.operation),
             block.what.size, participant_.rank());
  const auto write = [&](const char* name, std::span<const std::byte> bytes) {
    return write_text(stem + name, std::string(text_of(bytes)));
  };
  for (const auto& written :
       {write("-input.bin", blocks_[slot.block].works[slot.work].inputs[turn]),
        write("-output.bin", output),
        write("-golden.bin", golden(data_of(work, turn), work, block.place, block.ranks))}) {
    if (!written) return "; the buffers could not be kept: " + written.error().sentence;
  }
  return "; see " + stem + "-{input,output,golden}.bin";
}

}  // namespace neuron::nccom
