// SPDX-License-Identifier: Apache-2.0
// Accesses to the core window, and how those from other threads meet a running group.
//
// Memory is memory. Semaphores are read without a lock. Everything that can wake a sequencer is a
// write of words, and is applied by whoever holds run_mutex_: the accessing thread if nobody runs,
// else the runner, who finds it in the mailbox. A thread that itself runs another core never waits
// here.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/execution_group.h"

namespace neuron::core {
namespace {

constexpr uint64_t kSemaphoresEnd = NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SIZE;
constexpr unsigned kHandOverSpins = 100'000;

bool is_semaphore(uint64_t offset) {
  return offset >= NEURON_CORE_SEMAPHORES && offset < kSemaphoresEnd;
}
bool is_sbuf(uint64_t offset) { return offset < NEURON_CORE_SBUF_SIZE; }
bool is_psum(uint64_t offset) {
  return offset >= NEURON_CORE_PSUM && offset < NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE;
}

}  // namespace

std::byte* ExecutionGroup::direct(uint64_t offset, size_t length) {
  return is_sbuf(offset) ? memory_.sbuf_at(offset, length) : nullptr;
}

bool ExecutionGroup::read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) {
  if (is_sbuf(offset) || is_psum(offset)) {
    if (is_psum(offset) && (offset % 4 != 0 || out.size() % 4 != 0)) return false;
    const std::byte* from = is_sbuf(offset)
                                ? memory_.sbuf_at(offset, out.size())
                                : memory_.psum_at(offset - NEURON_CORE_PSUM, out.size());
    if (from == nullptr) return false;
    std::memcpy(out.data(), from, out.size());
    return true;
  }
  if (is_semaphore(offset)) {
    return semaphores_.read(offset - NEURON_CORE_SEMAPHORES, out, access);
  }
  if (offset % 4 != 0 || out.size() % 4 != 0 || out.empty()) return false;
  if (inside()) return read_words(offset, out);
  if (!run_mutex_.try_lock()) {
    if (access.origin != chip::Origin::kHost) return false;
    visitors_.fetch_add(1, std::memory_order_relaxed);
    const bool locked = run_mutex_.try_lock_for(kVisitorPatience);
    visitors_.fetch_sub(1, std::memory_order_relaxed);
    if (!locked) return false;
  }
  const bool ok = read_words(offset, out);
  run_mutex_.unlock();
  settle();
  return ok;
}

bool ExecutionGroup::read_words(uint64_t offset, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += 4) {
    if (!is_register(offset + at)) {
      if (out.size() == 4) return false;
      std::memset(out.data() + at, 0xFF, 4);
      continue;
    }
    const uint32_t value = read_register(offset + at);
    std::memcpy(out.data() + at, &value, 4);
  }
  return true;
}

bool ExecutionGroup::mapped(uint64_t offset) const {
  if (!is_semaphore(offset)) return is_register(offset);
  neuron_update_operation operation;
  unsigned index;
  uint32_t operand;
  return chip::SemaphoreBlock::decode_write(offset - NEURON_CORE_SEMAPHORES, 1, operation, index,
                                            operand);
}

bool ExecutionGroup::write(uint64_t offset, std::span<const std::byte> in,
                           const chip::Access& access) {
  if (is_sbuf(offset)) {
    std::byte* to = memory_.sbuf_at(offset, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    return true;
  }
  if (offset % 4 != 0 || in.size() % 4 != 0 || in.empty()) return false;
  if (is_psum(offset)) {
    const uint64_t at = offset - NEURON_CORE_PSUM;
    std::byte* to = memory_.psum_at(at, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    // A write from outside a running group is unordered with it; its marks are left alone then.
    if (inside() || run_mutex_.try_lock()) {
      memory_.mark_pe(static_cast<unsigned>(at / NEURON_PSUM_PARTITION_STRIDE),
                      at % NEURON_PSUM_PARTITION_STRIDE, in.size(), false);
      if (!inside()) {
        run_mutex_.unlock();
        settle();
      }
    }
    return true;
  }

  const size_t words = in.size() / 4;
  const bool burst = words > 1;
  const uint64_t block = offset & ~uint64_t{0xFFFF};
  if (offset < NEURON_CORE_CONTROL || ((offset + in.size() - 1) & ~uint64_t{0xFFFF}) != block) {
    return false;
  }
  if (!burst && !mapped(offset)) return false;
  const MailKind kind = burst ? MailKind::kBurst : MailKind::kWord;
  constexpr size_t kChunk = 16;  // one engine block's burst
  std::array<Mail, kChunk> mails;
  for (size_t done = 0; done < words; done += kChunk) {
    const size_t count = std::min(kChunk, words - done);
    for (size_t w = 0; w < count; ++w) {
      uint32_t value;
      std::memcpy(&value, in.data() + (done + w) * 4, 4);
      mails[w] = {offset + (done + w) * 4, value, kind, access};
      if (inside()) apply(mails[w], false);
    }
    if (!inside()) deliver({mails.data(), count});
  }
  return true;
}

// One word or doorbell, by who holds the core.
void ExecutionGroup::apply(const Mail& mail, bool foreign) {
  chip::Access access = mail.access;
  if (foreign) {
    begin_external();
    access.time = now_;
  }
  if (mail.kind == MailKind::kDoorbell) {
    activate_dma(static_cast<unsigned>(mail.offset >> 8), mail.offset & 0xFF, access);
  } else if (is_semaphore(mail.offset)) {
    write_semaphore(mail.offset, mail.value, access, foreign);
  } else if (is_register(mail.offset)) {
    write_register(mail.offset, mail.value, mail.kind == MailKind::kBurst, access.time);
  }
}

// A host or foreign access that finds the core quiet starts a new count of time.
void ExecutionGroup::begin_external() {
  if (!in_execution_ && !runnable_.load(std::memory_order_relaxed)) reset_time();
}

void ExecutionGroup::begin_launch() {
  for (Sequencer& s : sequencers_) {
    s.busy = s.waited = s.traced_wait = 0;
    s.launch_retired = s.retired;
  }
}

void ExecutionGroup::write_semaphore(uint64_t offset, uint32_t value, const chip::Access& access,
                                     bool foreign) {
  const uint64_t at = offset - NEURON_CORE_SEMAPHORES;
  const auto forward = [&](uint32_t word) {
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), &word, 4);
    semaphores_.write(at, bytes, access);
  };
  const bool launch = at == NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH;
  if (!launch || !foreign || value == 0) return forward(value);
  if (in_execution_ || runnable_.load(std::memory_order_relaxed)) {
    held_launches_ += std::min(value, NEURON_SEMAPHORE_MAX - held_launches_);
    return;
  }
  begin_launch();
  forward(1);
  held_launches_ += std::min(value - 1, NEURON_SEMAPHORE_MAX - held_launches_);
  if (held_launches_ != 0) set_runnable();
}

// The runner found the group quiet with launches left.
void ExecutionGroup::release_held_launch() {
  --held_launches_;
  reset_time();
  begin_launch();
  std::array<std::byte, 4> one{std::byte{1}};
  semaphores_.write(NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH, one,
                    {chip::Origin::kHost, static_cast<uint8_t>(core_), NEURON_ENGINE_HOST, 0});
}

void ExecutionGroup::deliver(std::span<const Mail> mails) {
  if (run_mutex_.try_lock()) {
    drain_mail();
    for (const Mail& mail : mails) apply(mail, true);
    run_mutex_.unlock();
  } else {
    {
      std::lock_guard lock(mail_mutex_);
      mail_.insert(mail_.end(), mails.begin(), mails.end());
      // Sequentially consistent, like the loads in settle(): either the holder of run_mutex_ sees
      // the mail after it has unlocked, or this thread gets the lock below.
      mail_waiting_.store(true);
    }
  }
  settle();
  if (listener_ != nullptr && runnable()) listener_->core_runnable(core_);
}

void ExecutionGroup::drain_mail() {
  if (!mail_waiting_.load()) return;
  {
    std::lock_guard lock(mail_mutex_);
    mail_taken_.swap(mail_);
    mail_waiting_.store(false);
  }
  for (const Mail& mail : mail_taken_) apply(mail, true);
  mail_taken_.clear();
}

// After unlocking: mail that came while the lock was held is still somebody's to apply.
void ExecutionGroup::settle() {
  while (mail_waiting_.load() && run_mutex_.try_lock()) {
    drain_mail();
    run_mutex_.unlock();
  }
}

// The runner, between two events.
void ExecutionGroup::attend() {
  drain_mail();
  if (visitors_.load(std::memory_order_relaxed) == 0) return;
  run_mutex_.unlock();
  for (unsigned spin = 0; spin < kHandOverSpins && visitors_.load() != 0; ++spin) sched_yield();
  run_mutex_.lock();
}

}  // namespace neuron::core
