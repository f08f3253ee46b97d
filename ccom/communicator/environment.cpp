// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ccom/plan/calibration.h"

namespace neuron::ccom {
namespace {

constexpr uint64_t kMostMemory = uint64_t{1} << 42;
constexpr uint64_t kLongestTimeout = 24 * 3600 * 1000;

std::string text_of(const char* given, const char* variable) {
  if (given != nullptr) {
    return given;
  }
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

// A number; with `units`, K, M, G or T may follow it.
Result<uint64_t> number_of(const char* variable, bool units, uint64_t least, uint64_t most,
                           uint64_t otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == 0) {
    return otherwise;
  }
  const char* end = value + std::strlen(value);
  uint64_t number = 0;
  auto [rest, error] = std::from_chars(value, end, number);
  uint32_t shift = 0;
  if (units && error == std::errc() && rest != end) {
    const std::string_view letters = "KMGT";
    const size_t at = letters.find(*rest);
    if (at != std::string_view::npos) {
      shift = 10 * static_cast<uint32_t>(at + 1);
      ++rest;
    }
  }
  if (error != std::errc() || rest != end || number > (most >> shift) ||
      (number << shift) < least) {
    return fail(CCOM_INVALID, "{}={} is no {} from {} to {}{}", variable, value,
                units ? "size" : "number", least, most,
                units ? " bytes (K, M, G and T may follow the number)" : "");
  }
  return number << shift;
}

}  // namespace

Result<Settings> read_settings(const ccom_options_t* options) {
  static const ccom_options_t kDefaults = {};
  if (options != nullptr && options->size_of != sizeof(ccom_options_t)) {
    return fail(CCOM_INVALID,
                "options->size_of is {}, this library knows ccom_options_t of {} bytes; set it to "
                "sizeof(ccom_options_t) and compile with the header of version {}",
                options->size_of, sizeof(ccom_options_t), ccom_version());
  }
  const ccom_options_t& given = options != nullptr ? *options : kDefaults;
  constexpr uint32_t kKnownFlags = CCOM_FLAG_NO_SHARED_MEMORY | CCOM_FLAG_FAST_ORDER;
  if ((given.flags & ~kKnownFlags) != 0) {
    return fail(CCOM_INVALID, "options->flags has unknown bits {:#x}; known are {:#x}",
                given.flags & ~kKnownFlags, kKnownFlags);
  }
  Settings settings;
  settings.root = text_of(given.root, "NEURON_RT_ROOT_COMM_ID");
  settings.secret = text_of(given.secret, "CCOM_SECRET");
  settings.channel = text_of(nullptr, "CCOM_TLS");
  if (settings.channel == "0") {
    settings.channel.clear();
  }
  if (!settings.channel.empty() && settings.channel != "1" &&
      settings.channel.find('/') == std::string::npos) {
    return fail(CCOM_INVALID,
                "CCOM_TLS={} is not known: 0, 1, or the path of a plug-in, with a slash",
                settings.channel);
  }
  settings.providers = text_of(given.providers, "CCOM_PROVIDERS");
  settings.topology = text_of(given.topology, "CCOM_TOPOLOGY");
  settings.dump_path = text_of(nullptr, "CCOM_DUMP_PATH");
  settings.algorithm = text_of(nullptr, "CCOM_ALGORITHM");
  NEURON_TRY(calibration, describe_calibration_of_environment());
  settings.calibration = calibration;
  settings.device = given.local_device;
  NEURON_TRY(timeout, number_of("CCOM_TIMEOUT_MS", false, 1, kLongestTimeout, 60000));
  settings.timeout = std::chrono::milliseconds(given.timeout_ms != 0 ? given.timeout_ms : timeout);
  NEURON_TRY(heartbeat, number_of("CCOM_HEARTBEAT_MS", false, 0, kLongestTimeout, 900));
  settings.heartbeat = std::chrono::milliseconds(heartbeat);
  NEURON_TRY(memory, number_of("CCOM_MEMORY", true, 1, kMostMemory, uint64_t{1} << 30));
  settings.memory_bytes = given.memory_bytes != 0 ? given.memory_bytes : memory;
  if (settings.memory_bytes > kMostMemory) {
    return fail(CCOM_INVALID,
                "a communicator is asked for {} bytes of shared memory (memory_bytes of its "
                "options), at most {} are possible; use smaller buffers",
                settings.memory_bytes, kMostMemory);
  }
  NEURON_TRY(shared, number_of("CCOM_SHARED_MEMORY", false, 0, 1, 1));
  settings.shared_memory = shared == 1 && (given.flags & CCOM_FLAG_NO_SHARED_MEMORY) == 0;
  NEURON_TRY(require, number_of("CCOM_REQUIRE_SECRET", false, 0, 1, 0));
  settings.require_secret = require == 1;
  const std::string order = text_of(nullptr, "CCOM_ORDER");
  if (!order.empty() && order != "rank" && order != "fast") {
    return fail(CCOM_INVALID,
                "CCOM_ORDER={} is not known: \"rank\" (the same bits for every algorithm) or "
                "\"fast\" (the order of the algorithm)",
                order);
  }
  settings.rank_order = order != "fast" && (given.flags & CCOM_FLAG_FAST_ORDER) == 0;
  return settings;
}

}  // namespace neuron::ccom
