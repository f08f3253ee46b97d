// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/holder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "driver/base/process_status.h"

namespace neuron::service {

uint64_t now_in_seconds() { return static_cast<uint64_t>(::time(nullptr)); }

nd_holder holder_of(int32_t pid) {
  char path[32];
  char command[64] = "";
  std::snprintf(path, sizeof(path), "/proc/%d/comm", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const ssize_t length = ::read(file, command, sizeof(command) - 1);
    ::close(file);
    command[length > 0 ? length - 1 : 0] = 0;  // without the line's end
  }
  nd_holder who;
  nd_holder_set(&who, command, now_in_seconds());
  return who;
}

std::string describe_time(uint64_t seconds) {
  const auto then = static_cast<time_t>(seconds);
  const auto now = static_cast<time_t>(now_in_seconds());
  tm local{};
  tm today{};
  if (!::localtime_r(&then, &local) || !::localtime_r(&now, &today)) return "an unknown time";
  const bool same = local.tm_year == today.tm_year && local.tm_yday == today.tm_yday;
  char text[32];
  std::strftime(text, sizeof(text), same ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string describe_holder(int32_t pid, const nd_holder& who) {
  std::string text = "pid " + std::to_string(pid);
  if (who.command[0]) text += std::string(" (") + who.command + ")";
  if (who.since) text += " since " + describe_time(who.since);
  return text;
}

std::string describe_holders(const nd_claims& claims, uint32_t base, uint32_t start, uint32_t end) {
  constexpr size_t kMost = 3;
  std::string text;
  std::vector<uint64_t> told;  // descriptors
  for (uint32_t core = start; core <= end && core < ND_CLAIM_CORES; ++core) {
    const nd_claim* claim = nd_claims_at(&claims, base + core);
    if (!claim) continue;
    bool known = false;
    for (const uint64_t holder : told) known = known || holder == claim->holder;
    if (known) continue;
    if (told.size() == kMost) return text + " and others";
    told.push_back(claim->holder);
    text += (text.empty() ? "core " : ", core ") + std::to_string(core) + " is held by " +
            describe_holder(claim->owner, claim->who);
  }
  return text;
}

std::vector<int32_t> holders_of(const nd_claims& claims, uint32_t base, uint32_t start,
                                uint32_t end) {
  std::vector<int32_t> found;  // one process usually holds many cores in a row
  for (uint32_t core = start; core <= end && core < ND_CLAIM_CORES; ++core) {
    const int32_t owner = nd_claims_owner(&claims, base + core);
    if (owner != 0 && (found.empty() || found.back() != owner)) found.push_back(owner);
  }
  return found;
}

bool one_has_ended(const std::vector<int32_t>& processes) {
  return std::any_of(processes.begin(), processes.end(), base::process_has_ended);
}

}  // namespace neuron::service
