// SPDX-License-Identifier: Apache-2.0
#include "tests/system/network/history.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace neuron::network {

namespace {

constexpr uint64_t kDiagnosisMs = 2000;
constexpr size_t kMostComplaints = 20;
constexpr const char* kKinds[] = {"begin", "ok", "error"};

std::string place(const Event& event) {
  return "rank " + std::to_string(event.rank) + ", communicator " + std::to_string(event.comm) +
         ", operation " + std::to_string(event.sequence) + " (" + event.operation + ")";
}

// Whether the text names the rank: "rank 3" or "ranks 1, 3", with no digit around the number.
bool names(const std::string& text, uint32_t rank) {
  const std::string number = std::to_string(rank);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at + 4)) {
    // Numbers that follow the word, up to a letter that is not part of a list.
    size_t i = at + 4;
    if (i < text.size() && text[i] == 's') ++i;
    while (i < text.size()) {
      if (digit(text[i])) {
        size_t end = i;
        while (end < text.size() && digit(text[end])) ++end;
        if (text.compare(i, end - i, number) == 0 && end - i == number.size()) return true;
        i = end;
      } else if (text[i] == ' ' || text[i] == ',' || text[i] == '-' ||
                 text.compare(i, 3, "and") == 0) {
        i += text[i] == 'a' ? 3 : 1;
      } else {
        break;
      }
    }
  }
  return false;
}

using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // communicator, rank, sequence

struct Index {
  std::map<Key, const Event*> begins, ends;

  explicit Index(const std::vector<Event>& events) {
    for (const Event& event : events) {
      auto& into = event.kind == Event::Kind::kBegin ? begins : ends;
      into[{event.comm, event.rank, event.sequence}] = &event;
    }
  }
};

void check_safety(const std::vector<Event>& events, Reference reference,
                  std::vector<std::string>& complaints) {
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kOk &&
        event.hash != reference(event.rank, event.comm, event.sequence)) {
      complaints.push_back("safety: " + place(event) + " has a wrong result");
    }
  }
}

void check_agreement(const std::vector<Event>& events, std::vector<std::string>& complaints) {
  std::map<uint32_t, const Event*> first_error;  // by communicator
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kError) continue;
    const Event*& first = first_error[event.comm];
    if (first == nullptr || event.sequence < first->sequence) first = &event;
  }
  for (const Event& event : events) {
    const auto found = first_error.find(event.comm);
    if (event.kind == Event::Kind::kOk && found != first_error.end() &&
        event.sequence > found->second->sequence) {
      complaints.push_back("agreement: " + place(event) + " is ok, but " + place(*found->second) +
                           " failed");
    }
  }
}

void check_liveness(const Index& index, const Expectations& expectations,
                    std::vector<std::string>& complaints) {
  for (const auto& [key, begin] : index.begins) {
    const auto end = index.ends.find(key);
    if (end == index.ends.end()) {
      if (expectations.gone.count(begin->rank) == 0) {
        complaints.push_back("liveness: " + place(*begin) + " never ended");
      }
    } else if (end->second->time_ms > begin->time_ms + expectations.deadline_ms + kDiagnosisMs) {
      complaints.push_back("liveness: " + place(*begin) + " took " +
                           std::to_string(end->second->time_ms - begin->time_ms) + " ms");
    }
  }
}

void check_diagnosis(const std::vector<Event>& events, const Expectations& expectations,
                     std::vector<std::string>& complaints) {
  if (!expectations.failing) return;
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kError || event.comm != expectations.failing->comm) continue;
    if (event.rank >= expectations.failing->missing.size()) continue;
    const std::set<uint32_t>& missing = expectations.failing->missing[event.rank];
    if (missing.empty()) continue;
    if (std::none_of(missing.begin(), missing.end(),
                     [&](uint32_t rank) { return names(event.text, rank); })) {
      complaints.push_back("diagnosis: " + place(event) +
                           " names nobody who is missing: " + event.text);
    }
  }
}

void check_recovery(const Index& index, const Expectations& expectations,
                    std::vector<std::string>& complaints) {
  for (const Expectations::Good& good : expectations.good) {
    for (const uint32_t rank : good.ranks) {
      for (uint64_t sequence = 0; sequence < good.operations; ++sequence) {
        const auto end = index.ends.find({good.comm, rank, sequence});
        const std::string where = "rank " + std::to_string(rank) + ", communicator " +
                                  std::to_string(good.comm) + ", operation " +
                                  std::to_string(sequence);
        if (end == index.ends.end()) {
          complaints.push_back("recovery: " + where + " was not done");
          break;
        }
        if (end->second->kind != Event::Kind::kOk) {
          complaints.push_back("recovery: " + where + " failed: " + end->second->text);
          break;
        }
      }
    }
  }
}

void check_stranded(const std::vector<Event>& events, const Expectations& expectations,
                    std::vector<std::string>& complaints) {
  if (!expectations.failing) return;
  const uint32_t comm = expectations.failing->comm;
  std::set<uint32_t> with_error;
  for (const Event& event : events) {
    if (event.comm == comm && event.kind == Event::Kind::kError) with_error.insert(event.rank);
  }
  if (with_error.empty()) complaints.push_back("stranded: nobody noticed the failure");
  for (uint32_t rank = 0; rank < expectations.ranks; ++rank) {
    if (expectations.gone.count(rank) == 0 && with_error.count(rank) == 0 && !with_error.empty()) {
      complaints.push_back("stranded: rank " + std::to_string(rank) +
                           " was never told of the failure");
    }
  }
}

}  // namespace

std::string to_line(const Event& event) {
  std::ostringstream line;
  line << "event " << event.time_ms << " " << event.rank << " " << event.comm << " "
       << event.sequence << " " << event.operation << " " << event.bytes << " "
       << kKinds[static_cast<size_t>(event.kind)] << " " << event.hash;
  std::string text = event.text;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (!text.empty()) line << " " << text;
  return line.str();
}

std::optional<Event> from_line(std::string_view text) {
  std::istringstream line{std::string(text)};
  std::string word, kind;
  Event event;
  if (!(line >> word >> event.time_ms >> event.rank >> event.comm >> event.sequence >>
        event.operation >> event.bytes >> kind >> event.hash) ||
      word != "event") {
    return {};
  }
  const auto* found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (found == std::end(kKinds)) return {};
  event.kind = static_cast<Event::Kind>(found - std::begin(kKinds));
  std::getline(line >> std::ws, event.text);
  return event;
}

std::vector<std::string> check(const std::vector<Event>& events, const Expectations& expectations,
                               Reference reference) {
  std::vector<std::string> complaints;
  const Index index(events);
  check_safety(events, reference, complaints);
  check_agreement(events, complaints);
  check_liveness(index, expectations, complaints);
  check_diagnosis(events, expectations, complaints);
  check_recovery(index, expectations, complaints);
  check_stranded(events, expectations, complaints);
  if (complaints.size() > kMostComplaints) complaints.resize(kMostComplaints);
  return complaints;
}

}  // namespace neuron::network
