// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what operators hand in: packets of the control channel, fault plans and profiles.
// Nothing may crash; every packet has an answer, every refusal a sentence, and a plan that is
// accepted must survive being written and read again.
//
// The first byte says what the rest is: "p" a profile, "f" a fault plan, anything else and the rest
// a packet.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "driver/emulator/chip/fault_plan.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/session.h"
#include "driver/emulator/transport/control/control.pb.h"
#include "driver/emulator/transport/control/control_handler.h"
#include "driver/profiles/profile.h"

namespace {

[[noreturn]] void complain(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

void read_profile(std::string_view text) {
  std::string error;
  if (!neuron::profiles::check_profile(text, "fuzz", error) && error.empty()) {
    complain("a profile was refused without a sentence", "");
  }
}

void read_plan(std::string_view text) {
  std::vector<neuron::chip::FaultSpec> plan;
  std::string error;
  if (!neuron::chip::parse_fault_plan(text, plan, error)) {
    if (error.empty()) complain("a plan was refused without a sentence", "");
    return;
  }
  for (const neuron::chip::FaultSpec& spec : plan) {
    std::vector<neuron::chip::FaultSpec> again;
    if (!neuron::chip::parse_fault_plan(spec.text(), again, error) || again.size() != 1 ||
        again[0].text() != spec.text()) {
      complain("a line is not read as it was written", spec.text() + " " + error);
    }
  }
}

void ask(std::string_view packet) {
  using neuron::service::Instance;
  // Nobody opens its chips: an operator's commands must be right without them, too.
  static const auto instance = [] {
    int error = 0;
    return Instance::create("trn1.32xlarge", {}, neuron::core::create_chip, error);
  }();
  if (!instance) complain("no instance", "");
  neuron::transport::ControlHandler handler(*instance, "/fuzz", [] { return 0u; });
  neuron::control::Response response;
  const std::string answer = handler.answer(packet);
  if (answer.empty() || !response.ParseFromString(answer)) complain("no answer", "");
  if (response.error() != 0 && response.message().empty()) {
    complain("an error without a sentence", std::to_string(response.error()));
  }
  instance->faults().clear();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text[0] == 'p') {
    read_profile(text.substr(1));
  } else if (!text.empty() && text[0] == 'f') {
    read_plan(text.substr(1));
  } else {
    ask(text);
  }
  return 0;
}
