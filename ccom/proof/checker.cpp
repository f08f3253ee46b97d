// SPDX-License-Identifier: Apache-2.0
#include "ccom/proof/checker.h"

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "ccom/proof/contributions.h"
#include "ccom/proof/expectation.h"
#include "ccom/proof/overlaps.h"
#include "ccom/request/layout.h"
#include "ccom/request/names.h"
#include "ccom/request/validate.h"
#include "ccom/schedule/lookahead.h"

namespace neuron::ccom {
namespace {

const char* buffer_name(Buffer buffer) {
  static const char* const kNames[] = {"input", "output", "scratch"};
  return kNames[static_cast<size_t>(buffer) % 3];
}

const char* kind_name(StepKind kind) {
  static const char* const kNames[] = {"send", "receive", "reduce", "copy", "duplicate", "wait"};
  return kNames[static_cast<size_t>(kind) % 6];
}

struct Message {
  uint64_t number = 0;
  uint64_t bytes = 0;
  std::vector<Contents::Run> runs;  // begin and end are relative to the message; so is shift
  std::vector<uint64_t> heard;      // barrier: ranks whose start the sender knows of
};

class Trial {
 public:
  Trial(const Schedule& schedule, const Request& request, uint32_t window)
      : schedule_(schedule),
        request_(request),
        layout_(request, schedule.ranks()),
        ranks_(schedule.ranks()),
        channels_(schedule.channels()),
        window_(window),
        terms_(schedule.ranks()) {}

  Result<void> run();

 private:
  struct Lane {  // one channel of one rank
    Lookahead ahead;
    std::map<Rank, uint64_t> grants;            // places granted to a sender
    std::map<Rank, std::deque<Message>> inbox;  // by sender
    std::vector<uint64_t> heard;
    bool queued = false;
  };
  struct Memory {
    Contents buffers[3];
    uint64_t sizes[3] = {};
    std::vector<Overlaps> accesses;  // with several channels: one for each buffer
  };

  Lane& lane(Rank rank, uint32_t channel) { return lanes_[rank * channels_ + channel]; }
  void queue(Rank rank, uint32_t channel) {
    Lane& target = lane(rank, channel);
    if (target.queued) return;
    target.queued = true;
    work_.push_back({rank, channel});
  }
  std::string where(Rank rank, uint32_t channel) {
    const auto& ahead = lane(rank, channel).ahead;
    const Step* step = ahead.current();
    return format("rank {}, channel {}, step {} ({})", rank, channel, ahead.position(),
                  step == nullptr ? "end" : kind_name(step->kind));
  }
  template <class... A>
  Error wrong(Rank rank, uint32_t channel, fmt::format_string<A...> text, A&&... arguments) {
    return {CCOM_INVALID,
            where(rank, channel) + ": " + ccom::format(text, std::forward<A>(arguments)...)};
  }

  Result<void> prepare();
  Result<bool> step(Rank rank, uint32_t channel);  // false: cannot advance now
  void grant(Rank rank, uint32_t channel);
  Result<void> access(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes, bool write);
  Result<void> read(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes,
                    std::vector<Contents::Run>& runs);
  Result<void> write(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes,
                     const std::vector<Contents::Run>& runs);
  Result<void> reduce(Rank rank, uint32_t channel, const Step& step);
  Result<void> receive(Rank rank, uint32_t channel, const Step& step);
  Result<void> finish();
  Result<void> finish_memory(Rank rank);
  std::string blocked();

  const Schedule& schedule_;
  const Request& request_;
  Layout layout_;
  uint32_t ranks_;
  uint32_t channels_;
  uint32_t window_;
  Terms terms_;
  std::vector<Lane> lanes_;
  std::vector<Memory> memory_;
  std::vector<ChannelOrder> order_;
  std::deque<std::pair<Rank, uint32_t>> work_;
};

Result<void> Trial::prepare() {
  const uint32_t words = (ranks_ + 63) / 64;
  memory_.resize(ranks_);
  if (channels_ > 1) order_.assign(ranks_, ChannelOrder(channels_));
  for (Rank rank = 0; rank < ranks_; ++rank) {
    Memory& memory = memory_[rank];
    const Extents sizes = extents(request_, ranks_, rank);
    memory.sizes[0] = sizes.input;
    memory.sizes[1] = sizes.output;
    memory.sizes[2] = schedule_.scratch_bytes(rank);
    if (channels_ > 1) memory.accesses.resize(3);
    const Expected input = initial(request_, ranks_, rank);
    memory.buffers[static_cast<size_t>(input.place.buffer)].write(
        input.place.offset, input.place.offset + input.bytes,
        {terms_.rank(rank), -static_cast<int64_t>(input.place.offset)});
    for (uint32_t channel = 0; channel < channels_; ++channel) {
      Lane& made = lanes_.emplace_back(
          Lane{Lookahead(schedule_.program(rank, channel), window_), {}, {}, {}, false});
      made.heard.resize(words);
      made.heard[rank / 64] |= uint64_t{1} << rank % 64;
    }
  }
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t channel = 0; channel < channels_; ++channel) {
      grant(rank, channel);
      queue(rank, channel);
    }
  }
  return {};
}

void Trial::grant(Rank rank, uint32_t channel) {
  Lane& mine = lane(rank, channel);
  uint64_t number = 0;
  while (const Step* step = mine.ahead.grantable(number)) {
    const Rank peer = step->peer;
    mine.ahead.granted();
    ++mine.grants[peer];
    if (peer < ranks_) queue(peer, channel);
  }
}

Result<void> Trial::access(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes,
                           bool write) {
  const auto buffer = static_cast<size_t>(slice.buffer);
  Memory& memory = memory_[rank];
  if (bytes == 0) return {};
  if (slice.offset > memory.sizes[buffer] || bytes > memory.sizes[buffer] - slice.offset) {
    return wrong(rank, channel, "{} bytes at {} of the {}, which has {} bytes", bytes, slice.offset,
                 buffer_name(slice.buffer), memory.sizes[buffer]);
  }
  if (channels_ == 1) return {};
  uint32_t other = 0;
  uint64_t position = 0;
  if (!memory.accesses[buffer].note(slice.offset, slice.offset + bytes, channel,
                                    lane(rank, channel).ahead.position(), write, order_[rank],
                                    other, position)) {
    return wrong(rank, channel,
                 "{} bytes {} to {} of the {}, which step {} of channel {} uses as well; no wait "
                 "orders the two",
                 write ? "writes" : "reads", slice.offset, slice.offset + bytes,
                 buffer_name(slice.buffer), position, other);
  }
  return {};
}

Result<void> Trial::read(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes,
                         std::vector<Contents::Run>& runs) {
  runs.clear();
  NEURON_CHECK(access(rank, channel, slice, bytes, false));
  uint64_t hole = 0;
  const Contents& contents = memory_[rank].buffers[static_cast<size_t>(slice.buffer)];
  if (!contents.read(slice.offset, slice.offset + bytes, runs, hole)) {
    return wrong(rank, channel, "reads byte {} of the {}, which nobody wrote", hole,
                 buffer_name(slice.buffer));
  }
  for (auto& run : runs) {
    run.begin -= slice.offset;
    run.end -= slice.offset;
    run.content.shift += static_cast<int64_t>(slice.offset);
  }
  return {};
}

Result<void> Trial::write(Rank rank, uint32_t channel, const Slice& slice, uint64_t bytes,
                          const std::vector<Contents::Run>& runs) {
  NEURON_CHECK(access(rank, channel, slice, bytes, true));
  if (slice.buffer == Buffer::kInput && bytes != 0) {
    // The caller's buffer, except where the output lies in it.
    const Slice own = layout_.output(rank, 0);
    if (own.buffer != Buffer::kInput || slice.offset < own.offset ||
        slice.offset + bytes > own.offset + layout_.output_bytes(rank)) {
      return wrong(rank, channel, "writes bytes {} to {} of the input, which is the caller's",
                   slice.offset, slice.offset + bytes);
    }
  }
  Contents& contents = memory_[rank].buffers[static_cast<size_t>(slice.buffer)];
  for (const auto& run : runs) {
    contents.write(slice.offset + run.begin, slice.offset + run.end,
                   {run.content.term, run.content.shift - static_cast<int64_t>(slice.offset)});
  }
  return {};
}

Result<void> Trial::reduce(Rank rank, uint32_t channel, const Step& step) {
  const uint32_t width = layout_.width();
  if (!reduces(request_.operation)) {
    return wrong(rank, channel, "{} does not reduce", operation_name(request_.operation));
  }
  if (step.bytes % width != 0 || step.vector_offset % width != 0 || step.stride % width != 0) {
    return wrong(rank, channel,
                 "{} bytes with stride {}, vector offset {} cut elements of {} bytes", step.bytes,
                 step.stride, step.vector_offset, width);
  }
  const uint32_t operands = step.count + (step.has_own ? 1 : 0);
  if (operands == 0 || (step.has_own && step.own_index >= operands)) {
    return wrong(rank, channel, "{} operands, the own one in place {}", operands, step.own_index);
  }
  std::vector<std::vector<Contents::Run>> inputs(operands);
  std::set<uint64_t> cuts = {0, step.bytes};
  for (uint32_t i = 0, gathered = 0; i < operands; ++i) {
    const bool own = step.has_own && i == step.own_index;
    Slice slice = step.second;
    if (!own) {
      slice = step.source;
      slice.offset += gathered++ * step.stride;
    }
    NEURON_CHECK(read(rank, channel, slice, step.bytes, inputs[i]));
    for (const auto& run : inputs[i]) cuts.insert(run.begin);
  }
  std::vector<Contents::Run> results;
  std::vector<size_t> at(operands, 0);
  std::vector<uint32_t> terms(operands);
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    for (uint32_t i = 0; i < operands; ++i) {
      while (inputs[i][at[i]].end <= *cut) ++at[i];
      const Content& content = inputs[i][at[i]].content;
      if (content.shift != static_cast<int64_t>(step.vector_offset)) {
        return wrong(rank, channel,
                     "operand {} of byte {} stands for byte {} of the vector, but byte {} is being "
                     "reduced",
                     i, *cut, content.shift + static_cast<int64_t>(*cut),
                     step.vector_offset + *cut);
      }
      terms[i] = content.term;
    }
    uint32_t sum = 0;
    Rank twice = 0;
    if (!terms_.reduce(terms, sum, twice)) {
      return wrong(rank, channel, "byte {} of the vector gets the contribution of rank {} twice",
                   step.vector_offset + *cut, twice);
    }
    if (terms_.complete(sum) != step.complete) {
      if (step.complete) {
        return wrong(rank, channel, "says it is complete, but lacks the contribution of rank {}",
                     terms_.missing(sum));
      }
      return wrong(rank, channel, "holds every contribution, but does not say it is complete");
    }
    results.push_back({*cut, *std::next(cut), {sum, static_cast<int64_t>(step.vector_offset)}});
  }
  return write(rank, channel, step.destination, step.bytes, results);
}

Result<void> Trial::receive(Rank rank, uint32_t channel, const Step& step) {
  Lane& mine = lane(rank, channel);
  auto& inbox = mine.inbox[step.peer];
  Message message = std::move(inbox.front());
  inbox.pop_front();
  if (message.bytes != step.bytes) {
    return wrong(rank, channel, "message {} of rank {} has {} bytes, but {} are expected",
                 message.number, step.peer, message.bytes, step.bytes);
  }
  for (size_t word = 0; word < mine.heard.size(); ++word) mine.heard[word] |= message.heard[word];
  NEURON_CHECK(write(rank, channel, step.destination, step.bytes, message.runs));
  lane(step.peer, channel).ahead.sent(rank, message.number);
  for (uint32_t other = 0; other < channels_; ++other) queue(step.peer, other);
  return {};
}

Result<bool> Trial::step(Rank rank, uint32_t channel) {
  Lane& mine = lane(rank, channel);
  const Step* current = mine.ahead.current();
  if (current == nullptr) return false;
  const Step& step = *current;
  Rank peer = 0;
  if (mine.ahead.sends_needed(peer) != 0) return false;
  std::vector<Contents::Run> runs;
  switch (step.kind) {
    case StepKind::kSend: {
      if (step.peer >= ranks_ || step.peer == rank) {
        return wrong(rank, channel, "peer {} of {} ranks", step.peer, ranks_);
      }
      Lane& target = lane(step.peer, channel);
      uint64_t& credit = target.grants[rank];
      if (credit == 0) return false;
      --credit;
      Message message;
      NEURON_CHECK(read(rank, channel, step.source, step.bytes, message.runs));
      message.number = mine.ahead.number();
      message.bytes = step.bytes;
      message.heard = mine.heard;
      target.inbox[rank].push_back(std::move(message));
      queue(step.peer, channel);
      break;
    }
    case StepKind::kReceive:
      if (step.peer >= ranks_ || step.peer == rank) {
        return wrong(rank, channel, "peer {} of {} ranks", step.peer, ranks_);
      }
      if (mine.inbox[step.peer].empty()) return false;
      NEURON_CHECK(receive(rank, channel, step));
      break;
    case StepKind::kReduce:
      NEURON_CHECK(reduce(rank, channel, step));
      break;
    case StepKind::kCopy:
    case StepKind::kDuplicate:
      NEURON_CHECK(read(rank, channel, step.source, step.bytes, runs));
      NEURON_CHECK(write(rank, channel, step.destination, step.bytes, runs));
      if (step.kind == StepKind::kDuplicate) {
        NEURON_CHECK(write(rank, channel, step.second, step.bytes, runs));
      }
      break;
    case StepKind::kWait: {
      if (step.channel >= channels_ || step.channel == channel) {
        return wrong(rank, channel, "waits for channel {} of {}", step.channel, channels_);
      }
      Lane& other = lane(rank, step.channel);
      if (!other.ahead.completed(step.position)) {
        if (other.ahead.current() == nullptr && other.ahead.position() < step.position) {
          return wrong(rank, channel, "waits for {} steps of channel {}, which has {}",
                       step.position, step.channel, other.ahead.position());
        }
        return false;
      }
      order_[rank].wait(channel, mine.ahead.position(), step.channel, step.position);
      for (size_t word = 0; word < mine.heard.size(); ++word) {
        mine.heard[word] |= other.heard[word];
      }
      break;
    }
  }
  mine.ahead.advance();
  if (channels_ > 1) {
    for (uint32_t other = 0; other < channels_; ++other) queue(rank, other);
  }
  return true;
}

Result<void> Trial::run() {
  NEURON_CHECK(prepare());
  while (!work_.empty()) {
    const auto [rank, channel] = work_.front();
    work_.pop_front();
    lane(rank, channel).queued = false;
    bool going = true;
    while (going) {
      NEURON_TRY(went, step(rank, channel));
      grant(rank, channel);
      going = went;
    }
  }
  return finish();
}

std::string Trial::blocked() {
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t channel = 0; channel < channels_; ++channel) {
      if (lane(rank, channel).ahead.current() == nullptr) continue;
      // Follows the chain of waits until it ends or comes back to its start.
      std::string text;
      std::set<std::pair<Rank, uint32_t>> seen;
      Rank r = rank;
      uint32_t c = channel;
      for (int hops = 0; hops < 8; ++hops) {
        const Lane& here = lane(r, c);
        const Step* step = here.ahead.current();
        if (step == nullptr) return text + format("; rank {}, channel {} has ended", r, c);
        if (!text.empty()) text += "; ";
        if (!seen.insert({r, c}).second) return text + "and so on, in a circle";
        text += where(r, c);
        Rank peer = 0;
        if (here.ahead.sends_needed(peer) != 0) {
          text += format(" waits until rank {} has what it overwrites", peer);
          r = peer;
        } else if (step->kind == StepKind::kSend) {
          text += format(" waits for a credit of rank {}", step->peer);
          r = step->peer;
        } else if (step->kind == StepKind::kReceive) {
          text += format(" waits for message {} of rank {}", here.ahead.number(), step->peer);
          r = step->peer;
        } else {
          text += format(" waits for step {} of channel {}", step->position, step->channel);
          c = step->channel;
        }
      }
      return text;
    }
  }
  return "";
}

Result<void> Trial::finish_memory(Rank rank) {
  Memory& memory = memory_[rank];
  std::vector<Contents::Run> runs;
  std::map<uint64_t, uint64_t> blocks;  // of the output
  for (const Expected& want : expected(request_, ranks_, rank)) {
    const Contents& contents = memory.buffers[static_cast<size_t>(want.place.buffer)];
    uint64_t hole = 0;
    const uint64_t begin = want.place.offset, end = begin + want.bytes;
    if (!contents.read(begin, end, runs, hole)) {
      return fail(CCOM_INVALID, "rank {}: byte {} of the {} was never written", rank, hole,
                  buffer_name(want.place.buffer));
    }
    for (const auto& run : runs) {
      const int64_t shift = static_cast<int64_t>(want.origin) - static_cast<int64_t>(begin);
      if (run.content.shift != shift) {
        return fail(CCOM_INVALID,
                    "rank {}: byte {} of the {} holds byte {} of a contribution, not {}", rank,
                    run.begin, buffer_name(want.place.buffer),
                    static_cast<int64_t>(run.begin) + run.content.shift,
                    static_cast<int64_t>(run.begin) + shift);
      }
      if (want.all && !terms_.complete(run.content.term)) {
        return fail(CCOM_INVALID, "rank {}: byte {} of the {} lacks the contribution of rank {}",
                    rank, run.begin, buffer_name(want.place.buffer),
                    terms_.missing(run.content.term));
      }
      if (!want.all && run.content.term != terms_.rank(want.rank)) {
        return fail(CCOM_INVALID, "rank {}: byte {} of the {} is not rank {}'s", rank, run.begin,
                    buffer_name(want.place.buffer), want.rank);
      }
    }
    if (want.all && request_.operation == CCOM_ALL_REDUCE && rank != 0) {
      // Every rank must have the same bits, so it needs the same terms in the same order.
      std::vector<Contents::Run> first;
      const Slice place = layout_.output(0, 0);
      memory_[0].buffers[static_cast<size_t>(place.buffer)].read(
          place.offset, place.offset + want.bytes, first, hole);
      size_t other = 0;
      for (const auto& run : runs) {
        while (other < first.size() && first[other].end <= run.begin) ++other;
        for (size_t i = other; i < first.size() && first[i].begin < run.end; ++i) {
          if (first[i].content.term == run.content.term) continue;
          return fail(CCOM_INVALID,
                      "rank {}: byte {} of the output was reduced in another order than on rank 0",
                      rank, std::max(first[i].begin, run.begin));
        }
      }
    }
    if (want.place.buffer == Buffer::kOutput) blocks[begin] = end;
  }
  // The bytes between the blocks must not have changed.
  const Expected input = initial(request_, ranks_, rank);
  const Content untouched{terms_.rank(rank), -static_cast<int64_t>(input.place.offset)};
  for (const auto& [begin, run] : memory.buffers[1].runs()) {
    uint64_t at = begin;
    while (at < run.end) {
      auto block = blocks.upper_bound(at);
      if (block != blocks.begin() && std::prev(block)->second > at) {
        at = std::prev(block)->second;
        continue;
      }
      if (input.place.buffer != Buffer::kOutput || !(run.content == untouched)) {
        return fail(CCOM_INVALID, "rank {}: byte {} of the output was written, but holds no result",
                    rank, at);
      }
      at = block == blocks.end() ? run.end : block->first;
    }
  }
  return {};
}

Result<void> Trial::finish() {
  if (const std::string text = blocked(); !text.empty()) {
    return fail(CCOM_INVALID, "with a window of {}, nobody can go on: {}", window_, text);
  }
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (uint32_t channel = 0; channel < channels_; ++channel) {
      Lane& mine = lane(rank, channel);
      for (const auto& [peer, messages] : mine.inbox) {
        if (messages.empty()) continue;
        return fail(CCOM_INVALID, "rank {}, channel {}: message {} of rank {} is never received",
                    rank, channel, messages.front().number, peer);
      }
      for (const auto& [peer, credits] : mine.grants) {
        if (credits == 0) continue;
        return fail(CCOM_INVALID, "rank {}, channel {}: {} credits of rank {} are never used", rank,
                    channel, credits, peer);
      }
    }
    NEURON_CHECK(finish_memory(rank));
    if (request_.operation != CCOM_BARRIER) continue;
    for (Rank other = 0; other < ranks_; ++other) {
      bool heard = false;
      for (uint32_t channel = 0; channel < channels_; ++channel) {
        heard = heard || (lane(rank, channel).heard[other / 64] >> other % 64 & 1) != 0;
      }
      if (heard) continue;
      return fail(CCOM_INVALID, "rank {} leaves the barrier without knowing that rank {} came",
                  rank, other);
    }
  }
  return {};
}

}  // namespace

Result<void> check_schedule(const Schedule& schedule, const Request& request, uint32_t window) {
  NEURON_CHECK(validate(request, schedule.ranks()));
  if (schedule.type != request.type ||
      (reduces(request.operation) && schedule.reduction != request.reduction)) {
    return fail(CCOM_INVALID, "the schedule has type {} and reduction {}, the request {} and {}",
                static_cast<uint32_t>(schedule.type), static_cast<uint32_t>(schedule.reduction),
                static_cast<uint32_t>(request.type), static_cast<uint32_t>(request.reduction));
  }
  NEURON_CHECK(Trial(schedule, request, 1).run());
  if (window > 1) NEURON_CHECK(Trial(schedule, request, window).run());
  return {};
}

}  // namespace neuron::ccom
