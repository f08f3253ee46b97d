// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/network_report.h"

#include "ccom/flight/flight_recorder.h"
#include "ccom/request/layout.h"
#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

constexpr size_t kNamed = 16;  // ranks that a list names

const char* state_text(StreamState state) {
  switch (state) {
    case StreamState::kIdle:
      return "did nothing";
    case StreamState::kUnderWay:
      return "is in";
    case StreamState::kDone:
      return "finished";
    case StreamState::kFailed:
      return "failed in";
  }
  return "?";
}

// The last operation of a rank on a stream.
std::string last_text(const RankReport& report, uint8_t stream) {
  if (!report.message) {
    return "does not answer";
  }
  const StreamReport& last = report.message->streams[stream];
  if (last.state == StreamState::kIdle) {
    return ccom::format("has begun nothing on stream {}", stream);
  }
  std::string text = ccom::format("{} {}", state_text(last.state), describe(last.last));
  if (last.state == StreamState::kUnderWay) {
    text += ccom::format(" after {} steps", last.steps);
    if (last.waits_for != StreamReport::kNobody) {
      text += ccom::format(", waiting for rank {}", last.waits_for);
    }
  }
  return text;
}

bool answered(const RankReport& report) {
  return report.message.has_value() && report.at >= report.asked;
}

void add(std::string& list, size_t& count, const std::string& text) {
  if (count++ < kNamed) {
    list += (list.empty() ? "" : "; ") + text;
  } else if (count == kNamed + 2) {
    list += "; and others";
  }
}

}  // namespace

bool behind(const Signature& ours, const RankReport& report) {
  const StreamReport& last = report.message->streams[ours.stream];
  return last.state == StreamState::kIdle || last.last.operation < ours.operation;
}

std::string details(const Signature& signature) {
  const auto operation = static_cast<ccom_operation_t>(signature.kind);
  const bool rooted = operation == CCOM_BROADCAST || operation == CCOM_REDUCE ||
                      operation == CCOM_GATHER || operation == CCOM_SCATTER;
  return ccom::format(
      "{} ({} {} elements{}, {}{})", describe(signature), signature.count,
      type_name(signature.type),
      reduces(operation) ? ccom::format(", {}", reduction_name(signature.reduction)) : "",
      algorithm_name(static_cast<ccom_algorithm_t>(signature.algorithm)),
      rooted ? ccom::format(", root {}", signature.root) : "");
}

std::string rank_text(Rank rank, const std::vector<Member>& members) {
  if (rank >= members.size()) {
    return ccom::format("rank {}", rank);
  }
  return ccom::format("rank {} (host {}, pid {})", rank, members[rank].host, members[rank].process);
}

std::optional<Signature> different_call(const Signature& ours, const RankReport& peer) {
  if (!peer.message) {
    return std::nullopt;
  }
  const StreamReport& stream = peer.message->streams[ours.stream];
  if (stream.state == StreamState::kIdle) {
    return std::nullopt;
  }
  for (const Signature& theirs : {stream.last, stream.before}) {
    if (theirs != Signature{} && theirs.operation == ours.operation && !(theirs == ours)) {
      return theirs;
    }
  }
  return std::nullopt;
}

Error mismatch_error(Rank rank, const Signature& ours, Rank peer, const Signature& theirs,
                     const std::vector<Member>& members, const std::string& connection) {
  std::string hint;
  if (details(ours) == details(theirs)) {
    hint = ": their counts, displacements or pairs differ, or one is in place";
  }
  return fail(CCOM_MISMATCH,
              "{} called {}, but {} called {}{} (connection: {}); all ranks must call the same "
              "collectives in the same order",
              rank_text(rank, members), details(ours), rank_text(peer, members), details(theirs),
              hint, connection);
}

Error left_error(Rank rank, const Signature& ours, Rank peer, const RankReport& report,
                 const std::vector<Member>& members) {
  return left_error(rank, ours, peer, "it " + last_text(report, ours.stream), members);
}

Error left_error(Rank rank, const Signature& ours, Rank peer, const std::string& last,
                 const std::vector<Member>& members) {
  return fail(CCOM_ABORTED,
              "{} left the communicator and never began {}, in which {} waits for it: {}; all "
              "ranks must call the same collectives before one frees its communicator",
              rank_text(peer, members), details(ours), rank_text(rank, members), last);
}

Error timeout_error(Rank rank, const Signature& ours, std::chrono::milliseconds silent,
                    const std::vector<std::pair<Rank, std::string>>& awaited,
                    const std::vector<RankReport>& reports, const std::vector<Member>& members) {
  std::string waits;
  size_t count = 0;
  for (const auto& [peer, connection] : awaited) {
    add(waits, count,
        ccom::format("{} over {}, which {}", rank_text(peer, members), connection,
                     last_text(reports[peer], ours.stream)));
  }
  std::string missing;
  count = 0;
  for (Rank peer = 0; peer < reports.size(); ++peer) {
    const RankReport& report = reports[peer];
    if (peer == rank || report.asked == base::Moment{}) {
      continue;
    }
    if (!answered(report)) {
      add(missing, count, ccom::format("{} does not answer", rank_text(peer, members)));
    } else if (behind(ours, report)) {
      add(missing, count,
          ccom::format("{} never began it: it {}", rank_text(peer, members),
                       last_text(report, ours.stream)));
    }
  }
  return fail(CCOM_TIMEOUT, "{} of {} made no progress for {} ms; it waits for {}{}{}",
              describe(ours), rank_text(rank, members), silent.count(),
              waits.empty() ? "nobody" : waits, missing.empty() ? "" : "; missing: ", missing);
}

}  // namespace neuron::ccom
