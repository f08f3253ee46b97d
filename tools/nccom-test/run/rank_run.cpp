// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/rank_run.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/result_check.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;
using Clock = std::chrono::steady_clock;

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
    told_ = Clock::now();
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
    std::optional<ResultCheck> check;
    if (settings_.check == Check::kNone) {
      NEURON_CHECK(fill_with_zeros(cases));
    } else {
      check.emplace(participant_, cases, job_,
                    ResultCheck::Settings{settings_.seed, settings_.check == Check::kAllOnes,
                                          settings_.dump_folder});
      NEURON_CHECK(check->begin());
    }
    NEURON_CHECK(participant_.barrier());
    tell(Message::Kind::kAt, 0, "measuring " + name);
    std::vector<std::vector<double>> times(cases.size());
    NEURON_CHECK(measure(name, times, check));
    for (size_t b = 0; b < cases.size(); ++b) {
      const std::string mismatch = check ? check->mismatch(b) : "";
      if (!cases[b].takes_part) {
        tell(Message::Kind::kSkipped, b, "");
      } else if (!mismatch.empty()) {
        tell(Message::Kind::kFailed, b, mismatch);
      } else {
        done(cases[b], b, times[b], check ? check->compared(b) : 0);
      }
    }
    return {};
  }

  void done(const BlockCase& block, size_t index, const std::vector<double>& times,
            uint64_t compared) {
    Message message = at(Message::Kind::kDone, index);
    message.compared = compared;
    message.size = block.what.size;
    message.count = block.what.count;
    message.total_input = block.what.total_input;
    message.total_output = block.what.total_output;
    message.times_us = times;
    message.text = participant_.algorithm(index);
    sink_(message);
  }

  Result<void> fill_with_zeros(const std::vector<BlockCase>& cases) {
    for (size_t b = 0; b < cases.size(); ++b) {
      if (!cases[b].takes_part) continue;
      for (size_t w = 0; w < cases[b].what.works.size(); ++w) {
        const Work& work = cases[b].what.works[w];
        const std::vector<std::byte> input(work.input_elements(cases[b].place) *
                                           type_size(work.type));
        for (size_t set = 0; set < participant_.sets(); ++set) {
          NEURON_CHECK(participant_.write({b, w, set}, input));
        }
      }
    }
    return {};
  }

  Result<void> measure(const std::string& name, std::vector<std::vector<double>>& times,
                       std::optional<ResultCheck>& check) {
    std::vector<double> once(times.size());
    const size_t of_run = size_t{job_.operations_before} + job_.operations;
    const size_t all = of_run * (size_t{job_.runs_before} + job_.runs);
    size_t unseen = 0;  // the first iteration whose result has not been looked at
    for (size_t i = 0; i < all; ++i) {
      NEURON_CHECK(participant_.execute(i, once));
      if (i >= of_run * job_.runs_before && i % of_run >= job_.operations_before) {
        for (size_t b = 0; b < times.size(); ++b) times[b].push_back(once[b]);
      }
      const bool at_end = i + 1 == all;
      // Sets that have all been used must be looked at before they are used again.
      if (!check || (!at_end && i + 1 - unseen < participant_.sets())) continue;
      NEURON_CHECK(check->look(unseen, i, at_end));
      unseen = i + 1;
      NEURON_CHECK(go_on(name, at_end));
    }
    return {};
  }

  // After a look at results: a rank that begins earlier than others would measure how long they
  // look.
  Result<void> go_on(const std::string& name, bool at_end) {
    if (Clock::now() - told_ > std::chrono::seconds(1)) {
      tell(Message::Kind::kAt, 0, "measuring and checking " + name);
    }
    if (at_end || !participant_.waits_are_measured()) return {};
    return participant_.barrier();
  }

  Participant& participant_;
  const Job& job_;
  const RankSettings& settings_;
  const Sink& sink_;
  size_t phase_ = 0, step_ = 0;
  Clock::time_point told_;
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
