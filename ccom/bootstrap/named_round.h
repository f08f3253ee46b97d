// SPDX-License-Identifier: Apache-2.0
// A round of the bootstrap in which each rank says at which call it is.
//
// Concepts: what a rank gives begins with the name of its call. So ranks that are at different
// calls all find out, and none reads the bytes of another call. Callers: what exchanges something
// after a communicator was made. Thread-safe: as Bootstrap::all_gather(). Owns nothing. Fails: as
// all_gather(), or CCOM_MISMATCH with two ranks and what they say.
#ifndef CCOM_BOOTSTRAP_NAMED_ROUND_H
#define CCOM_BOOTSTRAP_NAMED_ROUND_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"

namespace neuron::ccom {

// What all ranks give at `call`, by rank.
Result<std::vector<Bytes>> gather_at(std::string_view call, Bootstrap& bootstrap,
                                     std::span<const std::byte> mine, base::Deadline deadline);
// The error of a rank that says something else at the same call than this one.
Error says_otherwise(std::string_view call, const Bootstrap& bootstrap,
                     std::span<const std::byte> mine, Rank other,
                     std::span<const std::byte> theirs);
// For sentences: what a rank says, with a question mark for each byte or character that a terminal
// does not show. Long text is cut.
std::string printable(std::span<const std::byte> said);

}  // namespace neuron::ccom

#endif
