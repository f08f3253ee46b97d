// SPDX-License-Identifier: Apache-2.0
#include "ccom/schedule/lookahead.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

namespace neuron::ccom {
namespace {

bool overlap(const Slice& a, uint64_t a_bytes, const Slice& b, uint64_t b_bytes) {
  return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes &&
         a_bytes != 0 && b_bytes != 0;
}

bool touches(const Step& step, const Slice& slice, uint64_t bytes) {
  switch (step.kind) {
    case StepKind::kSend:
      return overlap(step.source, step.bytes, slice, bytes);
    case StepKind::kReceive:
      return overlap(step.destination, step.bytes, slice, bytes);
    case StepKind::kCopy:
      return overlap(step.source, step.bytes, slice, bytes) ||
             overlap(step.destination, step.bytes, slice, bytes);
    case StepKind::kDuplicate:
      return overlap(step.source, step.bytes, slice, bytes) ||
             overlap(step.destination, step.bytes, slice, bytes) ||
             overlap(step.second, step.bytes, slice, bytes);
    case StepKind::kReduce: {
      const uint64_t gathered = step.count == 0 ? 0 : (step.count - 1) * step.stride + step.bytes;
      return overlap(step.source, gathered, slice, bytes) ||
             overlap(step.destination, step.bytes, slice, bytes) ||
             (step.has_own && overlap(step.second, step.bytes, slice, bytes));
    }
    case StepKind::kWait:
      return true;  // the channel that kWait waits for may touch anything
  }
  return true;
}

}  // namespace

struct Lookahead::State {
  struct Entry {
    Step step;
    uint64_t number = 0;     // among the messages of its peer
    uint64_t not_until = 0;  // receive: the position before which a step still touches its place
  };
  struct Peer {
    uint64_t sends = 0;     // read ahead
    uint64_t receives = 0;  // read ahead
    uint64_t granted = 0;
    uint64_t received = 0;  // executed
    uint64_t scan = 0;      // last scan in which its next receive could not be granted
  };
  struct Pending {  // a send that was started
    Rank peer;
    uint64_t number;
    uint64_t position;
    Slice source;
    uint64_t bytes;
  };

  std::unique_ptr<Program> program;
  uint32_t window;
  uint32_t horizon;
  bool ended = false;
  uint64_t position = 0;
  std::deque<Entry> ahead;
  std::deque<uint64_t> ungranted;  // positions of the receives that are not granted yet
  std::vector<Pending> pending;
  std::unordered_map<Rank, Peer> peers;
  uint64_t scans = 0;
  bool stale = true;  // something changed since grantable() found nothing
  uint64_t offered = 0;

  void fill() {
    while (!ended && ahead.size() < horizon) {
      Entry entry;
      if (!program->next(entry.step)) {
        ended = true;
        break;
      }
      if (entry.step.kind == StepKind::kSend) entry.number = peers[entry.step.peer].sends++;
      if (entry.step.kind == StepKind::kReceive) {
        entry.number = peers[entry.step.peer].receives++;
        for (size_t i = ahead.size(); i-- != 0;) {
          if (!touches(ahead[i].step, entry.step.destination, entry.step.bytes)) continue;
          entry.not_until = position + i + 1;
          break;
        }
        ungranted.push_back(position + ahead.size());
      }
      ahead.push_back(entry);
    }
  }

  bool being_sent(const Slice& slice, uint64_t bytes) const {
    return std::any_of(pending.begin(), pending.end(), [&](const Pending& send) {
      return overlap(send.source, send.bytes, slice, bytes);
    });
  }
};

Lookahead::Lookahead(std::unique_ptr<Program> program, uint32_t window, uint32_t horizon)
    : state_(std::make_unique<State>()) {
  state_->program = std::move(program);
  state_->window = std::max(1u, window);
  state_->horizon = std::max(1u, horizon);
  state_->fill();
}

Lookahead::~Lookahead() = default;
Lookahead::Lookahead(Lookahead&&) noexcept = default;
Lookahead& Lookahead::operator=(Lookahead&&) noexcept = default;

const Step* Lookahead::current() const {
  return state_->ahead.empty() ? nullptr : &state_->ahead.front().step;
}

uint64_t Lookahead::position() const { return state_->position; }

uint64_t Lookahead::number() const {
  return state_->ahead.empty() ? 0 : state_->ahead.front().number;
}

void Lookahead::advance() {
  State& state = *state_;
  if (state.ahead.empty()) return;
  const auto& entry = state.ahead.front();
  if (entry.step.kind == StepKind::kSend) {
    state.pending.push_back(
        {entry.step.peer, entry.number, state.position, entry.step.source, entry.step.bytes});
  } else if (entry.step.kind == StepKind::kReceive) {
    auto& peer = state.peers[entry.step.peer];
    ++peer.received;
    peer.granted = std::max(peer.granted, peer.received);
    // For connections that need no grants, grantable() is never called.
    if (!state.ungranted.empty() && state.ungranted.front() == state.position) {
      state.ungranted.pop_front();
    }
  }
  state.ahead.pop_front();
  ++state.position;
  state.stale = true;
  state.fill();
}

const Step* Lookahead::grantable(uint64_t& number) {
  State& state = *state_;
  if (!state.stale) return nullptr;
  ++state.scans;
  for (const uint64_t at : state.ungranted) {
    auto& entry = state.ahead[at - state.position];
    auto& peer = state.peers[entry.step.peer];
    if (peer.scan == state.scans) continue;  // an earlier receive from this peer comes first
    if (entry.not_until > state.position || peer.granted - peer.received >= state.window ||
        state.being_sent(entry.step.destination, entry.step.bytes)) {
      peer.scan = state.scans;
      continue;
    }
    number = entry.number;
    state.offered = at;
    return &entry.step;
  }
  state.stale = false;
  return nullptr;
}

void Lookahead::granted() {
  State& state = *state_;
  const auto found = std::find(state.ungranted.begin(), state.ungranted.end(), state.offered);
  if (found == state.ungranted.end()) return;
  ++state.peers[state.ahead[*found - state.position].step.peer].granted;
  state.ungranted.erase(found);
}

uint64_t Lookahead::sends_needed(Rank& peer) const {
  const State& state = *state_;
  if (state.ahead.empty() || state.pending.empty()) return 0;
  const Step& step = state.ahead.front().step;
  if (step.kind == StepKind::kSend || step.kind == StepKind::kWait) return 0;
  for (const auto& send : state.pending) {
    if (!overlap(send.source, send.bytes, step.destination, step.bytes) &&
        !(step.kind == StepKind::kDuplicate &&
          overlap(send.source, send.bytes, step.second, step.bytes))) {
      continue;
    }
    peer = send.peer;
    return send.number + 1;
  }
  return 0;
}

void Lookahead::sent(Rank peer, uint64_t number) {
  State& state = *state_;
  const auto found = std::find_if(
      state.pending.begin(), state.pending.end(),
      [&](const State::Pending& send) { return send.peer == peer && send.number == number; });
  if (found == state.pending.end()) return;
  state.pending.erase(found);
  state.stale = true;
}

bool Lookahead::completed(uint64_t position) const {
  const State& state = *state_;
  if (state.position < position) return false;
  return std::none_of(state.pending.begin(), state.pending.end(),
                      [&](const State::Pending& send) { return send.position < position; });
}

}  // namespace neuron::ccom
