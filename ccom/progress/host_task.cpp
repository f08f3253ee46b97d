// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/host_task.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ccom/progress/network_report.h"
#include "ccom/reduction/reduction.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {

bool HostLane::slot_free(uint64_t next) {
  if (next <= everybody_done + kSlots) return true;
  uint64_t least = next;
  for (HostStream* stream : streams) {
    if (stream == own) continue;
    // Pairs with the release of `done` in HostTask: that rank has finished reading old slots.
    least = std::min(least, stream->done.value.load(std::memory_order_acquire));
  }
  everybody_done = least;
  return next <= least + kSlots;
}

void HostLane::wake() {
  // Relaxed, and without a fence after the written word: a sleeper that this misses checks again
  // within a millisecond. Sleepers among many sleep longer. Pairs with the exchange of `sleepers`
  // in HostWait: either this sees the sleeper, or the sleeper sees the word.
  if (many()) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (own->sleep.sleepers.load(std::memory_order_relaxed) == 0) [[likely]] {
    return;
  }
  own->sleep.sleepers.store(0, std::memory_order_relaxed);
  own->sleep.wakes.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &own->sleep.wakes, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

HostTask::HostTask(HostLane& lane) : lane_(lane) {
  peers_.resize(lane.streams.size());
  operands_of_reduce_.resize(lane.streams.size());
  results_.resize(lane.streams.size());
}

void HostTask::begin(const HostProgram& program, const Operands& operands,
                     const Signature& signature) {
  program_ = &program;
  operands_ = operands;
  signature_ = signature;
  check_ = check_of(signature);
  number_ = ++lane_.number;
  failure_ = Error{CCOM_SUCCESS, {}};
  phase_ = Phase::kReserve;
  met_ = copied_ = leave_ = 0;
  staged_ = bytes_done_ = 0;
  moved_ = true;
}

Outcome HostTask::advance() {
  if (phase_ == Phase::kReserve) {
    if (!lane_.slot_free(number_)) return Outcome::kNotYet;
    if (!publish()) return Outcome::kFailed;
    moved_ = true;
    phase_ = program_->direct ? Phase::kDirect : Phase::kSteps;
  }
  if (phase_ == Phase::kDirect) {
    const Outcome outcome = direct();
    if (outcome != Outcome::kDone) return outcome;
    // All reads and writes in other arenas come before this store. Pairs with the acquires of
    // left() and HostLane::slot_free().
    lane_.own->done.value.store(number_, std::memory_order_release);
    lane_.wake();
    phase_ = Phase::kLeave;
    moved_ = true;
  } else if (phase_ == Phase::kSteps) {
    const Outcome outcome = steps();
    if (outcome != Outcome::kDone) return outcome;
    phase_ = Phase::kLeave;
    moved_ = true;
  }
  if (phase_ == Phase::kLeave) {
    if (!left()) return Outcome::kNotYet;
    if (!program_->direct) {
      // Pairs with the acquire of HostLane::slot_free().
      lane_.own->done.value.store(number_, std::memory_order_release);
      lane_.wake();
    }
    finish();
  }
  return failure_.sentence.empty() ? Outcome::kDone : Outcome::kFailed;
}

Outcome HostTask::fail_with(Error error) {
  failure_ = std::move(error);
  phase_ = Phase::kOver;
  withdraw();
  return Outcome::kFailed;
}

// A caller may free its buffers after a failure. Those in an arena stay mapped; others must not be
// in use by any thread then. So this waits for copies by other threads, which never wait
// themselves.
void HostTask::withdraw() {
  if (!lane_.one_process) return;
  // Ordered before the loads below. Pairs with touch(), which has the opposite order.
  lane_.own->withdrawn.value.store(number_, std::memory_order_seq_cst);
  const base::Deadline deadline = base::Deadline::after(std::chrono::seconds(10));
  for (const HostStream* stream : lane_.streams) {
    if (stream == lane_.own) continue;
    // Pairs with the release of untouch().
    while (stream->touching.value.load(std::memory_order_seq_cst) != 0 && !deadline.expired()) {
      base::yield_processor();
    }
  }
}

bool HostTask::touch() {
  if (!lane_.one_process) return true;
  lane_.own->touching.value.store(number_, std::memory_order_seq_cst);
  for (Rank rank = 0; rank < lane_.streams.size(); ++rank) {
    if (lane_.streams[rank]->withdrawn.value.load(std::memory_order_seq_cst) == 0) continue;
    untouch();
    const ExecutorContext& context = *lane_.context;
    if (auto error = disagreement()) {
      fail_with(std::move(*error));
    } else if (context.interrupted != nullptr &&
               context.interrupted->load(std::memory_order_relaxed) != 0) {
      fail_with(context.interruption());
    } else {
      fail_with(fail(CCOM_ABORTED, "{} failed on {}, before this rank had done its part",
                     details(signature_), rank_text(rank, context.bootstrap->members())));
    }
    return false;
  }
  return true;
}

void HostTask::untouch() {
  if (lane_.one_process) lane_.own->touching.value.store(0, std::memory_order_release);
}

void HostTask::publish_signature() {
  HostSignature& board = lane_.own->signatures[number_ % kSlots];
  board.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  board.set(signature_);
  // Pairs with the acquire of disagreement() and meet() on other ranks.
  board.number.store(number_, std::memory_order_release);
}

bool HostTask::publish() {
  publish_signature();
  HostEntry& entry = lane_.own->entries[number_ % kSlots].entry;
  if (program_->direct ? !prepare_direct(entry) : !prepare_steps(entry)) return false;
  entry.check = check_;
  // Publishes places or value, and the input itself. Pairs with the acquire of meet().
  entry.number.store(number_, std::memory_order_release);
  lane_.wake();
  return true;
}

HostPlace HostTask::place_of(const void* address, uint64_t bytes) const {
  if (bytes == 0 || address == nullptr) return {};
  if (lane_.one_process) {
    return {HostPlace::kAddress | reinterpret_cast<uintptr_t>(address)};
  }
  const Arena& arena = *lane_.context->arenas[lane_.context->rank];
  if (!arena.contains(address, bytes)) return {};
  return {static_cast<uint64_t>(static_cast<const std::byte*>(address) - arena.data())};
}

// Returns the next bytes of the staging space; null: it is too small, and the task has failed.
std::byte* HostTask::stage(uint64_t bytes) {
  const uint64_t at = staged_;
  staged_ += (bytes + 4095) / 4096 * 4096;
  if (staged_ <= ArenaLayout::kStagingBytes) return lane_.staging + at;
  fail_with(fail(CCOM_RESOURCE,
                 "{} needs {} bytes of staging and scratch, {} are there: take its buffers from "
                 "ccom_mem_alloc, or split it",
                 details(signature_), staged_, ArenaLayout::kStagingBytes));
  return nullptr;
}

bool HostTask::prepare_direct(HostEntry& entry) {
  const DirectProgram& mesh = program_->mesh;
  input_ = operands_.input;
  output_ = operands_.output;
  if (mesh.by_value) {
    if (!mesh.publishes || mesh.input_bytes == 0) return true;
    if (mesh.in_entry) {
      std::memcpy(entry.value, input_, mesh.input_bytes);
    } else {
      std::memcpy(lane_.own->values[number_ % kSlots], input_, mesh.input_bytes);
    }
    return true;
  }
  for (Peer& peer : peers_) peer.known = false;
  entry.places = {};
  if (mesh.publishes && mesh.input_bytes != 0) {
    entry.places.input = place_of(input_, mesh.input_bytes);
    if (mesh.snapshot || entry.places.input.value == HostPlace::kNone) {
      std::byte* copy = stage(mesh.input_bytes);
      if (copy == nullptr) return false;
      copy_bytes(copy, input_, mesh.input_bytes, streaming(mesh.input_bytes));
      input_ = copy;
      entry.places.input = place_of(copy, mesh.input_bytes);
    }
  }
  // Other ranks write into this output if results have several targets, or one that is not the
  // owner.
  const bool pushed = signature_.kind == CCOM_REDUCE || mesh.targets.size() > 1;
  if (pushed && mesh.output_bytes != 0 && output_ != nullptr) {
    entry.places.output = place_of(output_, mesh.output_bytes);
    if (entry.places.output.value == HostPlace::kNone) {
      output_ = stage(mesh.output_bytes);
      if (output_ == nullptr) return false;
      entry.places.output = place_of(output_, mesh.output_bytes);
    }
  }
  return true;
}

bool HostTask::prepare_steps(HostEntry& entry) {
  input_ = operands_.input;
  output_ = operands_.output;
  scratch_ = nullptr;
  for (Peer& peer : peers_) peer.known = false;
  cursors_.assign(program_->channels.size(), Cursor{});
  entry.places = {};
  if (program_->scratch_bytes != 0) {
    scratch_ = stage(program_->scratch_bytes);
    if (scratch_ == nullptr) return false;
    entry.places.scratch = place_of(scratch_, program_->scratch_bytes);
  }
  const uint64_t in = input_ == nullptr ? 0 : program_->input_bytes;
  const uint64_t out = output_ == nullptr ? 0 : program_->output_bytes;
  entry.places.input = place_of(input_, in);
  entry.places.output = place_of(output_, out);
  const bool in_hidden = in != 0 && entry.places.input.value == HostPlace::kNone;
  const bool out_hidden = out != 0 && entry.places.output.value == HostPlace::kNone;
  const std::byte* begin = std::min<const std::byte*>(input_, output_);
  const std::byte* end = std::max<const std::byte*>(input_ + in, output_ + out);
  if (in != 0 && out != 0 && (in_hidden || out_hidden) &&
      static_cast<uint64_t>(end - begin) < in + out) {
    // In place: one copy that contains both.
    std::byte* copy = stage(static_cast<uint64_t>(end - begin));
    if (copy == nullptr) return false;
    std::memcpy(copy, begin, static_cast<uint64_t>(end - begin));
    output_ = copy + (output_ - begin);
    input_ = copy + (input_ - begin);
  } else {
    if (in_hidden) {
      std::byte* copy = stage(in);
      if (copy == nullptr) return false;
      std::memcpy(copy, input_, in);
      input_ = copy;
    }
    if (out_hidden) {
      output_ = stage(out);
      if (output_ == nullptr) return false;
    }
  }
  vector_ = input_;
  if (program_->snapshot) {
    std::byte* copy = stage(in);
    if (copy == nullptr) return false;
    std::memcpy(copy, input_, in);
    vector_ = copy;
  }
  entry.places.input = place_of(input_, in);
  entry.places.output = place_of(output_, out);
  entry.places.vector = place_of(vector_, in);
  return true;
}

std::byte* HostTask::resolve(Rank peer, HostPlace place, uint64_t bytes) {
  if (place.value == HostPlace::kNone) return nullptr;
  if ((place.value & HostPlace::kAddress) != 0) {
    return lane_.one_process ? reinterpret_cast<std::byte*>(place.value & ~HostPlace::kAddress)
                             : nullptr;
  }
  const Arena& arena = *lane_.context->arenas[peer];
  if (place.value > arena.size() || bytes > arena.size() - place.value) return nullptr;
  return arena.data() + place.value;
}

int HostTask::meet(Rank peer) {
  HostStream& stream = *lane_.streams[peer];
  const HostEntry& entry = stream.entries[number_ % kSlots].entry;
  // Pairs with the release of publish().
  if (entry.number.load(std::memory_order_acquire) != number_) return 0;
  if (entry.check != check_) {
    auto error = disagreement();
    fail_with(error ? std::move(*error)
                    : fail(CCOM_MISMATCH, "rank {} posted another call than {} under its number",
                           peer, details(signature_)));
    return -1;
  }
  if (program_->direct && program_->mesh.by_value) return 1;
  Peer& known = peers_[peer];
  known.input = resolve(peer, entry.places.input, 0);
  known.output = resolve(peer, entry.places.output, 0);
  known.scratch = resolve(peer, entry.places.scratch, 0);
  known.vector = resolve(peer, entry.places.vector, 0);
  known.known = true;
  return 1;
}

const std::byte* HostTask::value_of(Rank peer) const {
  const HostStream& stream = *lane_.streams[peer];
  return program_->mesh.in_entry ? stream.entries[number_ % kSlots].entry.value
                                 : stream.values[number_ % kSlots];
}

Outcome HostTask::direct() {
  const DirectProgram& mesh = program_->mesh;
  const Rank self = lane_.context->rank;
  if (mesh.copies.empty()) {
    while (met_ < mesh.from.size()) {
      if (mesh.from[met_] != self) {
        const int met = meet(mesh.from[met_]);
        if (met <= 0) return met == 0 ? Outcome::kNotYet : Outcome::kFailed;
        moved_ = true;
      }
      ++met_;
    }
    return mesh.reduces ? direct_reduce() : Outcome::kDone;
  }
  while (copied_ < mesh.copies.size()) {
    const DirectCopy& copy = mesh.copies[copied_];
    const std::byte* from = input_;
    if (copy.peer != self) {
      const int met = meet(copy.peer);
      if (met <= 0) return met == 0 ? Outcome::kNotYet : Outcome::kFailed;
      from = mesh.by_value ? value_of(copy.peer) : peers_[copy.peer].input;
    }
    std::byte* to = output_ + copy.destination;
    if (copy.bytes != 0 && to != from + copy.source) {
      const bool others = copy.peer != self && !mesh.by_value;
      if (others && !touch()) return Outcome::kFailed;
      // What all ranks write together must fit into the caches; otherwise the stores bypass them.
      copy_bytes(to, from + copy.source, copy.bytes, streaming(mesh.output_bytes * peers_.size()));
      if (others) untouch();
    }
    bytes_done_ += copy.bytes;
    ++copied_;
    moved_ = true;
  }
  return Outcome::kDone;
}

Outcome HostTask::direct_reduce() {
  const DirectProgram& mesh = program_->mesh;
  const Rank self = lane_.context->rank;
  const auto ranks = static_cast<uint32_t>(peers_.size());
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::byte* input = rank == self    ? input_
                             : mesh.by_value ? value_of(rank)
                                             : peers_[rank].input;
    operands_of_reduce_[rank] = input + mesh.vector_offset;
  }
  uint32_t targets = 0;
  for (const Rank target : mesh.targets) {
    std::byte* output = target == self ? output_ : peers_[target].output;
    results_[targets++] = output + mesh.destination;
  }
  const Schedule& schedule = *program_->plan->schedule;
  if (!mesh.by_value && !touch()) return Outcome::kFailed;
  // What all ranks read and write together must fit into the caches; otherwise the stores bypass
  // them.
  reduce_to_many(schedule.type, schedule.reduction, results_.data(), targets,
                 operands_of_reduce_.data(), ranks, mesh.reduce_bytes / program_->element,
                 streaming(2 * mesh.reduce_bytes * ranks * targets), ranks);
  if (!mesh.by_value) untouch();
  bytes_done_ += mesh.reduce_bytes;
  moved_ = true;
  return Outcome::kDone;
}

bool HostTask::left() {
  const size_t count = program_->direct ? program_->mesh.leave.size() : program_->leave.size();
  for (; leave_ < count; ++leave_) {
    if (program_->direct) {
      // Pairs with the release of `done` in advance(): the peer has read from this rank's input and
      // written to its output.
      const HostStream& stream = *lane_.streams[program_->mesh.leave[leave_]];
      if (stream.done.value.load(std::memory_order_acquire) < number_) return false;
    } else {
      // Pairs with the release of steps().
      const Leave& leave = program_->leave[leave_];
      const HostStream& stream = *lane_.streams[leave.peer];
      if (stream.channels[leave.channel].value.load(std::memory_order_acquire) <
          channel_word(number_, leave.position)) {
        return false;
      }
    }
  }
  return true;
}

// Copies the output from its copy in the arena. Bytes between the parts of the variable forms
// belong to the caller and stay.
void HostTask::copy_out(uint64_t bytes) {
  const Request& request = program_->plan->request;
  const uint64_t element = program_->element;
  const size_t ranks = peers_.size();
  const Rank self = lane_.context->rank;
  const auto part = [&](uint64_t offset, uint64_t count) {
    copy_bytes(operands_.output + offset * element, output_ + offset * element, count * element,
               streaming(bytes));
  };
  if (request.operation == CCOM_ALL_GATHER_V) {
    for (size_t i = 0; i < ranks; ++i) part(request.displacements[i], request.counts[i]);
  } else if (request.operation == CCOM_ALL_TO_ALL_V) {
    for (size_t from = 0; from < ranks; ++from) {
      part(request.receive_displacements[self * ranks + from],
           request.send_counts[from * ranks + self]);
    }
  } else {
    copy_bytes(operands_.output, output_, bytes, streaming(bytes));
  }
}

void HostTask::finish() {
  const uint64_t bytes = program_->output_bytes;
  if (output_ != operands_.output && operands_.output != nullptr && bytes != 0) {
    const bool mine = !program_->direct || signature_.kind != CCOM_REDUCE ||
                      lane_.context->rank == signature_.root;
    if (mine) copy_out(bytes);
  }
  phase_ = Phase::kOver;
  moved_ = true;
}

}  // namespace neuron::ccom
