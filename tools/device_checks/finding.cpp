// SPDX-License-Identifier: Apache-2.0
#include "tools/device_checks/finding.h"

#include <nrt/nrt_status.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>

namespace neuron::checks {
namespace {

namespace json = boost::json;

constexpr const char* kVerdicts[] = {"pass", "warn", "fail", "skip"};
constexpr const char* kActions[] = {"none", "driver_reload", "reboot", "reset_device",
                                    "replace_instance"};
constexpr const char* kRepairs[] = {"", "unknown", "possible", "impossible"};
constexpr const char* kKinds[] = {"step", "finding", "timing", "end"};

std::string_view word_after(std::string_view text, std::string_view key,
                            std::string_view characters) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find_first_not_of(characters));
}

std::string text_of(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_string() ? std::string(value->get_string().c_str()) : "";
}
int64_t number_of(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}
template <typename Enum, size_t N>
Enum choice_of(const json::object& object, const char* field, const char* const (&names)[N]) {
  const std::string text = text_of(object, field);
  for (size_t i = 0; i < N; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
  }
  return static_cast<Enum>(0);
}

}  // namespace

const char* name(Verdict verdict) { return kVerdicts[static_cast<int>(verdict)]; }
const char* name(Action action) { return kActions[static_cast<int>(action)]; }

std::string to_line(const Line& line) {
  json::object object{{"line", kKinds[static_cast<int>(line.kind)]}};
  const Finding& f = line.finding;
  if (line.kind == Line::Kind::kTiming) {
    object["program"] = line.timing.program;
    object["device_ps"] = static_cast<int64_t>(line.timing.device_ps);
  } else if (line.kind != Line::Kind::kEnd) {
    object["check"] = f.check;
    object["verdict"] = name(f.verdict);
    object["device"] = f.device;
    object["core"] = f.core;
    object["engine"] = f.engine;
    object["ring"] = f.ring;
    object["address"] = f.address;
    object["found"] = f.found;
    object["expected"] = f.expected;
    object["action"] = name(f.action);
    object["repair"] = kRepairs[static_cast<int>(f.repair)];
  }
  return json::serialize(object) + "\n";
}

bool from_line(std::string_view text, Line& line) {
  json::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object() || !value.get_object().contains("line")) return false;
  const json::object& object = value.get_object();
  line.kind = choice_of<Line::Kind>(object, "line", kKinds);
  line.timing.program = text_of(object, "program");
  line.timing.device_ps = static_cast<uint64_t>(number_of(object, "device_ps"));
  Finding& f = line.finding;
  f.check = text_of(object, "check");
  f.verdict = choice_of<Verdict>(object, "verdict", kVerdicts);
  f.device = static_cast<int>(number_of(object, "device"));
  f.core = static_cast<int>(number_of(object, "core"));
  f.engine = text_of(object, "engine");
  f.ring = text_of(object, "ring");
  f.address = text_of(object, "address");
  f.found = text_of(object, "found");
  f.expected = text_of(object, "expected");
  f.action = choice_of<Action>(object, "action", kActions);
  f.repair = choice_of<Repair>(object, "repair", kRepairs);
  return true;
}

void place_from_sentence(std::string_view sentence, Finding& finding) {
  constexpr std::string_view kDigits = "0123456789";
  for (const char* engine : {"PE", "Activation", "Pool", "DVE", "SP"}) {
    if (sentence.find(std::string(engine) + " hangs") != std::string_view::npos) {
      finding.engine = engine;
      return;
    }
  }
  const std::string_view dma = word_after(sentence, "DMA engine ", kDigits);
  if (!dma.empty()) {
    finding.engine = "DMA " + std::string(dma);
    const std::string_view queue = word_after(sentence, " queue ", kDigits);
    const std::string_view index = word_after(sentence, "ring index ", kDigits);
    if (!queue.empty()) finding.ring = "queue " + std::string(queue);
    if (!index.empty()) finding.ring += " index " + std::string(index);
  }
  const std::string_view address = word_after(sentence, "address 0x", "0123456789abcdefABCDEF");
  if (!address.empty()) finding.address = "0x" + std::string(address);
}

Action action_of_status(int status) {
  switch (status) {
    case NRT_EXEC_HW_ERR_HBM_UE:
    case NRT_EXEC_HW_ERR_DMA_ABORT:
    case NRT_EXEC_HW_ERR_NC_UE:
      return Action::kReplaceInstance;
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
      return Action::kResetDevice;
    case NRT_HW_ERROR:
    case NRT_EXEC_UNIT_UNRECOVERABLE:
      return Action::kReboot;
    default:
      return Action::kResetDevice;
  }
}

void advise_from_sentence(std::string_view sentence, Finding& finding) {
  const auto names = [&](const char* fault) {
    return sentence.find(std::string(" with ") + fault + " ") != std::string_view::npos;
  };
  if (names("DMA_ENGINE")) finding.action = action_of_status(NRT_EXEC_HW_ERR_DMA_ABORT);
  if (names("NC_UE")) finding.action = action_of_status(NRT_EXEC_HW_ERR_NC_UE);
  if (names("HBM_UE")) finding.repair = Repair::kImpossible;
  if (names("HBM_UE_REPAIRABLE")) finding.repair = Repair::kPossible;
  if (finding.repair != Repair::kNone) {
    // The engine that met the error is part of its place.
    finding.ring = finding.engine + (finding.ring.empty() ? "" : " ") + finding.ring;
    finding.engine = "HBM";
  }
}

void agree_on_repair(Findings& findings) {
  std::map<int, Repair> known;
  for (const Finding& finding : findings) {
    if (finding.repair == Repair::kNone) continue;
    Repair& repair = known.try_emplace(finding.device, Repair::kUnknown).first->second;
    repair = std::max(repair, finding.repair);  // the least repairable error decides
  }
  for (Finding& finding : findings) {
    if (finding.repair == Repair::kNone) continue;
    finding.action = known[finding.device] == Repair::kImpossible ? Action::kReplaceInstance
                                                                  : Action::kResetDevice;
  }
}

void judge_past_errors(Findings& findings) {
  const auto past = [](const Finding& finding) {
    return finding.check == "device.errors" && finding.repair == Repair::kUnknown &&
           finding.found.find(" before ") != std::string::npos;
  };
  for (Finding& finding : findings) {
    if (!past(finding)) continue;
    bool good = false, bad = false;
    for (const Finding& other : findings) {
      if (other.device != finding.device || past(other)) continue;
      bad |= other.repair != Repair::kNone;
      if (other.check != "memory.pattern") continue;
      // A part that was not tested proves nothing about the errors.
      const bool whole = other.found.find("there was no time") == std::string::npos;
      (other.verdict == Verdict::kPass && whole ? good : bad) = true;
    }
    if (!good || bad) continue;
    finding.verdict = Verdict::kWarn;
    finding.action = Action::kNone;
    finding.repair = Repair::kNone;
    finding.found += ", and none in its memory now";
  }
}

}  // namespace neuron::checks
