// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/instance.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "driver/ndl/port.h"

namespace neuron::runtime {
namespace {

struct Named {
  const char* name;
  uint32_t value;
};
// Longer names first: "trn1n." must not be read as "trn1".
constexpr Named kFamilies[] = {
    {"trn1n.", NRT_INSTANCE_TRN1N}, {"trn1.", NRT_INSTANCE_TRN1},
    {"inf2.", NRT_INSTANCE_INF2},   {"trn2u.", NRT_INSTANCE_TRN2U},
    {"trn2.", NRT_INSTANCE_TRN2},   {"trn3pd98.", NRT_INSTANCE_TRN3PDS98},
    {"trn3.", NRT_INSTANCE_TRN3},   {"trn3s.", NRT_INSTANCE_TRN3},
    {"inf1.", NRT_INSTANCE_INF1}};
constexpr Named kSizes[] = {
    {"48xlarge", NRT_INSTANCE_SIZE_48XL}, {"32xlarge", NRT_INSTANCE_SIZE_32XL},
    {"24xlarge", NRT_INSTANCE_SIZE_24XL}, {"8xlarge", NRT_INSTANCE_SIZE_8XL},
    {"6xlarge", NRT_INSTANCE_SIZE_6XL},   {"4xlarge", NRT_INSTANCE_SIZE_4XL},
    {"3xlarge", NRT_INSTANCE_SIZE_3XL},   {"2xlarge", NRT_INSTANCE_SIZE_2XL},
    {"xlarge", NRT_INSTANCE_SIZE_1XL}};

std::string product_name() {
  char text[128] = "";
  if (std::FILE* file = std::fopen("/sys/devices/virtual/dmi/id/product_name", "re")) {
    if (std::fgets(text, sizeof(text), file) == nullptr) text[0] = '\0';
    std::fclose(file);
  }
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

uint32_t size_of_trn1(uint32_t devices) {
  if (devices == 1) return NRT_INSTANCE_SIZE_2XL;
  return devices == 16 ? NRT_INSTANCE_SIZE_32XL : NRT_INSTANCE_SIZE_UNKNOWN;
}

}  // namespace

bool parse_instance_type(std::string_view text, nrt_instance_info_t& info) {
  for (const Named& family : kFamilies) {
    const size_t at = text.find(family.name);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = text.substr(at + std::string_view(family.name).size());
    for (const Named& size : kSizes) {
      if (!rest.starts_with(size.name)) continue;
      info.family = family.value;
      info.size = size.value;
      return true;
    }
  }
  return false;
}

std::string instance_type() {
  std::string error;
  const std::shared_ptr<ndl::Port> port = ndl::port(error);
  const std::string emulated = port == nullptr ? "" : port->instance_type();
  return emulated.empty() ? product_name() : emulated;
}

nrt_instance_info_t describe_instance(const HostCores& host) {
  nrt_instance_info_t info{};
  if (!parse_instance_type(instance_type(), info)) {
    const ChipTable* chip = find_chip_table(host.architecture);
    info.family = NRT_INSTANCE_UNKNOWN;
    info.size = NRT_INSTANCE_SIZE_UNKNOWN;
    if (chip != nullptr) info.family = chip->family;
    if (info.family == NRT_INSTANCE_TRN1) info.size = size_of_trn1(host.devices);
  }
  const bool inferentia = info.family == NRT_INSTANCE_INF2 || info.family == NRT_INSTANCE_INF1;
  std::snprintf(info.arch_name, sizeof(info.arch_name), "%s%u", inferentia ? "Inf" : "Trn",
                inferentia ? host.architecture : host.architecture - 1);
  std::snprintf(info.device_revision, sizeof(info.device_revision), "%u", host.revision % 1000000);
  return info;
}

}  // namespace neuron::runtime
