// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-reset/machine/machine.h"

#include <algorithm>
#include <cstdio>

#include "tools/common/exit_status.h"

namespace neuron::reset {
namespace {

using telemetry::DeviceState;

constexpr const char* kNames[] = {"looking", "resetting", "returning", "verifying", "ready",
                                  "refused", "failed",    "faulty",    "unverified"};

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(time.count()) / 1000);
  return text;
}

// "memory.pattern HBM 1 0x400000: 64 bytes cannot be read (replace_instance)"
std::string sentence_of(const checks::Finding& finding) {
  std::string text = finding.check;
  if (finding.core >= 0) text += " core " + std::to_string(finding.core);
  for (const std::string& part : {finding.engine, finding.ring, finding.address}) {
    if (!part.empty()) text += " " + part;
  }
  text += ": " + finding.found;
  if (!finding.expected.empty()) text += ", expected " + finding.expected;
  return text + " (" + checks::name(finding.action) + ")";
}

class Machine {
 public:
  Machine(Subject& subject, const Plan& plan, const std::function<void(const Event&)>& tell)
      : subject_(subject), plan_(plan), tell_(tell), begun_(subject.now()) {}

  State run() {
    enter(State::kLooking, "");
    const Sight before = subject_.look(end_);
    if (!before.found) {
      return enter(State::kFailed,
                   "there is no such device" + (before.error.empty() ? "" : ": " + before.error));
    }
    if (!before.holders.empty() && !plan_.force) {
      return enter(State::kRefused,
                   "held by " + listed(before.holders) + "; end it, or use --force");
    }

    enter(State::kResetting,
          before.holders.empty() ? "" : "although it is held by " + listed(before.holders));
    const Attempt attempt = subject_.reset(plan_.force, end_);
    if (attempt.how == Attempt::How::kBusy) {
      return enter(State::kRefused, attempt.sentence + "; end it, or use --force");
    }
    if (attempt.how == Attempt::How::kFailed) return enter(State::kFailed, attempt.sentence);

    Sight after;
    if (!await_return(after)) return State::kFailed;
    if (after.failed_resets > before.failed_resets) {
      return enter(State::kFailed, "the driver has counted a reset that failed");
    }
    if (!after.hung_engines.empty()) {
      return enter(State::kFaulty, "engines still hang: " + listed(after.hung_engines));
    }
    return verify(after);
  }

 private:
  State enter(State state, std::string detail) {
    Event event;
    event.device = plan_.device;
    event.state = state;
    event.detail = std::move(detail);
    event.at = std::chrono::system_clock::now();
    event.elapsed_seconds = std::chrono::duration<double>(subject_.now() - begun_).count();
    tell_(event);
    return state;
  }

  // The driver's state is reported once for each change.
  bool await_return(Sight& sight) {
    enter(State::kReturning, "");
    std::string told;
    for (;;) {  // bounded: by end_
      sight = subject_.look(end_);
      // A driver that reports no state gives no reason to wait.
      const bool ready = sight.state == DeviceState::kReady || sight.state == DeviceState::kUnknown;
      if (sight.found && ready && sight.error.empty()) return true;
      const std::string seen =
          !sight.found
              ? "the driver does not know it" + (sight.error.empty() ? "" : ": " + sight.error)
          : !sight.error.empty() ? sight.error
                                 : std::string("it is ") + telemetry::name(sight.state);
      if (subject_.now() >= end_) {
        enter(State::kFailed, "it has not come back within " + seconds_text(plan_.timeout) + ": " +
                                  seen + "; reboot the host, or replace the instance");
        return false;
      }
      if (seen != told) enter(State::kReturning, told = seen);
      subject_.pause();
    }
  }

  State verify(const Sight& sight) {
    enter(State::kVerifying, "memory and copies");
    checks::Findings findings = subject_.verify_memory(end_);
    std::vector<std::string> held, tried;
    for (const checks::ProgramCore& core : sight.cores) {
      if (!core.free) {
        held.push_back(std::to_string(core.core));
        continue;
      }
      enter(State::kVerifying, "programs on core " + std::to_string(core.core));
      checks::Findings more = subject_.verify_core(core, end_);
      std::move(more.begin(), more.end(), std::back_inserter(findings));
      tried.push_back(std::to_string(core.core));
    }
    agree_on_repair(findings);
    // A reset has just been tried, so it cannot be the advice.
    for (checks::Finding& finding : findings) {
      if (finding.action == checks::Action::kResetDevice) {
        finding.action = finding.repair == checks::Repair::kNone ? checks::Action::kReboot
                                                                 : checks::Action::kReplaceInstance;
      }
    }
    std::string wrong, skipped;
    if (!sight.links_down.empty()) {
      wrong = "the link to " + listed(sight.links_down) +
              " is still down (what neuron-emulatorctl took down, its link up brings back)";
    }
    for (const checks::Finding& finding : findings) {
      if (finding.verdict == checks::Verdict::kFail) {
        wrong += (wrong.empty() ? "" : "; ") + sentence_of(finding);
      }
      if (finding.verdict == checks::Verdict::kSkip) {
        skipped += "; not tried: " + finding.engine + " " + finding.found;
      }
    }
    if (!wrong.empty()) return enter(State::kFaulty, wrong);
    // Cores that were held could not be verified, so the device is not ready.
    if (!held.empty()) {
      return enter(State::kUnverified, "held, and not tried: core " + listed(held));
    }
    if (tried.empty()) return enter(State::kUnverified, "the driver names no core to be tried");
    return enter(State::kReady, "memory holds what is written, and programs on core " +
                                    listed(tried) + " give the right results" + skipped);
  }

  Subject& subject_;
  const Plan& plan_;
  const std::function<void(const Event&)>& tell_;
  const Subject::Clock::time_point begun_, end_ = begun_ + plan_.timeout;
};

}  // namespace

const char* name(State state) { return kNames[static_cast<int>(state)]; }

bool is_end(State state) { return state >= State::kReady; }

int exit_status(const std::vector<State>& ends) {
  const auto any = [&](State state) {
    return std::find(ends.begin(), ends.end(), state) != ends.end();
  };
  if (ends.empty() || any(State::kFailed)) return tools::kFailed;
  if (any(State::kFaulty)) return tools::kUnhealthy;
  if (any(State::kRefused) || any(State::kUnverified)) return tools::kBusy;
  return std::all_of(ends.begin(), ends.end(), [](State end) { return end == State::kReady; })
             ? tools::kDone
             : tools::kFailed;
}

State run(Subject& subject, const Plan& plan, const std::function<void(const Event&)>& tell) {
  return Machine(subject, plan, tell).run();
}

}  // namespace neuron::reset
