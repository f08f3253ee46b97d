// SPDX-License-Identifier: Apache-2.0
// Sentences about collectives that do not advance, from the reports of all ranks.
//
// Callers: NetworkExecutor. Thread-safe: functions of their arguments. Cannot fail.
#ifndef CCOM_PROGRESS_NETWORK_REPORT_H
#define CCOM_PROGRESS_NETWORK_REPORT_H

#include <optional>
#include <string>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/transport/network_control.h"

namespace neuron::ccom {

// The last report of a rank, if there is one.
struct RankReport {
  std::optional<ControlMessage> message;
  base::Moment at{};     // when it came
  base::Moment asked{};  // when it was last asked; zero: never
};

// "all_reduce 7 of stream 0 (1024 fp32 elements, add, ring)".
std::string details(const Signature& signature);
// "rank 3 (host b, pid 77)".
std::string rank_text(Rank rank, const std::vector<Member>& members);

// The call of `peer` that differs from ours with the same number, if its report has one.
std::optional<Signature> different_call(const Signature& ours, const RankReport& peer);
Error mismatch_error(Rank rank, const Signature& ours, Rank peer, const Signature& theirs,
                     const std::vector<Member>& members, const std::string& connection);
// Whether the report shows that the rank has not begun our collective; false without a report.
bool behind(const Signature& ours, const RankReport& report);
Error left_error(Rank rank, const Signature& ours, Rank peer, const RankReport& report,
                 const std::vector<Member>& members);
// `last`: "it is in ...", if that is known from elsewhere.
Error left_error(Rank rank, const Signature& ours, Rank peer, const std::string& last,
                 const std::vector<Member>& members);
// `awaited`: the ranks that this rank waits for, with their connections.
Error timeout_error(Rank rank, const Signature& ours, std::chrono::milliseconds silent,
                    const std::vector<std::pair<Rank, std::string>>& awaited,
                    const std::vector<RankReport>& reports, const std::vector<Member>& members);

}  // namespace neuron::ccom

#endif
