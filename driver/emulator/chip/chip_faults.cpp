// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/chip_faults.h"

#include <algorithm>

namespace neuron::chip {
namespace {

constexpr uint64_t kEccLine = 64;

}  // namespace

ChipFaults& ChipFaults::none() {
  static ChipFaults faults;
  return faults;
}

void ChipFaults::describe_chip(int chip, std::vector<uint64_t> stacks, uint64_t stack_bytes) {
  const std::lock_guard guard(mutex_);
  chip_ = chip;
  stacks_ = std::move(stacks);
  stacks_.resize(std::min<size_t>(stacks_.size(), kEccWords - 1));
  stack_bytes_ = stack_bytes;
}

void ChipFaults::switch_off() {
  if (!off_.exchange(true, std::memory_order_relaxed)) {
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool ChipFaults::strikes(Armed& armed) {
  if (++armed.seen < armed.spec.n || armed.happened == armed.spec.count) return false;
  ++armed.happened;
  return true;
}

void ChipFaults::forget_finished() {
  std::erase_if(plan_, [](const Armed& a) { return a.happened == a.spec.count; });
}

void ChipFaults::publish() {
  const bool hung = std::any_of(hung_.begin(), hung_.end(), [](uint8_t mask) { return mask; });
  // Relaxed: see armed().
  armed_.store(!plan_.empty() || !bad_.empty() || hung || off(), std::memory_order_relaxed);
}

void ChipFaults::count_ecc(unsigned word, bool corrected) {
  uint16_t& counter = (corrected ? corrected_ : uncorrected_)[word];
  if (counter != UINT16_MAX) ++counter;
}

unsigned ChipFaults::hbm_word(uint64_t address) const {
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (address - stacks_[i] < stack_bytes_) return static_cast<unsigned>(i) + 1;
  }
  return 0;
}

neuron_fault ChipFaults::meets_bad(uint64_t address, uint64_t bytes) {
  auto next = bad_.lower_bound(address + bytes);
  if (next == bad_.begin()) return NEURON_FAULT_NONE;
  --next;  // ranges do not overlap, so the last that begins before the end is the one to look at
  return next->second.end > address ? next->second.fault : NEURON_FAULT_NONE;
}

void ChipFaults::mark_bad(uint64_t address, uint64_t bytes, neuron_fault fault) {
  uint64_t begin = address;
  uint64_t end = address + bytes;
  // Overlapping ranges become one; the worse fault stays.
  auto next = bad_.upper_bound(end);
  while (next != bad_.begin()) {
    auto before = std::prev(next);
    if (before->second.end < begin) break;
    begin = std::min(begin, before->first);
    end = std::max(end, before->second.end);
    if (before->second.fault == NEURON_FAULT_HBM_UE) fault = NEURON_FAULT_HBM_UE;
    next = bad_.erase(before);
  }
  bad_[begin] = {end, fault};
  // Release: pairs with the acquire in bad_epoch(), whose reader then asks for the pages.
  bad_epoch_.fetch_add(1, std::memory_order_release);
}

ChipFaults::Issue ChipFaults::instruction(unsigned core, unsigned engine) {
  const std::lock_guard guard(mutex_);
  if (off() || core >= kMostCores || (hung_[core] >> engine & 1) != 0) return Issue::kHangs;
  Issue result = Issue::kGoesOn;
  for (Armed& armed : plan_) {
    const FaultSpec& spec = armed.spec;
    const bool instruction = spec.at == FaultPoint::kInstruction;
    if ((!instruction && spec.at != FaultPoint::kSram) || !concerns(spec.core, core) ||
        (instruction && !concerns(spec.engine, engine)) || !strikes(armed)) {
      continue;
    }
    if (spec.kind == FaultKind::kHang) {
      hung_[core] = static_cast<uint8_t>(hung_[core] | 1u << engine);
      result = Issue::kHangs;
    } else if (spec.kind == FaultKind::kOff) {
      switch_off();
      result = Issue::kHangs;
    } else {
      count_ecc(0, spec.kind == FaultKind::kCorrectable);
      if (spec.kind == FaultKind::kUncorrectable && result == Issue::kGoesOn) {
        result = Issue::kParityError;
      }
    }
  }
  forget_finished();
  publish();
  return result;
}

neuron_fault ChipFaults::descriptor(unsigned engine, unsigned queue, uint64_t source,
                                    uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  if (off()) return NEURON_FAULT_NONE;
  const bool from_hbm = hbm_word(source) != 0;
  neuron_fault fault = from_hbm ? meets_bad(source, bytes) : NEURON_FAULT_NONE;
  if (fault != NEURON_FAULT_NONE) count_ecc(hbm_word(source), false);
  for (Armed& armed : plan_) {
    const FaultSpec& spec = armed.spec;
    if (spec.at == FaultPoint::kDescriptor) {
      if (!concerns(spec.engine, engine) || !concerns(spec.queue, queue) || !strikes(armed)) {
        continue;
      }
      if (spec.kind == FaultKind::kOff) {
        switch_off();
        break;
      }
      fault = NEURON_FAULT_DMA_ENGINE;
    } else if (spec.at == FaultPoint::kHbm && from_hbm) {
      const bool all = spec.bytes == 0;
      if (!all && (source >= spec.address + spec.bytes || spec.address >= source + bytes)) continue;
      if (!strikes(armed)) continue;
      const uint64_t address = all ? source / kEccLine * kEccLine : spec.address;
      count_ecc(hbm_word(address), spec.kind == FaultKind::kCorrectable);
      if (spec.kind == FaultKind::kCorrectable) continue;
      fault = spec.kind == FaultKind::kRepairable ? NEURON_FAULT_HBM_UE_REPAIRABLE
                                                  : NEURON_FAULT_HBM_UE;
      mark_bad(address, all ? kEccLine : spec.bytes, fault);
    }
  }
  if (fault != NEURON_FAULT_NONE) ++dma_errors_;
  forget_finished();
  publish();
  return fault;
}

neuron_fault ChipFaults::fetched(uint64_t address, uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  const neuron_fault fault = meets_bad(address, bytes);
  if (fault != NEURON_FAULT_NONE) count_ecc(hbm_word(address), false);
  return fault;
}

bool ChipFaults::host_access() {
  const std::lock_guard guard(mutex_);
  for (Armed& armed : plan_) {
    if (armed.spec.at != FaultPoint::kChip || !strikes(armed)) continue;
    switch_off();
  }
  forget_finished();
  publish();
  return off();
}

void ChipFaults::core_was_reset(unsigned core) {
  const std::lock_guard guard(mutex_);
  if (core < kMostCores) hung_[core] = 0;
  publish();
}

void ChipFaults::device_was_reset() {
  const std::lock_guard guard(mutex_);
  std::erase_if(
      bad_, [](const auto& range) { return range.second.fault == NEURON_FAULT_HBM_UE_REPAIRABLE; });
  publish();
}

bool ChipFaults::arm(const FaultSpec& spec) {
  if (spec.at == FaultPoint::kLink || (spec.chip != FaultSpec::kAny && spec.chip != chip_)) {
    return false;
  }
  const std::lock_guard guard(mutex_);
  plan_.push_back({spec});
  publish();
  return true;
}

size_t ChipFaults::pending() const {
  const std::lock_guard guard(mutex_);
  return plan_.size();
}

void ChipFaults::clear() {
  const std::lock_guard guard(mutex_);
  plan_.clear();
  bad_.clear();
  publish();
}

void ChipFaults::set_off(bool off) {
  const std::lock_guard guard(mutex_);
  if (off) {
    switch_off();
  } else {
    off_.store(false, std::memory_order_relaxed);
    hung_.fill(0);
  }
  publish();
}

FaultStatus ChipFaults::status() const {
  const std::lock_guard guard(mutex_);
  FaultStatus status;
  for (const Armed& armed : plan_) {
    FaultSpec left = armed.spec;  // the events that are still to come
    left.n = armed.seen < left.n ? left.n - armed.seen : 1;
    left.count -= armed.happened;
    status.armed.push_back(left.text());
  }
  status.corrected = corrected_;
  status.uncorrected = uncorrected_;
  status.dma_errors = dma_errors_;
  for (const auto& [begin, bad] : bad_) status.bad_bytes += bad.end - begin;
  status.hung.assign(hung_.begin(), hung_.end());
  status.off = off();
  return status;
}

uint32_t ChipFaults::ecc_word(uint64_t offset) const {
  const std::lock_guard guard(mutex_);
  if (offset == NEURON_FW_HBM_REPAIR) {
    return std::any_of(bad_.begin(), bad_.end(), [](const auto& range) {
      return range.second.fault == NEURON_FAULT_HBM_UE_REPAIRABLE;
    });
  }
  const size_t word = (offset - NEURON_FW_ECC_SRAM) / 4;
  if (word >= kEccWords) return 0;
  return uint32_t{corrected_[word]} << 16 | uncorrected_[word];
}

std::vector<uint64_t> ChipFaults::bad_pages() const {
  // Above this many, pages are not listed one by one: a plan that breaks gigabytes breaks them for
  // its readers.
  constexpr size_t kMost = 65536;
  const std::lock_guard guard(mutex_);
  std::vector<uint64_t> pages;
  for (const auto& [begin, bad] : bad_) {
    if (bad.fault != NEURON_FAULT_HBM_UE) continue;  // a reset repairs the others
    for (uint64_t page = begin / kPage * kPage; page < bad.end && pages.size() < kMost;
         page += kPage) {
      if (pages.empty() || pages.back() != page) pages.push_back(page);
    }
  }
  return pages;
}

}  // namespace neuron::chip
