// SPDX-License-Identifier: Apache-2.0
// Notices that ranks have sent to one another; they end nothing.
//
// Concepts: a notice has a number, whose meaning the job defines, such as how often ranks had met
// before. For each number the first notice is kept, since later ones may be a consequence of it.
// Only the highest CCOM_NOTICES numbers are kept, so memory is bounded whatever peers send.
// Callers: the bootstraps, under their own lock. Thread-safe: no. Cannot fail.
#ifndef CCOM_BOOTSTRAP_NOTICES_H
#define CCOM_BOOTSTRAP_NOTICES_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

// What a notice is about: something that the program tells, or the growth with this number.
enum class NoticeAbout : uint8_t { kProgram, kGrowth };

struct Notice {
  Rank rank = 0;  // the rank that sent it
  uint64_t number = 0;
  std::string sentence;
};

// The sentence, cut to CCOM_NOTICE_BYTES without half a character at the end.
std::string notice_text(const std::string& sentence);

class Notices {
 public:
  // Returns whether the notice is new, and so must be passed on.
  bool keep(const Notice& notice);
  // The notice with the lowest number from `number` on.
  std::optional<Notice> since(uint64_t number) const;

 private:
  std::map<uint64_t, Notice> by_number_;
};

}  // namespace neuron::ccom

#endif
