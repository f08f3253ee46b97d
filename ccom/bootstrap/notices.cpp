// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/notices.h"

#include <ccom/ccom.h>

namespace neuron::ccom {

std::string notice_text(const std::string& sentence) {
  if (sentence.size() <= CCOM_NOTICE_BYTES) {
    return sentence;
  }
  size_t end = CCOM_NOTICE_BYTES;
  // A UTF-8 character that the cut divides is removed whole.
  while (end > 0 && (static_cast<unsigned char>(sentence[end]) & 0xC0) == 0x80) {
    --end;
  }
  return sentence.substr(0, end);
}

bool Notices::keep(const Notice& notice) {
  const bool full = by_number_.size() >= CCOM_NOTICES;
  if (full && notice.number < by_number_.begin()->first) {
    return false;
  }
  if (!by_number_.try_emplace(notice.number, notice).second) {
    return false;
  }
  if (full) {
    by_number_.erase(by_number_.begin());
  }
  return true;
}

std::optional<Notice> Notices::since(uint64_t number) const {
  const auto found = by_number_.lower_bound(number);
  if (found == by_number_.end()) {
    return std::nullopt;
  }
  return found->second;
}

}  // namespace neuron::ccom
