// SPDX-License-Identifier: Apache-2.0
// Ranks as people write them: "0, 3-5, 9". Thread-safe: functions of their arguments.
#ifndef CCOM_BOOTSTRAP_RANK_LIST_H
#define CCOM_BOOTSTRAP_RANK_LIST_H

#include <string>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"

namespace neuron::ccom {

// Ascending ranks with ranges: at most `limit` pieces, then the number of ranks left out.
std::string rank_list(const std::vector<Rank>& ranks, size_t limit = 16);
// "rank 5 (host b, pid 12)".
std::string describe(const Member& member);

}  // namespace neuron::ccom

#endif
