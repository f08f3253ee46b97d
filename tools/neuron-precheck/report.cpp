// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-precheck/report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/common/time_text.h"

namespace neuron::precheck {
namespace {

namespace json = boost::json;

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(tools::printable(text));
}
json::value or_null(int number) { return number < 0 ? json::value(nullptr) : json::value(number); }

std::string place(const Finding& finding) {
  std::string text;
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (finding.device >= 0) append("device " + std::to_string(finding.device));
  if (finding.core >= 0) append("core " + std::to_string(finding.core));
  if (!finding.engine.empty()) append(finding.engine);
  if (!finding.ring.empty()) append(finding.ring);
  if (!finding.address.empty()) append(finding.address);
  return text.empty() ? "host" : text;
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : tools::printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Verdict worst(const Findings& findings, int device) {
  Verdict verdict = Verdict::kPass;
  for (const Finding& finding : findings) {
    if (finding.device != device) continue;
    if (finding.verdict == Verdict::kFail) return Verdict::kFail;
    if (finding.verdict == Verdict::kWarn) verdict = Verdict::kWarn;
  }
  return verdict;
}

}  // namespace

unsigned count(const Findings& findings, Verdict verdict) {
  return static_cast<unsigned>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.verdict == verdict; }));
}

tools::Records records_of(const Result& result, const Options& options) {
  tools::Records records;
  records.schema = "neuron-precheck";
  records.list = "findings";
  records.columns = {{"check", "CHECK"},     {"verdict", "VERDICT"}, {"device", "DEVICE"},
                     {"core", "CORE"},       {"engine", "ENGINE"},   {"ring", "RING"},
                     {"address", "ADDRESS"}, {"found", "FOUND"},     {"expected", "EXPECTED"},
                     {"action", "ACTION"}};
  for (const Finding& f : result.findings) {
    std::vector<json::value> row;
    row.emplace_back(f.check);
    row.emplace_back(name(f.verdict));
    row.push_back(or_null(f.device));
    row.push_back(or_null(f.core));
    for (const std::string& text : {f.engine, f.ring, f.address, f.found, f.expected}) {
      row.push_back(or_null(text));
    }
    row.emplace_back(name(f.action));
    records.rows.push_back(std::move(row));
  }
  json::array devices;
  for (const telemetry::Device& device : result.snapshot.devices) {
    // Nothing was asked of the others, so nothing is said of them.
    if (!is_wanted(device, options.devices)) continue;
    devices.push_back({{"device", device.index},
                       {"verdict", name(worst(result.findings, static_cast<int>(device.index)))}});
  }
  records.about = {{"level", options.level},
                   {"instance_type", or_null(result.snapshot.instance.type)},
                   {"begun", tools::utc_text(result.begun)},
                   {"duration_seconds", result.seconds},
                   {"passed", count(result.findings, Verdict::kPass)},
                   {"warned", count(result.findings, Verdict::kWarn)},
                   {"failed", count(result.findings, Verdict::kFail)},
                   {"skipped", count(result.findings, Verdict::kSkip)},
                   {"devices", std::move(devices)}};
  return records;
}

std::string text_of(const Result& result, const Options& options, const tools::Style& style) {
  std::string text;
  constexpr tools::Paint kPaints[] = {tools::Paint::kGood, tools::Paint::kWarning,
                                      tools::Paint::kBad, tools::Paint::kFaint};
  for (const Finding& f : result.findings) {
    std::string check = f.check;
    check.resize(std::max<size_t>(check.size(), 24), ' ');
    text += painted(style, kPaints[static_cast<int>(f.verdict)], name(f.verdict)) + "  " + check +
            place(f) + ": " + tools::printable(f.found) + "\n";
    if (f.verdict != Verdict::kFail && f.verdict != Verdict::kWarn) continue;
    if (!f.expected.empty()) text += "      expected: " + tools::printable(f.expected) + "\n";
    text += std::string("      action: ") + name(f.action) + "\n";
  }
  char line[160];
  std::snprintf(line, sizeof line,
                "level %d: %u passed, %u warnings, %u failed, %u skipped, in %.1f s\n",
                options.level, count(result.findings, Verdict::kPass),
                count(result.findings, Verdict::kWarn), count(result.findings, Verdict::kFail),
                count(result.findings, Verdict::kSkip), result.seconds);
  return text + line;
}

std::string junit_of(const Result& result) {
  std::map<int, std::vector<const Finding*>> suites;
  for (const Finding& finding : result.findings) suites[finding.device].push_back(&finding);
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"neuron-precheck\">\n";
  for (const auto& [device, list] : suites) {
    const auto number = [&, &entries = list](Verdict verdict) {
      return std::to_string(std::count_if(entries.begin(), entries.end(),
                                          [&](const Finding* f) { return f->verdict == verdict; }));
    };
    text += "  <testsuite name=\"" + (device < 0 ? "host" : "device " + std::to_string(device)) +
            "\" tests=\"" + std::to_string(list.size()) + "\" failures=\"" +
            number(Verdict::kFail) + "\" errors=\"0\" skipped=\"" + number(Verdict::kSkip) +
            "\" timestamp=\"" + tools::utc_text(result.begun).substr(0, 19) + "\">\n";
    for (const Finding* f : list) {
      text += "    <testcase classname=\"neuron-precheck." + xml(f->check) + "\" name=\"" +
              xml(place(*f)) + "\">";
      if (f->verdict == Verdict::kFail) {
        text += "<failure type=\"" + std::string(name(f->action)) + "\" message=\"" +
                xml(f->found) + "\">expected: " + xml(f->expected) + "</failure>";
      }
      if (f->verdict == Verdict::kSkip) text += "<skipped message=\"" + xml(f->found) + "\"/>";
      if (f->verdict == Verdict::kWarn) text += "<system-out>" + xml(f->found) + "</system-out>";
      text += "</testcase>\n";
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

}  // namespace neuron::precheck
