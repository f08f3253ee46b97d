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
  const std::string how =
      last.under_way() ? "begun " + time_text(last.begin_ns)
      : last.good()    ? "ended " + time_text(last.end_ns)
                    : base::format("which failed with {} {}", last.status, time_text(last.end_ns));
  return base::format("its last operation was {}, {}", describe(last), how);
}

bool wrote_dump(const Evidence& evidence, uint32_t number) {
  const auto rank = evidence.ranks.find(number);
  return rank != evidence.ranks.end() && rank->second.dumped;
}

std::string name_of(const Evidence& evidence, uint32_t number) {
  const auto rank = evidence.ranks.find(number);
  return rank == evidence.ranks.end() ? base::format("rank {}", number) : describe(rank->second);
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

// The operation in which other ranks stopped; of several, the first by number. What a rank without
// a dump was seen in counts only where no dump shows one: it may have stood still there while the
// others went on without it.
const Operation* stopped_in(const Evidence& evidence, uint32_t except) {
  const Operation* found = nullptr;
  for (const bool dumped : {true, false}) {
    for (const auto& [number, rank] : evidence.ranks) {
      if (number == except || rank.dead || rank.dumped != dumped) continue;
      const Operation* theirs = unfinished(rank);
      if (theirs != nullptr && (found == nullptr || theirs->number < found->number)) found = theirs;
    }
    if (found != nullptr) break;
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

Ranks without_dump(const Evidence& evidence) {
  Ranks ranks;
  for (uint32_t number = 0; number < evidence.size; ++number) {
    if (!wrote_dump(evidence, number)) ranks.push_back(number);
  }
  return ranks;
}

// From rank to rank along the waits, to one that waits for none, wrote no dump, or was met before,
// which then stands at the end once more.
Ranks chain_from(const Evidence& evidence, uint32_t number) {
  Ranks chain = {number};
  for (;;) {  // bounded: each turn adds a rank, until one comes a second time
    const auto at = evidence.ranks.find(chain.back());
    const Operation* theirs = at == evidence.ranks.end() ? nullptr : unfinished(at->second);
    if (theirs == nullptr || !at->second.dumped || theirs->waiting_for == chain.back() ||
        theirs->waiting_for >= evidence.size) {
      return chain;
    }
    const bool met = std::find(chain.begin(), chain.end(), theirs->waiting_for) != chain.end();
    chain.push_back(theirs->waiting_for);
    if (met) return chain;
  }
}

// Ranks without a dump that others wait for. Whoever fails writes its dump, so these have not come
// to that: their processes stand still, or are cut off.
bool find_without_dump(const Evidence& evidence, Verdict& verdict) {
  const Operation& operation = *verdict.operation;
  std::set<uint32_t> awaited;
  std::string who;
  for (const uint32_t number : waiting_in(evidence, operation, {})) {
    if (!wrote_dump(evidence, number)) continue;
    const Ranks chain = chain_from(evidence, number);
    if (chain.size() < 2 || wrote_dump(evidence, chain.back())) continue;
    awaited.insert(chain.back());
    if (who.empty()) {
      const uint32_t last = chain[chain.size() - 2];
      who =
          base::format("{} waits for {}", name_of(evidence, last), name_of(evidence, chain.back()));
    }
  }
  if (awaited.empty()) return false;
  const Ranks silent = without_dump(evidence);
  // If most ranks have no dump, the files are not all there, and those that nobody is known to wait
  // for are not to blame; but those of the same processes are.
  const bool all = silent.size() <= evidence.size - silent.size();
  for (const uint32_t number : silent) {
    const auto rank = evidence.ranks.find(number);
    const bool beside = rank != evidence.ranks.end() && rank->second.process != 0 &&
                        std::any_of(awaited.begin(), awaited.end(), [&](uint32_t other) {
                          const auto there = evidence.ranks.find(other);
                          return there != evidence.ranks.end() &&
                                 there->second.host == rank->second.host &&
                                 there->second.process == rank->second.process;
                        });
    if (all || beside || awaited.count(number) != 0) verdict.culprits.push_back(number);
  }
  verdict.cause = Cause::kStuckRank;
  verdict.waiting = waiting_in(evidence, operation, verdict.culprits);
  const bool one = verdict.culprits.size() == 1;
  const std::string named =
      base::format("{} {}", one ? "rank" : "ranks", list_of(verdict.culprits));
  verdict.sentence = base::format(
      "{} wrote no dump, and {} in {}; look whether {} {}, or add {}; {} for {}", named, who,
      describe(operation), one ? "its process stands still" : "their processes stand still",
      "or cannot be reached", one ? "its dump" : "their dumps", count_of(verdict.waiting.size()),
      one ? "it" : "them");
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
    if (find_without_dump(evidence, verdict)) return true;
    // All ranks began the operation: follow the waits from rank to rank.
    Ranks chain;
    for (const uint32_t number : waiting_in(evidence, *operation, {})) {
      chain = chain_from(evidence, number);
    }
    if (chain.empty()) return false;
    const auto met = std::find(chain.begin(), chain.end(), chain.back());
    const bool circle = met + 1 != chain.end();
    verdict.cause = circle ? Cause::kCircle : Cause::kStuckRank;
    verdict.culprits = circle ? Ranks(met, chain.end() - 1) : Ranks{chain.back()};
    verdict.waiting = waiting_in(evidence, *operation, verdict.culprits);
    const RankEvidence& rank = evidence.ranks.at(verdict.culprits.front());
    const char* all = verdict.silent.empty() ? "all ranks" : "all ranks that are known";
    verdict.sentence =
        circle ? base::format("{} began {}, and ranks {} wait for one another in a circle", all,
                              describe(*operation), list_of(verdict.culprits))
               : base::format("{} began {}, but {} stopped in it; {}; {} for it", all,
                              describe(*operation), describe(rank), last_of(rank),
                              count_of(verdict.waiting.size()));
    return true;
  }
  // Those without a dump first: whoever fails because of others writes one.
  std::stable_partition(missing.begin(), missing.end(),
                        [&](uint32_t number) { return !wrote_dump(evidence, number); });
  verdict.cause = Cause::kMissingRank;
  verdict.culprits = missing;
  verdict.waiting = waiting_in(evidence, *operation, missing);
  const RankEvidence& first = evidence.ranks.at(missing.front());
  verdict.sentence = base::format("{} never began {}{}; {}; {} for it", describe(first),
                                  describe(*operation), first.dumped ? "" : " and wrote no dump",
                                  last_of(first), count_of(verdict.waiting.size()));
  if (missing.size() > 1) {
    verdict.sentence += base::format(" (never began it in all: ranks {})", list_of(missing));
  }
  const Ranks silent = without_dump(evidence);
  if (!first.dumped && silent.size() > 1) {
    verdict.sentence += base::format(" (wrote no dump in all: ranks {})", list_of(silent));
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

// Somebody ends a job that does not get on, and the survivors say that they were aborted. The cause
// then is a rank that they waited for and that wrote no dump, unless that one said that it aborted.
bool find_before_abort(const Evidence& evidence, Verdict& verdict) {
  for (const auto& [number, rank] : evidence.ranks) {
    if (rank.dumped) continue;
    const std::string name = base::format("rank {} ", number);
    for (const auto& [other, told] : evidence.ranks) {
      const size_t at = told.sentence.find(name);
      if (at != std::string::npos && told.sentence.find(" aborted", at) != std::string::npos) {
        return false;
      }
    }
  }
  Verdict waits = verdict;
  if (!find_waits(evidence, waits) || wrote_dump(evidence, waits.culprits.front())) return false;
  verdict = std::move(waits);
  Verdict first;
  if (find_sentence(evidence, first)) verdict.sentence += "; " + first.sentence;
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
      (aborted && (find_before_abort(evidence, verdict) || find_sentence(evidence, verdict))) ||
      find_waits(evidence, verdict) || find_sentence(evidence, verdict)) {
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
