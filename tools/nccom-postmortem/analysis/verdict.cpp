// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-postmortem/analysis/verdict.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>

namespace neuron::tools {
namespace {

using Ranks = std::vector<uint32_t>;

std::string list_of(const Ranks& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 16; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > 16 ? base::format("{} and {} more", text, ranks.size() - 16) : text;
}

std::string count_of(size_t ranks) {
  return ranks == 1 ? "1 rank waits" : base::format("{} ranks wait", ranks);
}

// The operation that a rank was in when it stopped; null: none.
const Operation* unfinished(const RankEvidence& rank) {
  for (auto at = rank.operations.rbegin(); at != rank.operations.rend(); ++at) {
    if (at->under_way() || !at->good()) return &*at;
  }
  return nullptr;
}

// The newest operation of a stream; null: none is known.
const Operation* newest(const RankEvidence& rank, uint32_t stream) {
  for (auto at = rank.operations.rbegin(); at != rank.operations.rend(); ++at) {
    if (at->stream == stream) return &*at;
  }
  return nullptr;
}

const Operation* find(const RankEvidence& rank, const Operation& like) {
  for (const Operation& operation : rank.operations) {
    if (operation.stream == like.stream && operation.number == like.number) return &operation;
  }
  return nullptr;
}

std::string last_of(const RankEvidence& rank) {
  if (!rank.known) return "nothing is known of its operations";
  if (rank.operations.empty()) return "it has begun no operation";
  const Operation& last = rank.operations.back();
  return base::format(
      "its last operation was {}, {}", describe(last),
      last.under_way() ? "begun " + time_text(last.begin_ns) : "ended " + time_text(last.end_ns));
}

// Ranks that stopped in this operation.
Ranks waiting_in(const Evidence& evidence, const Operation& operation, const Ranks& except) {
  Ranks ranks;
  for (const auto& [number, rank] : evidence.ranks) {
    const Operation* theirs = unfinished(rank);
    if (theirs != nullptr && theirs->stream == operation.stream &&
        theirs->number == operation.number && !rank.dead &&
        std::find(except.begin(), except.end(), number) == except.end()) {
      ranks.push_back(number);
    }
  }
  return ranks;
}

bool find_mismatch(const Evidence& evidence, Verdict& verdict) {
  const RankEvidence* one = nullptr;
  const RankEvidence* other = nullptr;
  const Operation* first = nullptr;
  const Operation* second = nullptr;
  for (const auto& [number, rank] : evidence.ranks) {
    for (const Operation& operation : rank.operations) {
      if (first != nullptr && operation.number >= first->number) continue;
      for (const auto& [next, peer] : evidence.ranks) {
        const Operation* theirs = next > number ? find(peer, operation) : nullptr;
        if (theirs != nullptr && !theirs->same_call(operation)) {
          one = &rank, other = &peer, first = &operation, second = theirs;
          break;
        }
      }
    }
  }
  if (first == nullptr) return false;
  verdict.cause = Cause::kMismatch;
  verdict.culprits = {one->rank, other->rank};
  verdict.operation = *first;
  verdict.sentence = base::format("operation {} of stream {} differs: {} called {}, {} called {}",
                                  first->number, first->stream, describe(*one), call_of(*first),
                                  describe(*other), call_of(*second));
  verdict.waiting = waiting_in(evidence, *first, {});
  return true;
}

// The operation in which other ranks stopped; of several, the first by number.
const Operation* stopped_in(const Evidence& evidence, uint32_t except) {
  const Operation* found = nullptr;
  for (const auto& [number, rank] : evidence.ranks) {
    const Operation* theirs = number == except || rank.dead ? nullptr : unfinished(rank);
    if (theirs != nullptr && (found == nullptr || theirs->number < found->number)) found = theirs;
  }
  return found;
}

bool find_dead(const Evidence& evidence, Verdict& verdict) {
  const RankEvidence* first = nullptr;
  for (const auto& [number, rank] : evidence.ranks) {
    if (!rank.dead) continue;
    verdict.culprits.push_back(number);
    // A rank that could still write a dump ended because of others. Of the rest, the cause is the
    // rank that advanced least.
    if (first == nullptr || (first->dumped && !rank.dumped) ||
        (first->dumped == rank.dumped && rank.known && rank.begun < first->begun)) {
      first = &rank;
    }
  }
  if (first == nullptr) return false;
  verdict.cause = Cause::kDeadRank;
  const Operation* operation = stopped_in(evidence, first->rank);
  std::string how = "died";
  const std::string name = base::format("rank {} ", first->rank);
  for (const auto& [number, rank] : evidence.ranks) {
    const size_t at = rank.sentence.find(name);
    const size_t said = at == std::string::npos ? at : rank.sentence.find(" died: ", at);
    if (said != std::string::npos) {
      how = rank.sentence.substr(said + 1, rank.sentence.find(';', said) - said - 1);
      break;
    }
  }
  if (operation == nullptr) {
    verdict.sentence =
        base::format("{} {}; no operation was under way on the other ranks", describe(*first), how);
    return true;
  }
  verdict.operation = *operation;
  verdict.waiting = waiting_in(evidence, *operation, verdict.culprits);
  const Operation* own = find(*first, *operation);
  verdict.sentence = base::format("{} {}; {} {}; {}; {} for it", describe(*first), how,
                                  !first->known    ? "whether it began"
                                  : own == nullptr ? "it never began"
                                                   : "it had begun",
                                  describe(*operation) + (first->known ? "" : " is not known"),
                                  last_of(*first), count_of(verdict.waiting.size()));
  if (verdict.culprits.size() > 1) {
    verdict.sentence += base::format(" (dead in all: ranks {})", list_of(verdict.culprits));
  }
  return true;
}

bool find_waits(const Evidence& evidence, Verdict& verdict) {
  const Operation* operation = stopped_in(evidence, UINT32_MAX);
  if (operation == nullptr) return false;
  Ranks missing;
  for (const auto& [number, rank] : evidence.ranks) {
    const Operation* theirs = rank.known ? newest(rank, operation->stream) : nullptr;
    if (rank.known && (theirs == nullptr || theirs->number < operation->number)) {
      missing.push_back(number);
    }
  }
  verdict.operation = *operation;
  if (missing.empty()) {
    // All ranks began the operation: follow the waits from rank to rank.
    Ranks chain;
    const RankEvidence* at = nullptr;
    for (const auto& [number, rank] : evidence.ranks) {
      const Operation* theirs = unfinished(rank);
      if (theirs != nullptr && theirs->number == operation->number) at = &rank;
    }
    while (at != nullptr && std::find(chain.begin(), chain.end(), at->rank) == chain.end()) {
      chain.push_back(at->rank);
      const Operation* theirs = unfinished(*at);
      const auto next =
          theirs == nullptr ? evidence.ranks.end() : evidence.ranks.find(theirs->waiting_for);
      if (next == evidence.ranks.end() || next->first == at->rank) break;
      at = &next->second;
    }
    const bool circle = at != nullptr && !chain.empty() && chain.back() != at->rank;
    verdict.cause = circle ? Cause::kCircle : Cause::kStuckRank;
    verdict.culprits = circle ? Ranks(std::find(chain.begin(), chain.end(), at->rank), chain.end())
                              : Ranks{chain.empty() ? operation->waiting_for : chain.back()};
    verdict.waiting = waiting_in(evidence, *operation, verdict.culprits);
    const RankEvidence& rank = evidence.ranks.at(verdict.culprits.front());
    verdict.sentence =
        circle ? base::format("all ranks began {}, and ranks {} wait for one another in a circle",
                              describe(*operation), list_of(verdict.culprits))
               : base::format("all ranks began {}, but {} stopped in it; {}; {} for it",
                              describe(*operation), describe(rank), last_of(rank),
                              count_of(verdict.waiting.size()));
    return true;
  }
  verdict.cause = Cause::kMissingRank;
  verdict.culprits = missing;
  verdict.waiting = waiting_in(evidence, *operation, missing);
  const RankEvidence& first = evidence.ranks.at(missing.front());
  verdict.sentence =
      base::format("{} never began {}; {}; {} for it", describe(first), describe(*operation),
                   last_of(first), count_of(verdict.waiting.size()));
  if (missing.size() > 1) {
    verdict.sentence += base::format(" (never began it in all: ranks {})", list_of(missing));
  }
  return true;
}

bool find_sentence(const Evidence& evidence, Verdict& verdict) {
  const RankEvidence* first = nullptr;
  for (const auto& [number, rank] : evidence.ranks) {
    if (rank.sentence.empty() || rank.status == "CCOM_SUCCESS") continue;
    if (first == nullptr || rank.time_ns < first->time_ns) first = &rank;
  }
  if (first == nullptr) return false;
  const bool aborted = first->status == "CCOM_ABORTED";
  verdict.cause = aborted ? Cause::kAborted : Cause::kUnknown;
  verdict.sentence = base::format("{} was the first to fail, with {}: {}", describe(*first),
                                  first->status, first->sentence);
  verdict.culprits = {first->rank};
  return true;
}

}  // namespace

Verdict judge(const Evidence& evidence) {
  Verdict verdict;
  for (uint32_t i = 0; i < evidence.size; ++i) {
    const auto rank = evidence.ranks.find(i);
    if (rank == evidence.ranks.end() || !rank->second.known) verdict.silent.push_back(i);
  }
  const bool aborted = std::any_of(evidence.ranks.begin(), evidence.ranks.end(),
                                   [](const auto& e) { return e.second.status == "CCOM_ABORTED"; });
  if (find_mismatch(evidence, verdict) || find_dead(evidence, verdict) ||
      (aborted && find_sentence(evidence, verdict)) || find_waits(evidence, verdict) ||
      find_sentence(evidence, verdict)) {
    return verdict;
  }
  verdict.sentence = base::format("nothing failed on the {} ranks that are known",
                                  evidence.size - verdict.silent.size());
  return verdict;
}

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kMismatch:
      return "mismatch";
    case Cause::kDeadRank:
      return "dead_rank";
    case Cause::kMissingRank:
      return "missing_rank";
    case Cause::kStuckRank:
      return "stuck_rank";
    case Cause::kCircle:
      return "circle";
    case Cause::kAborted:
      return "aborted";
    case Cause::kUnknown:
      break;
  }
  return "unknown";
}

std::string text_of(const Verdict& verdict, const Evidence& evidence) {
  std::string text = verdict.sentence + "\n";
  for (const auto& [number, rank] : evidence.ranks) {
    text += base::format("  {}: {}{}{}\n", describe(rank), last_of(rank), rank.dead ? "; dead" : "",
                         rank.dumped ? "" : "; it wrote no dump");
  }
  if (!verdict.silent.empty()) {
    text += base::format("  no dump shows ranks {}\n", list_of(verdict.silent));
  }
  return text;
}

std::string json_of(const Verdict& verdict, const Evidence& evidence) {
  namespace json = boost::json;
  json::object result;
  const auto ranks = [&](const Ranks& list) {
    json::array array;
    for (const uint32_t number : list) {
      const auto rank = evidence.ranks.find(number);
      json::object entry;
      entry["rank"] = number;
      if (rank != evidence.ranks.end()) {
        entry["host"] = rank->second.host;
        entry["process"] = rank->second.process;
      }
      array.push_back(std::move(entry));
    }
    return array;
  };
  result["cause"] = name_of(verdict.cause);
  result["sentence"] = verdict.sentence;
  result["ranks"] = evidence.size;
  result["culprits"] = ranks(verdict.culprits);
  result["waiting"] = ranks(verdict.waiting);
  result["silent"] = ranks(verdict.silent);
  if (verdict.operation) {
    result["operation"] = {{"name", verdict.operation->name},
                           {"number", verdict.operation->number},
                           {"stream", verdict.operation->stream}};
  }
  return json::serialize(result) + "\n";
}

}  // namespace neuron::tools
