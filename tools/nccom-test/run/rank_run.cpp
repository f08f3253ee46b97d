// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/rank_run.h"

#include <algorithm>

#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/data.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

// True if a step with this error can be skipped: the communicator stays usable.
bool goes_on(const ccom::Error& error) {
  return error.status == CCOM_INVALID || error.status == CCOM_UNSUPPORTED;
}

class Run {
 public:
  Run(Participant& participant, const Job& job, const RankSettings& settings, const Sink& sink)
      : participant_(participant), job_(job), settings_(settings), sink_(sink) {}

  Result<void> all() {
    for (phase_ = 0; phase_ < job_.phases.size(); ++phase_) {
      const Phase& phase = job_.phases[phase_];
      tell(Message::Kind::kAt, 0, "forming groups");
      NEURON_CHECK(participant_.enter(phase));
      for (step_ = 0; step_ < phase.steps(); ++step_) {
        const auto done = step(phase);
        if (!done && !goes_on(done.error())) return done.error();
        if (!done) {
          for (size_t b = 0; b < phase.blocks.size(); ++b) {
            tell(Message::Kind::kFailed, b, done.error().sentence);
          }
        }
      }
    }
    return {};
  }

  void tell(Message::Kind kind, size_t block, const std::string& text) {
    Message message = at(kind, block);
    message.text = text;
    sink_(message);
  }

 private:
  Message at(Message::Kind kind, size_t block) const {
    Message message;
    message.kind = kind;
    message.rank = participant_.rank();
    message.phase = static_cast<uint32_t>(phase_);
    message.block = static_cast<uint32_t>(block);
    message.step = static_cast<uint32_t>(step_);
    return message;
  }

  std::string what(const Phase& phase) const {
    std::string text;
    for (size_t b = 0; b < phase.blocks.size(); ++b) {
      const PhaseBlock& block = phase.blocks[b];
      text += format("{}{} {} B", text.empty() ? "" : " + ",
                     operation_name(block.options.operation), block.sizes[phase.step_of(b, step_)]);
    }
    return text;
  }

  Result<void> step(const Phase& phase) {
    const std::string name = what(phase);
    tell(Message::Kind::kAt, 0, "preparing " + name);
    NEURON_TRY(cases, cases_of(phase, step_, participant_.rank()));
    NEURON_CHECK(participant_.prepare(cases));
    NEURON_CHECK(fill(cases));
    NEURON_CHECK(participant_.barrier());
    tell(Message::Kind::kAt, 0, "measuring " + name);
    std::vector<std::vector<double>> times(cases.size());
    NEURON_CHECK(measure(times));
    std::vector<bool> checked(cases.size());
    if (settings_.check != Check::kNone) {
      tell(Message::Kind::kAt, 0, "checking " + name);
      NEURON_CHECK(check(cases, checked));
    }
    for (size_t b = 0; b < cases.size(); ++b) {
      if (!cases[b].takes_part) {
        tell(Message::Kind::kSkipped, b, "");
      } else if (!mismatch_.empty()) {
        tell(Message::Kind::kFailed, b, mismatch_);
      } else {
        done(cases[b], b, times[b], checked[b]);
      }
    }
    mismatch_.clear();
    return {};
  }

  void done(const BlockCase& block, size_t index, const std::vector<double>& times, bool checked) {
    Message message = at(Message::Kind::kDone, index);
    message.checked = checked;
    message.size = block.what.size;
    message.count = block.what.count;
    message.total_input = block.what.total_input;
    message.total_output = block.what.total_output;
    message.times_us = times;
    message.text = participant_.algorithm(index);
    sink_(message);
  }

  Data data_of(const Work& work) const {
    return Data(settings_.seed, settings_.check == Check::kAllOnes, work.type, work.reduction);
  }

  Result<void> fill(const std::vector<BlockCase>& cases) {
    for (size_t b = 0; b < cases.size(); ++b) {
      if (!cases[b].takes_part) continue;
      for (size_t w = 0; w < cases[b].what.works.size(); ++w) {
        const Work& work = cases[b].what.works[w];
        std::vector<std::byte> input(work.input_elements(cases[b].place) * type_size(work.type));
        if (settings_.check != Check::kNone) data_of(work).fill(participant_.rank(), 0, input);
        NEURON_CHECK(participant_.write(b, w, input));
      }
    }
    return {};
  }

  Result<void> measure(std::vector<std::vector<double>>& times) {
    std::vector<double> once(times.size());
    const uint32_t operations = job_.operations_before + job_.operations;
    for (uint32_t run = 0; run < job_.runs_before + job_.runs; ++run) {
      for (uint32_t i = 0; i < operations; ++i) {
        NEURON_CHECK(participant_.execute(i, once));
        if (run < job_.runs_before || i < job_.operations_before) continue;
        for (size_t b = 0; b < times.size(); ++b) times[b].push_back(once[b]);
      }
    }
    return {};
  }

  Result<void> check(const std::vector<BlockCase>& cases, std::vector<bool>& checked) {
    NEURON_CHECK(participant_.barrier());  // no rank reads inputs any more
    NEURON_CHECK(fill(cases));
    NEURON_CHECK(participant_.barrier());
    std::vector<double> times(cases.size());
    NEURON_CHECK(participant_.execute(0, times));
    for (size_t b = 0; b < cases.size(); ++b) {
      if (!cases[b].takes_part) continue;
      for (size_t w = 0; w < cases[b].what.works.size(); ++w) {
        NEURON_CHECK(check_work(cases[b], b, w));
      }
      checked[b] = true;
    }
    return {};
  }

  Result<void> check_work(const BlockCase& block, size_t b, size_t w) {
    const Work& work = block.what.works[w];
    const Data data = data_of(work);
    NEURON_TRY(output, participant_.read(b, w));
    const auto wrong = verify(data, work, block.place, block.ranks, output, !block.in_place);
    if (!wrong) return {};
    mismatch_ =
        format("rank {}, {}: output element {} is {}, expected {}", participant_.rank(),
               operation_name(work.operation), wrong->element, wrong->found, wrong->expected);
    mismatch_ += dump(data, work, block, output);
    return {};
  }

  std::string dump(const Data& data, const Work& work, const BlockCase& block,
                   const std::vector<std::byte>& output) const {
    std::vector<std::byte> input(work.input_elements(block.place) * data.width());
    data.fill(participant_.rank(), 0, input);
    const std::string stem =
        format("{}/nccom-test-{}-{}-rank{}", settings_.dump_folder, operation_name(work.operation),
               block.what.size, participant_.rank());
    const auto write = [&](const char* name, const std::vector<std::byte>& bytes) {
      return write_text(stem + name,
                        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    };
    for (const auto& written :
         {write("-input.bin", input), write("-output.bin", output),
          write("-golden.bin", golden(data, work, block.place, block.ranks))}) {
      if (!written) return "; the buffers could not be kept: " + written.error().sentence;
    }
    return "; see " + stem + "-{input,output,golden}.bin";
  }

  Participant& participant_;
  const Job& job_;
  const RankSettings& settings_;
  const Sink& sink_;
  size_t phase_ = 0, step_ = 0;
  std::string mismatch_;
};

}  // namespace

Result<std::vector<BlockCase>> cases_of(const Phase& phase, size_t step, uint32_t rank) {
  std::vector<BlockCase> result(phase.blocks.size());
  for (size_t b = 0; b < phase.blocks.size(); ++b) {
    const PhaseBlock& block = phase.blocks[b];
    BlockCase& one = result[b];
    uint32_t group = 0;
    one.takes_part = place_in(block.groups, rank, group, one.place);
    one.stream = block.stream;
    one.repetitions = block.options.operations_per_iteration;
    one.ranks = block.groups[group];
    NEURON_TRY(made, make_case(block.options, block.pairs, block.sizes[phase.step_of(b, step)],
                               static_cast<uint32_t>(one.ranks.size()), one.place));
    one.what = made;
    if (!one.takes_part) continue;
    one.in_place = block.options.in_place;
    uint64_t offset = 0;
    bool larger = false;
    if (one.in_place && !made.works.front().in_place_offset(one.place, offset, larger)) {
      return fail(CCOM_INVALID, "{} cannot be done in place",
                  operation_name(block.options.operation));
    }
  }
  return result;
}

void run_rank(Participant& participant, const Job& job, const RankSettings& settings,
              const Sink& sink) {
  Run run(participant, job, settings, sink);
  try {
    const auto done = run.all();
    if (done) {
      run.tell(Message::Kind::kEnd, 0, "");
      return;
    }
    participant.abort();
    run.tell(Message::Kind::kBroken, 0, done.error().sentence);
  } catch (const std::bad_alloc&) {
    participant.abort();
    run.tell(Message::Kind::kBroken, 0,
             "this host has no memory for the buffers; give smaller sizes or fewer ranks");
  }
}

}  // namespace neuron::nccom
