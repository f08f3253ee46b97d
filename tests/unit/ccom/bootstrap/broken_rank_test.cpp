// SPDX-License-Identifier: Apache-2.0
// A rank that goes, or says nothing more, behind every single message with which it joins: the
// others name it, in time.
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/unit/ccom/bootstrap/puppet.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

enum Step : uint8_t {
  kConnected,
  kGreeted,
  kProven,
  kJoined,
  kPlaced,
  kAtParent,
  kGreetedParent,
  kProvenToParent,
  kAttached,
  kReady,
  kIn,
  kSteps
};
constexpr const char* kNames[kSteps] = {
    "Connected",     "Greeted",        "Proven",   "Joined", "Placed", "AtParent",
    "GreetedParent", "ProvenToParent", "Attached", "Ready",  "In"};

// Rank 1 of three, up to a step.
class BrokenRank {
 public:
  BrokenRank(std::string root, Step last) : root_(std::move(root)), last_(last) {}

  // False: it did not come to its last step.
  bool play() {
    to_root_ = Wire::to(*parse_address(root_));
    if (!to_root_.open() || last_ == kConnected) return to_root_.open();
    if (!handshake(to_root_, kGreeted, kProven)) return false;
    if (last_ <= kProven) return true;
    Join join;
    join.rank = 1;
    join.size = 3;
    join.major = CCOM_VERSION_MAJOR;
    join.minor = CCOM_VERSION_MINOR;
    join.host_id = host_identity();
    join.process = getpid();
    join.remaining_ms = 60000;
    join.host = "puppet";
    if (!to_root_.say(MessageType::kJoin, encode(join)) || last_ == kJoined) {
      return last_ == kJoined;
    }
    const auto placed = to_root_.hear();
    TreePlace place;
    if (!placed || !decode(placed->body, place) || last_ == kPlaced) return last_ == kPlaced;
    to_parent_ = Wire::to(place.address);
    if (last_ == kAtParent) return to_parent_.open();
    if (!handshake(to_parent_, kGreetedParent, kProvenToParent)) return false;
    if (last_ <= kProvenToParent) return true;
    if (!to_parent_.say(MessageType::kAttach, encode(Attach{place.session, 1})) ||
        last_ == kAttached) {
      return last_ == kAttached;
    }
    if (!to_parent_.say(MessageType::kReady, {}) || last_ == kReady) return last_ == kReady;
    const auto table = to_parent_.hear(), go = to_parent_.hear();
    return table && go && go->type == MessageType::kGo;
  }

  void go() {
    to_root_.hang_up();
    to_parent_.hang_up();
  }

 private:
  bool handshake(const Wire& wire, Step greeted, Step proven) {
    Digest mine{};
    if (!base::random_bytes(mine) || !wire.say(MessageType::kHello, encode(Hello{1, mine}))) {
      return false;
    }
    if (last_ == greeted) return true;
    const auto heard = wire.hear();
    Challenge challenge;
    return heard && decode(heard->body, challenge) &&
           (wire.say(MessageType::kProof,
                     encode(Proof{client_proof(key_of(root_), mine, challenge.nonce)})) ||
            last_ == proven);
  }

  std::string root_;
  Step last_;
  Wire to_root_, to_parent_;
};

struct Said {
  bool fine = false;
  ccom_status_t status = CCOM_SUCCESS;
  std::string sentence;
  milliseconds late{0};  // behind its deadline
};

// What ranks 0 and 2 say of a rank 1 that goes, or keeps silent, behind `last`.
std::array<Said, 2> job_with(Step last, bool goes, milliseconds time) {
  const std::string root = free_address();
  BrokenRank broken(root, last);
  std::array<Said, 2> said;
  std::vector<std::thread> threads;
  for (const Rank rank : {0u, 2u}) {
    threads.emplace_back([&, rank] {
      Said& mine = said[rank / 2];
      const JoinOptions options = options_of(rank, 3, root, time);
      base::Deadline deadline = options.deadline;
      auto joined = Bootstrap::join(options);
      Result<void> done;
      if (!joined) {
        done = joined.error();
      } else {
        deadline = base::Deadline::after(time);
        done = (*joined)->barrier(deadline);
      }
      mine.late = std::chrono::duration_cast<milliseconds>(base::Clock::now() - deadline.when());
      mine.fine = static_cast<bool>(done);
      if (!done) {
        mine.status = done.error().status;
        mine.sentence = done.error().sentence;
      }
    });
  }
  const bool played = broken.play();
  if (goes) broken.go();
  for (std::thread& thread : threads) thread.join();
  if (!played) said[0].sentence = "the broken rank did not come to its last step";
  return said;
}

// What is wrong with it; "": nothing.
std::string wrong_with(const Said& said, Step last, bool goes) {
  const auto has = [&](const char* part) { return said.sentence.find(part) != std::string::npos; };
  if (said.fine) return "it has no failure";
  if (said.late > milliseconds(1500)) return "it is late: " + said.sentence;
  // While ranks come, who goes may come again; then it is missing.
  const bool missing = said.status == CCOM_TIMEOUT && has("missing: rank 1;");
  const bool unconnected =
      said.status == CCOM_TIMEOUT && has("not connected to its neighbours is rank 1;");
  const bool gone = said.status == CCOM_RANK_DEAD && has("rank 1 (host puppet, pid ") &&
                    has("went away while ranks joined");
  const bool dead = said.status == CCOM_RANK_DEAD && has("rank 1 (host puppet, pid ") &&
                    has("died: the connection was closed");
  const bool stayed_away = said.status == CCOM_TIMEOUT && has("rank 1 (host puppet, pid ") &&
                           has("did not come while the others waited");
  bool right = false;
  if (last < kJoined) {
    right = missing;
  } else if (last == kJoined) {
    right = goes ? missing || gone : unconnected;
  } else if (last < kReady) {
    right = goes ? gone : unconnected;
  } else if (last == kReady && goes) {
    right = gone || dead;  // the others may be through
  } else {
    right = goes ? dead : stayed_away;
  }
  return right ? "" : std::string(ccom_status_name(said.status)) + ": " + said.sentence;
}

class BrokenRanks : public testing::TestWithParam<bool> {};

TEST_P(BrokenRanks, AreNamedBehindWhateverStepOfTheirJoinItHappens) {
  const bool goes = GetParam();
  std::array<std::string, kSteps> wrong;
  std::vector<std::thread> threads;
  for (uint8_t i = 0; i < kSteps; ++i) {
    threads.emplace_back([&wrong, i, goes] {
      const auto step = static_cast<Step>(i);
      // The second time is for a host so busy that an innocent rank is late.
      for (const milliseconds time : {milliseconds(600), milliseconds(6000)}) {
        wrong[i].clear();
        Rank rank = 0;
        for (const Said& said : job_with(step, goes, time)) {
          const std::string complaint = wrong_with(said, step, goes);
          if (!complaint.empty()) wrong[i] += format("rank {}: {}\n", rank, complaint);
          rank += 2;
        }
        if (wrong[i].empty()) break;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint8_t i = 0; i < kSteps; ++i) EXPECT_EQ(wrong[i], "") << kNames[i];
}

INSTANTIATE_TEST_SUITE_P(Which, BrokenRanks, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Go" : "KeepSilent");
});

}  // namespace
}  // namespace neuron::ccom
