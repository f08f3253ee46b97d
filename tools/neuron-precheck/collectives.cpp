// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-precheck/collectives.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "tools/device_checks/part.h"

namespace neuron::precheck {
namespace {

using checks::Ending;
using checks::Finding;
using checks::Verdict;
using Clock = std::chrono::steady_clock;

// The longest run of free cores in a row, as a process gets them.
std::vector<Rank> find_ranks(const telemetry::Snapshot& snapshot, const std::vector<int>& devices) {
  std::vector<Rank> run, best;
  for (const telemetry::Device& device : snapshot.devices) {
    const int index = static_cast<int>(device.index);
    const bool wanted =
        devices.empty() || std::find(devices.begin(), devices.end(), index) != devices.end();
    for (const checks::ProgramCore& core : checks::program_cores(device)) {
      const bool usable = wanted && core.free && device.state != telemetry::DeviceState::kOff;
      if (!usable || (!run.empty() && run.back().logical + 1 != core.logical)) run.clear();
      if (usable) run.push_back({core.logical, index, core.core});
      if (run.size() > best.size()) best = run;
    }
  }
  return best;
}

// The failure in the output of nccom-test: the sentences in its own name, except the seed with
// which it can be repeated; without those, the whole output.
std::string sentence_of(const std::string& text) {
  constexpr std::string_view kProgram = "nccom-test: ";
  std::string said, all;
  const auto append = [](std::string& to, const std::string& part, const char* between) {
    if (to.find(part) == to.npos) to += (to.empty() ? "" : between) + part;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line.find(": --seed ") != line.npos) continue;
    if (line.rfind(kProgram, 0) == 0) append(said, line.substr(kProgram.size()), "; ");
    append(all, line, " ");
  }
  return !said.empty() ? said : all;
}

// The number behind a word of the sentence; -1 if there is none.
int number_after(const std::string& sentence, std::string_view word) {
  for (size_t at = sentence.find(word); at != sentence.npos; at = sentence.find(word, at + 1)) {
    const char first = sentence.c_str()[at + word.size()];
    if (first >= '0' && first <= '9') {
      return static_cast<int>(std::strtoul(sentence.c_str() + at + word.size(), nullptr, 10));
    }
  }
  return -1;
}

class Collectives {
 public:
  Collectives(const CollectiveOptions& options, std::vector<Rank> ranks)
      : options_(options), ranks_(std::move(ranks)) {}

  checks::Findings run() {
    if (ranks_.size() < 2) {
      Finding finding;
      finding.check = "collectives.all_reduce";
      finding.verdict = Verdict::kSkip;
      finding.found = "fewer than two cores in a row are free";
      return {finding};
    }
    checks_left_ = options_.level >= 3 ? 4 : options_.level;
    const char* most = options_.level == 1 ? "64K" : options_.level == 2 ? "1M" : "16M";
    check("collectives.all_reduce",
          {"allr", "-b", "64K", "-e", most, "-f", "16", "-d", "fp32", "-c", "-n", "2", "-w", "0"});
    if (options_.level >= 2) {
      check("dma.pairs",
            {"sendrecv", "-b", "64K", "-e", "64K", "-c", "-n", "1", "-w", "0", "--heat-map"});
    }
    if (options_.level >= 3) {
      check("collectives.all_gather", {"allg", "-b", "1M", "-e", "1M", "-c", "-n", "2", "-w", "0"});
      check("collectives.all_to_all",
            {"alltoall", "-b", "1M", "-e", "1M", "-c", "-n", "2", "-w", "0"});
    }
    return std::move(findings_);
  }

 private:
  void check(const char* name, std::vector<std::string> command) {
    Finding finding;
    finding.check = name;
    finding.found = command[0] + " of " + std::to_string(ranks_.size()) + " cores";
    const auto now = Clock::now();
    if (now >= options_.end) return skip(finding, ": there was no time left for it");
    // The remaining time is shared, so that one long run does not take all of it.
    const auto end = options_.end == Clock::time_point::max()
                         ? options_.end
                         : now + (options_.end - now) / checks_left_--;
    command.insert(command.begin(), tools::program_beside("nccom-test"));
    command.insert(command.end(),
                   {"-r", std::to_string(ranks_.size()), "--backend", "device", "--non-interactive",
                    "--timeout", std::to_string(options_.step.count())});
    const checks::Environment environment = {
        {"NEURON_RT_VISIBLE_CORES",
         std::to_string(ranks_.front().logical) + "-" + std::to_string(ranks_.back().logical)},
        {"NEURON_RT_NUM_CORES", ""},
        {"NEURON_RT_LOG_LEVEL", "QUIET"}};
    std::string output;
    const Ending ending =
        tools::run_command(command, environment, {6 * options_.step, end},
                           [&](std::string_view line) { output.append(line).append("\n"); });
    if (ending.how == Ending::How::kExited && ending.code == 0) {
      finding.found += " gives the right results";
      findings_.push_back(std::move(finding));
      return;
    }
    if (ending.how == Ending::How::kNotStarted || ending.code == 127) {
      return skip(finding, ": nccom-test is not installed beside neuron-precheck");
    }
    if (ending.how == Ending::How::kOver) {
      return skip(finding, ": it had not ended when its time was over");
    }
    judge(ending, output, finding);
  }

  void skip(Finding& finding, const char* why) {
    finding.verdict = Verdict::kSkip;
    finding.found += why;
    findings_.push_back(std::move(finding));
  }

  void judge(const Ending& ending, const std::string& output, Finding& finding) {
    finding.verdict = Verdict::kFail;
    const std::string sentence = sentence_of(ending.errors + "\n" + output);
    place_failure(sentence, ranks_, finding);
    finding.found += ending.how == Ending::How::kLate ? " has not ended; " : ": ";
    finding.found += sentence;
    findings_.push_back(std::move(finding));
  }

  const CollectiveOptions& options_;
  const std::vector<Rank> ranks_;
  checks::Findings findings_;
  int checks_left_ = 1;
};

// Whether all ranks alike were still getting ready when patience was over.
bool all_get_ready(const std::string& sentence, size_t ranks) {
  if (sentence.find("no rank has got on") == sentence.npos) return false;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (sentence.find("rank " + std::to_string(rank) + ": preparing") == sentence.npos) {
      return false;
    }
  }
  return true;
}

}  // namespace

void place_failure(const std::string& sentence, const std::vector<Rank>& ranks, Finding& finding) {
  finding.device = number_after(sentence, " on device ");
  if (finding.device < 0 && all_get_ready(sentence, ranks.size())) {
    finding.action = checks::Action::kNone;
    finding.expected =
        "ranks that get ready in time; all were late alike, which no device has to answer "
        "for: try again when the host is less busy, or with a longer --timeout";
    return;
  }
  finding.action = checks::Action::kResetDevice;
  finding.expected = "right results in time";
  place_from_sentence(sentence, finding);
  // The rank that the runtime names; otherwise the rank that has failed.
  const int rank = number_after(sentence, "rank ");
  if (finding.device >= 0) {
    finding.core = number_after(sentence, " core ");
  } else if (rank >= 0 && rank < static_cast<int>(ranks.size())) {
    finding.device = ranks[static_cast<size_t>(rank)].device;
    finding.core = ranks[static_cast<size_t>(rank)].core;
  }
  advise_from_sentence(sentence, finding);
}

checks::Findings check_collectives(const telemetry::Snapshot& snapshot,
                                   const CollectiveOptions& options) {
  return Collectives(options, find_ranks(snapshot, options.devices)).run();
}

}  // namespace neuron::precheck
