// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/client_log.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "driver/base/format.h"

namespace neuron::service {

void ClientLog::write(const Client& who, std::string_view line, Clock::time_point now) {
  char text[kLongest];
  const auto length = static_cast<int>(base::escape_into(text, sizeof(text), line));
  unsigned left_out = 0;
  if (who.process != 0) {
    const std::lock_guard lock(mutex_);
    try {
      // Users that have written nothing for long need no count.
      std::erase_if(users_, [&](const auto& entry) {
        return entry.second.until <= now && entry.second.left_out == 0;
      });
      Lines& lines = users_[who.user];
      lines.until = std::max(lines.until, now);
      if (lines.until - now > kPace * (kAtOnce - 1)) {
        ++lines.left_out;
        return;
      }
      lines.until += kPace;
      left_out = std::exchange(lines.left_out, 0);
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  if (left_out == 0) {
    std::fprintf(stderr, "%.*s\n", length, text);
  } else {
    std::fprintf(stderr, "%.*s (before it %u lines about user %u were left out)\n", length, text,
                 left_out, who.user);
  }
}

}  // namespace neuron::service
