// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-doctor/checks/check.h"

#include <unistd.h>

#include <algorithm>

#include "tools/common/time_text.h"
#include "tools/common/version.h"

namespace neuron::doctor {
namespace {

namespace json = boost::json;

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(tools::printable(text));
}

constexpr const char* kWords[] = {"PASS", "WARN", "FAIL", "skip"};
constexpr tools::Paint kPaints[] = {tools::Paint::kGood, tools::Paint::kWarning, tools::Paint::kBad,
                                    tools::Paint::kFaint};

std::string counted(unsigned number, const char* what) {
  return std::to_string(number) + " " + what;
}

}  // namespace

const char* name(Verdict verdict) {
  static constexpr const char* kNames[] = {"pass", "warn", "fail", "skip"};
  return kNames[static_cast<unsigned>(verdict)];
}

Host this_host() {
  Host host;
  host.places = places_of_environment();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      host.environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return host;
}

Checks check_all(const Host& host) {
  Checks checks;
  check_driver(host, checks);
  check_versions(host, checks);
  check_devices(host, checks);
  check_limits(host, checks);
  check_environment(host, checks);
  return checks;
}

unsigned count(const Checks& checks, Verdict verdict) {
  return static_cast<unsigned>(
      std::count_if(checks.begin(), checks.end(),
                    [verdict](const Check& check) { return check.verdict == verdict; }));
}

tools::Records records_of(const Checks& checks, const Host& host) {
  tools::Records records{"neuron-doctor",
                         1,
                         "checks",
                         {{"id", "ID"},
                          {"what", "WHAT"},
                          {"verdict", "VERDICT"},
                          {"found", "FOUND"},
                          {"expected", "EXPECTED"},
                          {"action", "ACTION"}},
                         {},
                         {}};
  records.about["at"] = tools::utc_text(host.snapshot.at);
  records.about["tools_version"] = tools::version();
  records.about["verdict"] = name(count(checks, Verdict::kFail) != 0   ? Verdict::kFail
                                  : count(checks, Verdict::kWarn) != 0 ? Verdict::kWarn
                                                                       : Verdict::kPass);
  for (const Verdict verdict : {Verdict::kPass, Verdict::kWarn, Verdict::kFail, Verdict::kSkip}) {
    records.about[name(verdict)] = count(checks, verdict);
  }
  for (const Check& check : checks) {
    records.rows.push_back({json::value(check.id), json::value(check.what),
                            json::value(name(check.verdict)), text_or_null(check.found),
                            text_or_null(check.expected), text_or_null(check.action)});
  }
  return records;
}

std::string text_of(const Checks& checks, bool problems_only, const tools::Style& style) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.id.size());
  std::string text;
  for (const Check& check : checks) {
    const bool problem = check.verdict == Verdict::kWarn || check.verdict == Verdict::kFail;
    if (problems_only && !problem) continue;
    const auto index = static_cast<unsigned>(check.verdict);
    text += painted(style, kPaints[index], kWords[index]) + "  " + check.id +
            std::string(width - check.id.size() + 2, ' ') +
            tools::printable(check.found.empty() ? check.what : check.found) + "\n";
    if (!problem) continue;
    const std::string indent(6 + width + 2, ' ');
    if (!check.expected.empty()) {
      text += indent + "expected: " + tools::printable(check.expected) + "\n";
    }
    if (!check.action.empty()) text += indent + "do: " + tools::printable(check.action) + "\n";
  }
  return text + "\n" + counted(count(checks, Verdict::kFail), "failed, ") +
         counted(count(checks, Verdict::kWarn), "warnings, ") +
         counted(count(checks, Verdict::kPass), "passed, ") +
         counted(count(checks, Verdict::kSkip), "skipped") + "\n";
}

}  // namespace neuron::doctor
