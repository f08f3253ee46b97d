// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/memory_budget.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "driver/emulator/service/error.h"

namespace neuron::service {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// First number of a file, in `unit` bytes; kUnlimited if there is none ("max", no such file).
uint64_t read_number(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return kUnlimited;
  uint64_t value = kUnlimited;
  if (std::fscanf(file, "%" SCNu64, &value) != 1) value = kUnlimited;
  std::fclose(file);
  return value;
}

uint64_t read_available(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return kUnlimited;
  char line[160];
  uint64_t kib = 0;
  uint64_t value = kUnlimited;
  while (std::fgets(line, sizeof(line), file)) {
    if (std::sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
      value = kib << 10;
      break;
    }
  }
  std::fclose(file);
  return value;
}

uint64_t less(uint64_t value, uint64_t taken) { return value > taken ? value - taken : 0; }

bool exceeds(uint64_t bytes, uint64_t in_use, uint64_t limit) {
  return limit != 0 && (bytes > limit || in_use > limit - bytes);
}

}  // namespace

bool memory_limit_of_environment(uint64_t& limit) {
  limit = 0;
  const char* text = std::getenv("NEURON_EMULATOR_MEMORY_LIMIT");
  if (!text || !*text) return true;
  // Digits only: strtoull would take " -1" for 2^64 - 1.
  const char* end = text + std::strlen(text);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value == 0) {
    fail(-EINVAL,
         "NEURON_EMULATOR_MEMORY_LIMIT is \"%.64s\"; it must be a positive number of bytes", text);
    return false;
  }
  limit = value;
  return true;
}

MemoryBudget::MemoryBudget(const MemoryLimits& limits, std::function<uint64_t()> resident,
                           std::string proc, std::string cgroup)
    : limits_(limits),
      resident_(std::move(resident)),
      proc_(std::move(proc)),
      cgroup_(std::move(cgroup)) {}

void MemoryBudget::look() {
  available_ = read_available(proc_ + "/meminfo");
  source_ = "MemAvailable of the host";
  // Version 2 of control groups, then version 1; in a container the root is the container's group.
  const char* files[][2] = {{"/memory.max", "/memory.current"},
                            {"/memory/memory.limit_in_bytes", "/memory/memory.usage_in_bytes"}};
  for (const auto& file : files) {
    const uint64_t most = read_number(cgroup_ + file[0]);
    if (most == kUnlimited) continue;
    const uint64_t used = read_number(cgroup_ + file[1]);
    const uint64_t room = less(most, used == kUnlimited ? 0 : used);
    if (room < available_) {
      available_ = room;
      source_ = "the memory limit of the control group";
    }
  }
  // Some room stays for everybody else.
  if (available_ != kUnlimited) available_ -= available_ / 32;
  unbacked_ = less(reserved_, resident_ ? resident_() : 0);
  promised_since_look_ = 0;
}

int MemoryBudget::reserve(uint64_t bytes, const Client& client, const char* what, unsigned device) {
  const std::lock_guard lock(mutex_);
  if (exceeds(bytes, reserved_, limits_.all)) {
    return fail(-ENOMEM,
                "device %u: %" PRIu64 " bytes of %s exceed NEURON_EMULATOR_MEMORY_LIMIT=%" PRIu64
                " (--memory-limit of neuron-emulatord), of which %" PRIu64
                " are in use; free memory or raise the limit",
                device, bytes, what, limits_.all, reserved_);
  }
  const auto user = users_.find(client.user);
  const uint64_t of_user = user == users_.end() ? 0 : user->second;
  if (client.process != 0 && exceeds(bytes, of_user, limits_.each_user)) {
    return fail(-ENOMEM,
                "device %u: %" PRIu64 " bytes of %s exceed the %" PRIu64
                " bytes that user %u may have, of which %" PRIu64
                " are in use; free memory or raise --user-memory-limit",
                device, bytes, what, limits_.each_user, client.user, of_user);
  }
  // The host is looked at again once a sixteenth of the known room has been promised.
  if (bytes > available_ / 16 || promised_since_look_ > available_ / 16) look();
  const uint64_t room = less(available_, unbacked_ + promised_since_look_);
  if (bytes > room) {
    return fail(-ENOMEM,
                "device %u: the host cannot back %" PRIu64 " more bytes of %s: %s leaves %" PRIu64
                "; free memory or use a larger host",
                device, bytes, what, source_, room);
  }
  if (client.process != 0) users_[client.user] += bytes;
  reserved_ += bytes;
  promised_since_look_ += bytes;
  return 0;
}

void MemoryBudget::release(uint64_t bytes, const Client& client) {
  const std::lock_guard lock(mutex_);
  reserved_ = less(reserved_, bytes);
  promised_since_look_ = less(promised_since_look_, bytes);
  const auto user = client.process == 0 ? users_.end() : users_.find(client.user);
  if (user != users_.end() && (user->second = less(user->second, bytes)) == 0) users_.erase(user);
}

uint64_t MemoryBudget::reserved() {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace neuron::service
