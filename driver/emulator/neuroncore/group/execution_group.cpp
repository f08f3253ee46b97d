// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/execution_group.h"

#include <cstring>
#include <utility>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/group/describe.h"

namespace neuron::core {
namespace {

bool is_sbuf(uint64_t offset) { return offset < NEURON_CORE_SBUF_SIZE; }
bool is_psum(uint64_t offset) {
  return offset >= NEURON_CORE_PSUM && offset < NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE;
}

}  // namespace

ExecutionGroup::ExecutionGroup(const chip::CoreConnections& connections,
                               chip::RunnableListener* listener, std::shared_ptr<StrictPair> pair)
    : state_(connections, std::move(pair)),
      gate_(*this, state_.core, state_.scheduler, state_.injected, listener),
      waits_(state_),
      execution_(state_),
      faults_(state_, execution_),
      strict_(state_, gate_),
      updates_(state_, gate_, execution_, faults_, strict_, waits_),
      dma_issue_(state_),
      dma_(state_, gate_, execution_, faults_, strict_, dma_issue_),
      launches_(state_, execution_, waits_, updates_, dma_),
      control_flow_(state_, execution_, strict_),
      datapath_(state_, faults_),
      meeting_(state_, strict_),
      operators_(state_, strict_),
      issue_(state_, {faults_, strict_, waits_, updates_, dma_, dma_issue_, control_flow_,
                      datapath_, meeting_, operators_}),
      control_(state_, {execution_, faults_, waits_, dma_, dma_issue_, datapath_, launches_}),
      registers_(state_, waits_, control_),
      known_(state_, execution_, waits_, dma_) {}

chip::RunResult ExecutionGroup::run_events(std::chrono::steady_clock::time_point deadline) {
  const base::Abandonment program(state_.halted);
  try {
    return run_until_halt(deadline);
  } catch (const base::Abandoned&) {
    return chip::RunResult::kQuiescent;  // in the middle of an instruction, of which nothing is
                                         // left
  }
}

chip::RunResult ExecutionGroup::run_until_halt(std::chrono::steady_clock::time_point deadline) {
  Scheduler& scheduler = state_.scheduler;
  for (;;) {  // bounded: by `deadline`
    if (halted()) [[unlikely]] {
      return chip::RunResult::kQuiescent;
    }
    if (gate_.wants_attention() && !gate_.attend(deadline)) [[unlikely]] {
      return chip::RunResult::kBusy;
    }
    const auto [actor, time] = scheduler.next();
    if (time == kNever) {
      known_.quiescent();
      if (launches_.release_held()) continue;
      scheduler.set_quiescent(execution_.in_progress() && !control_.halted_by_debugger() &&
                              !waits_.await_peers());
      return chip::RunResult::kQuiescent;
    }
    if (scheduler.is_time_to_look()) [[unlikely]] {
      state_.post_records();  // for who watches a program that goes on
      if (std::chrono::steady_clock::now() >= deadline) return chip::RunResult::kDeadline;
    }
    if (launches_.take_begun() && known_.repeat()) continue;
    scheduler.advance(actor, time);
    if (execution_.exceeds_limit(time)) [[unlikely]] {
      Sequencer& s = state_.sequencers[actor < kSequencers ? actor : unsigned{NEURON_ENGINE_SP}];
      faults_.raise(s, make_fault(NEURON_FAULT_TIME_LIMIT, execution_.time_limit()), s.pc, 0, 0,
                    time);
      execution_.drop_limit();
      continue;
    }
    known_.event(actor, time);
    if (actor < kSequencers) {
      issue_.step(state_.sequencers[actor], time);
    } else {
      dma_.step(actor - kSequencers, time);
    }
  }
}

int ExecutionGroup::semaphores_at(uint64_t offset, uint64_t& inside) const {
  inside = offset - NEURON_CORE_SEMAPHORES;
  if (inside < NEURON_SEM_BLOCK_SIZE) return 0;
  const uint64_t k = (offset - chip::kCcWindows) / chip::kCcWindowBytes;
  inside = (offset - chip::kCcWindows) % chip::kCcWindowBytes - NEURON_CC_SEMAPHORES;
  if (offset < chip::kCcWindows || k >= state_.cc_count || inside >= NEURON_SEM_BLOCK_SIZE) {
    return -1;
  }
  return static_cast<int>(1 + k);
}

bool ExecutionGroup::is_writable(uint64_t offset) const {
  uint64_t at = 0;
  if (semaphores_at(offset, at) < 0) return registers_.is_register(offset);
  neuron_update_operation operation;
  unsigned index;
  uint32_t operand;
  return chip::SemaphoreBlock::decode_write(at, 1, operation, index, operand);
}

// SBUF or PSUM; null where the access leaves a partition's backed bytes.
std::byte* ExecutionGroup::memory_at(uint64_t offset, size_t length) {
  if (is_sbuf(offset)) return state_.memory.sbuf_at(offset, length);
  if (offset % 4 != 0 || length % 4 != 0) return nullptr;
  return state_.memory.psum_at(offset - NEURON_CORE_PSUM, length);
}

std::byte* ExecutionGroup::direct(uint64_t offset, size_t length) {
  // In strict mode accesses from outside have to go through read and write.
  if (strict_.is_on() && !gate_.inside()) return nullptr;
  return is_sbuf(offset) ? state_.memory.sbuf_at(offset, length) : nullptr;
}

bool ExecutionGroup::read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) {
  if (is_sbuf(offset) || is_psum(offset)) {
    const std::byte* from = memory_at(offset, out.size());
    if (from == nullptr) return false;
    std::memcpy(out.data(), from, out.size());
    strict_.access(offset, out.size(), false, access);
    return true;
  }
  uint64_t at = 0;
  if (const int block = semaphores_at(offset, at); block >= 0) {
    return state_.semaphores_of(static_cast<unsigned>(block)).read(at, out, access);
  }
  if (offset % 4 != 0 || out.size() % 4 != 0 || out.empty()) return false;
  return gate_.read(offset, out);
}

bool ExecutionGroup::read_words(uint64_t offset, std::span<std::byte> out) {
  state_.post_records();  // the status of an engine tells of entries that found no room
  for (size_t at = 0; at < out.size(); at += 4) {
    if (!registers_.is_register(offset + at)) {
      if (out.size() == 4) return false;
      std::memset(out.data() + at, 0xFF, 4);
      continue;
    }
    const uint32_t value = registers_.read(offset + at);
    std::memcpy(out.data() + at, &value, 4);
  }
  return true;
}

bool ExecutionGroup::write(uint64_t offset, std::span<const std::byte> in,
                           const chip::Access& access) {
  if (is_sbuf(offset) || is_psum(offset)) {
    if (is_psum(offset) && in.empty()) return false;
    std::byte* to = memory_at(offset, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    strict_.access(offset, in.size(), true, access);
    if (is_psum(offset)) mark_psum(offset - NEURON_CORE_PSUM, in.size());
    return true;
  }
  if (offset % 4 != 0 || in.size() % 4 != 0 || in.empty()) return false;
  const uint64_t block = offset & ~uint64_t{0xFFFF};
  if (offset < NEURON_CORE_CONTROL || ((offset + in.size() - 1) & ~uint64_t{0xFFFF}) != block) {
    return false;
  }
  if (in.size() == 4 && !is_writable(offset)) return false;
  write_words(offset, in, access);
  return true;
}

// A write from outside a running group is unordered with it. It leaves the PE's marks alone then.
void ExecutionGroup::mark_psum(uint64_t offset, size_t length) {
  const bool inside = gate_.inside();
  if (!inside && !gate_.try_enter()) return;
  state_.memory.mark_pe(static_cast<unsigned>(offset / NEURON_PSUM_PARTITION_STRIDE),
                        offset % NEURON_PSUM_PARTITION_STRIDE, length, false);
  if (!inside) gate_.leave();
}

void ExecutionGroup::write_words(uint64_t offset, std::span<const std::byte> in,
                                 const chip::Access& access) {
  const size_t words = in.size() / 4;
  const MailKind kind = words > 1 ? MailKind::kBurst : MailKind::kWord;
  const auto mail_at = [&](size_t w) {
    uint32_t value;
    std::memcpy(&value, in.data() + w * 4, 4);
    return Mail{offset + w * 4, value, kind, access};
  };
  if (gate_.inside()) {
    for (size_t w = 0; w < words; ++w) apply(mail_at(w), false);
  } else {
    gate_.deliver(words, mail_at);
  }
}

void ExecutionGroup::apply(const Mail& mail, bool foreign) {
  if (mail.kind >= MailKind::kMemoryRead) {
    known_.disturb();
    if (strict_.is_on()) strict_.mail(mail, execution_.in_progress());
    return;
  }
  chip::Access access = mail.access;
  uint64_t at = 0;
  const int block = mail.kind <= MailKind::kBurst ? semaphores_at(mail.offset, at) : -1;
  if (foreign && block > 0 && access.origin == chip::Origin::kHost &&
      at - NEURON_SEM_BLOCK_INC < 4 * NEURON_SEMAPHORES) {
    access.time = state_.sequencers[kEngines + static_cast<unsigned>(block) - 1].arrival;
  }
  // Another group says when, or a CC core's arrival register does. Else the host's writes, and
  // those of DMA that runs for it, have no time.
  const bool remote =
      foreign && access.time != 0 && (access.origin != chip::Origin::kHost || block > 0);
  if (foreign) {
    if (!launches_.holds(block, at, mail.value)) known_.disturb();
    launches_.begin_external();
    if (!remote) access.time = state_.now();
  }
  if (mail.kind == MailKind::kDoorbell) {
    if (remote) access.time = state_.now();
    if (mail.value == kQueueStopped) execution_.disown();
    dma_.activate(static_cast<unsigned>(mail.offset >> 8), mail.offset & 0xFF, access);
    return;
  }
  if (block >= 0) {
    const UpdateSource source = remote    ? UpdateSource::kOtherGroup
                                : foreign ? UpdateSource::kOutside
                                          : UpdateSource::kGroup;
    launches_.write_semaphore(static_cast<unsigned>(block), at, mail.value, access, source);
  } else if (registers_.is_register(mail.offset)) {
    if (remote) access.time = state_.now();
    registers_.write(mail.offset, mail.value, mail.kind == MailKind::kBurst, access.time);
  }
}

void ExecutionGroup::reset() {
  if (gate_.inside()) {
    known_.reset();
    return control_.reset_core(false);
  }
  // What the core does at this moment is lost in any case.
  halt();
  // Also for somebody who goes away meanwhile: a core that stays halted is nobody's.
  if (!gate_.enter(HostGate::Visit::kInAnyCase)) return;
  gate_.drain_mail();
  control_.reset_core(false);
  known_.reset();
  state_.halted.store(false, std::memory_order_relaxed);
  gate_.leave();
  gate_.wake_sleepers();
}

void ExecutionGroup::reset_cc(unsigned k) {
  if (k >= state_.cc_count) return;
  if (gate_.inside()) return control_.reset_cc(k);
  if (!gate_.enter(HostGate::Visit::kInAnyCase)) return;
  gate_.drain_mail();
  control_.reset_cc(k);
  gate_.leave();
  gate_.wake_sleepers();  // perhaps no sequencer awaits peers any more
}

std::string ExecutionGroup::describe() {
  const bool inside = gate_.inside();
  if (!inside && !gate_.enter()) {
    return "core " + std::to_string(state_.core) +
           " is running and did not pause to be described\n";
  }
  std::string text = describe_core(state_, waits_, dma_);
  if (!inside) gate_.leave();
  return text;
}

}  // namespace neuron::core
