// SPDX-License-Identifier: Apache-2.0
// What ranks have told one another without ending anything.
//
// Concepts: a notice has a number, to which its job gives a meaning, such as how often ranks had
// met before. Of each number the first notice is kept, since others may be told because of it. Of
// the numbers the highest CCOM_NOTICES are kept, so that memory is bounded whatever peers send.
// Callers: the bootstraps, under a lock of theirs. Thread-safe: no. Cannot fail.
#ifndef CCOM_BOOTSTRAP_NOTICES_H
#define CCOM_BOOTSTRAP_NOTICES_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

struct Notice {
  Rank rank = 0;  // that told it
  uint64_t number = 0;
  std::string sentence;
};

// At most CCOM_NOTICE_BYTES of it, and no half character at the end.
std::string notice_text(const std::string& sentence);

class Notices {
 public:
  // Whether it is news, and so to be passed on.
  bool keep(const Notice& notice);
  // That of the lowest number from `number` on.
  std::optional<Notice> since(uint64_t number) const;

 private:
  std::map<uint64_t, Notice> by_number_;
};

}  // namespace neuron::ccom

#endif
