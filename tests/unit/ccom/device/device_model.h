// SPDX-License-Identifier: Apache-2.0
// Executes compiled programs of all ranks of a group on bytes, with every DMA engine and every
// collective core at a pace of its own: what waits and semaphores do not order, this disorders.
#ifndef TESTS_UNIT_CCOM_DEVICE_DEVICE_MODEL_H
#define TESTS_UNIT_CCOM_DEVICE_DEVICE_MODEL_H

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ccom/device/compiler.h"
#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::ccom {

inline constexpr uint64_t kMemoryBytes = 1u << 20;  // of a rank
inline constexpr uint64_t kInputAt = 0x1000, kOutputAt = 0x40000, kScratchAt = 0x80000;
inline constexpr uint64_t kOneAt = 0x100, kDoneAt = 0x200;
inline constexpr uint64_t kDoorbell = 0x7000000000;

// Two ranks a chip of generation 2. The memory of core c begins at c x kMemoryBytes of its chip.
// `of_instance`: an even number of ranks; the next ones are on the next instance.
inline DevicePlace place_of(Rank rank, uint32_t of_instance = 1u << 20) {
  return {find_generation(2), rank % of_instance / 2, rank % 2,
          NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW((rank % 2) * 3), rank / of_instance};
}
inline uint64_t base_of(Rank rank) { return rank % 2 * kMemoryBytes; }
inline RankBuffers buffers_of(Rank rank, bool in_place) {
  const uint64_t base = base_of(rank);
  return {base + kInputAt, base + (in_place ? kInputAt : kOutputAt), base + kScratchAt};
}

class DeviceModel {
 public:
  DeviceModel(std::vector<DeviceProgram> programs, unsigned seed, uint32_t of_instance = 1u << 20)
      : programs_(std::move(programs)), of_instance_(of_instance), random_(seed) {
    ranks_.resize(programs_.size());
    for (Rank r = 0; r < ranks_.size(); ++r) {
      ranks_[r].memory.resize(kMemoryBytes);
      const uint32_t one = 1;
      std::memcpy(ranks_[r].memory.data() + kOneAt, &one, 4);
    }
  }

  std::byte* memory(Rank rank) { return ranks_[rank].memory.data(); }
  void go(Rank rank) { ++ranks_[rank].semaphores[NEURON_CC_SEM_GO]; }
  uint32_t done(Rank rank) const {
    uint32_t value;
    std::memcpy(&value, ranks_[rank].memory.data() + kDoneAt, 4);
    return value;
  }

  // Until nothing can happen. Empty: no rule was broken.
  std::string run() {
    // bounded: programs end at a wait for go, which nobody gives here.
    while (problem_.empty()) {
      std::vector<std::pair<Rank, int>> ready;
      for (Rank r = 0; r < ranks_.size(); ++r) {
        if (can_issue(r)) ready.emplace_back(r, -1);
        for (int e = 0; e < static_cast<int>(kDmaEngines); ++e) {
          if (ranks_[r].pending[e] != 0) ready.emplace_back(r, e);
        }
        for (size_t m = 0; m < ranks_[r].sends.size(); ++m) {
          if (receiver_of(r, m) == nullptr) continue;
          ready.emplace_back(r, kFirstMessage + static_cast<int>(m));
        }
      }
      if (ready.empty()) break;
      const auto [rank, engine] = ready[random_() % ready.size()];
      if (engine < 0) {
        issue(rank);
      } else if (engine >= kFirstMessage) {
        deliver(rank, static_cast<size_t>(engine - kFirstMessage));
      } else {
        packet(rank, engine);
      }
    }
    return problem_;
  }

  // Everything is as before the first execution.
  std::string check_rest() {
    for (Rank r = 0; r < ranks_.size(); ++r) {
      RankState& state = ranks_[r];
      if (state.pc != 0) return "rank " + std::to_string(r) + " " + programs_[r].describe(state.pc);
      for (const auto& [index, value] : state.semaphores) {
        if (value != 0) {
          return "semaphore " + std::to_string(index) + " of rank " + std::to_string(r);
        }
      }
      if (!state.sends.empty() || !state.receives.empty() ||
          state.due != programs_[r].crossing.size()) {
        return "messages between instances of rank " + std::to_string(r);
      }
      state.due = 0;
      for (uint32_t e = 0; e < kDmaEngines; ++e) {
        const DescriptorRing& ring = programs_[r].rings[e];
        if (state.m2s[e] != ring.m2s.size() || state.s2m[e] != ring.s2m.size() ||
            state.pending[e] != 0) {
          return "ring of engine " + std::to_string(e) + " of rank " + std::to_string(r);
        }
        state.m2s[e] = state.s2m[e] = state.s2m_pushed[e] = 0;
      }
    }
    return {};
  }

 private:
  static constexpr int kFirstMessage = 1000;  // numbers below are DMA engines

  struct RankState {
    std::vector<CrossingMessage> sends, receives;  // due, in this order
    size_t due = 0;
    std::vector<std::byte> memory;
    std::map<uint32_t, int64_t> semaphores;
    uint32_t pc = 0;
    size_t m2s[kDmaEngines] = {}, s2m[kDmaEngines] = {};
    size_t pending[kDmaEngines] = {};  // descriptors of M2S that were rung
    size_t s2m_pushed[kDmaEngines] = {};
  };

  isa::Instruction at(Rank r) const {
    return isa::decode(std::span(programs_[r].code)
                           .subspan(ranks_[r].pc * size_t{NEURON_INSTRUCTION_BYTES})
                           .first<NEURON_INSTRUCTION_BYTES>());
  }

  bool can_issue(Rank r) {
    const isa::Instruction i = at(r);
    for (const isa::Wait& wait : i.wait) {
      if (wait.condition == NEURON_WAIT_NONE) continue;
      if (ranks_[r].semaphores[wait.index] < wait.value) return false;
    }
    return true;
  }

  void issue(Rank r) {
    RankState& state = ranks_[r];
    const auto bytes = std::span(programs_[r].code)
                           .subspan(state.pc * size_t{NEURON_INSTRUCTION_BYTES})
                           .first<NEURON_INSTRUCTION_BYTES>();
    if (const auto wrong = isa::check_encoding(bytes, NEURON_ENGINE_CC, isa::limits_of(2))) {
      problem_ = isa::describe(wrong, at(r));
      return;
    }
    const isa::Instruction i = at(r);
    for (const isa::Update& update : i.update) {
      if (update.operation == NEURON_UPDATE_NONE) continue;
      if (update.operation != NEURON_UPDATE_SUB) problem_ = "an update that is no subtraction";
      if ((state.semaphores[update.index] -= update.value) < 0) problem_ = "a semaphore below 0";
    }
    ++state.pc;
    switch (i.opcode) {
      case NEURON_OP_EVENT:
        break;
      case NEURON_OP_WRITE:
        add(r, i.address.addr, i.scalar0.value);
        break;
      case NEURON_OP_BRANCH:
        state.pc = static_cast<uint32_t>(static_cast<int32_t>(state.pc) - 1 + i.flow.target);
        break;
      case NEURON_OP_DMA_TRIGGER:
        for (uint32_t e = 0; e < kDmaEngines; ++e) {
          state.pending[e] += i.trigger.m2s_count[e];
          state.s2m_pushed[e] += i.trigger.s2m_count[e];
        }
        break;
      case NEURON_OP_NOTIFY: {
        if (i.scalar0.value != state.due || state.due >= programs_[r].crossing.size()) {
          problem_ = "a message that is due out of turn";
          return;
        }
        const CrossingMessage& message = programs_[r].crossing[state.due++];
        if (message.peer / of_instance_ == r / of_instance_) {
          problem_ = "a message that stays on its instance";
        }
        (message.sends ? state.sends : state.receives).push_back(message);
        break;
      }
      default:
        problem_ = "an opcode that no collective core has";
    }
  }

  // The receive that a send meets: the network keeps the order of a pair and channel. Null: none is
  // due yet, or an earlier send goes first.
  const CrossingMessage* receiver_of(Rank r, size_t number) {
    const CrossingMessage& sent = ranks_[r].sends[number];
    for (size_t m = 0; m < number; ++m) {
      const CrossingMessage& earlier = ranks_[r].sends[m];
      if (earlier.peer == sent.peer && earlier.channel == sent.channel) return nullptr;
    }
    for (const CrossingMessage& message : ranks_[sent.peer].receives) {
      if (message.peer == r && message.channel == sent.channel) return &message;
    }
    return nullptr;
  }

  void deliver(Rank r, size_t number) {
    const CrossingMessage sent = ranks_[r].sends[number];
    const CrossingMessage* receive = receiver_of(r, number);
    if (receive->bytes != sent.bytes || receive->collective != sent.collective) {
      problem_ = "a message that meets another one's place";
      return;
    }
    const std::byte* from = bytes_at(r, sent.address, sent.bytes);
    std::byte* to = bytes_at(sent.peer, receive->address, sent.bytes);
    if (from == nullptr || to == nullptr) return;
    std::memcpy(to, from, sent.bytes);
    ++ranks_[r].semaphores[sent.semaphore];
    ++ranks_[sent.peer].semaphores[receive->semaphore];
    auto& receives = ranks_[sent.peer].receives;
    receives.erase(receives.begin() + (receive - receives.data()));
    ranks_[r].sends.erase(ranks_[r].sends.begin() + static_cast<ptrdiff_t>(number));
  }

  // Chip, counted through all instances, and local address.
  std::pair<uint32_t, uint64_t> resolve(Rank from, uint64_t address) const {
    if ((address & NEURON_V2_PEER_BIT) == 0) return {from / 2, address};
    return {from / of_instance_ * of_instance_ / 2 + (address >> NEURON_V2_PEER_SHIFT & 0xF),
            address & NEURON_V2_PEER_LOCAL};
  }

  std::byte* bytes_at(Rank from, uint64_t address, size_t size) {
    const auto [chip, local] = resolve(from, address);
    const Rank rank = chip * 2 + static_cast<Rank>(local / kMemoryBytes);
    if (local >= 2 * kMemoryBytes || rank >= ranks_.size() ||
        local % kMemoryBytes + size > kMemoryBytes) {
      problem_ = "an address outside memory";
      return nullptr;
    }
    return ranks_[rank].memory.data() + local % kMemoryBytes;
  }

  void add(Rank from, uint64_t address, uint32_t value) {
    const auto [chip, local] = resolve(from, address);
    for (Rank r = chip * 2; r < chip * 2 + 2 && r < ranks_.size(); ++r) {
      const uint64_t first = place_of(r).cc_core + NEURON_SEM_BLOCK_INC;
      if (local < first || local >= first + 1024) continue;
      ranks_[r].semaphores[static_cast<uint32_t>((local - first) / 4)] += value;
      return;
    }
    if (std::byte* word = bytes_at(from, address, 4)) {
      uint32_t old;
      std::memcpy(&old, word, 4);
      old += value;
      std::memcpy(word, &old, 4);
    }
  }

  void packet(Rank r, int e) {
    RankState& state = ranks_[r];
    const DescriptorRing& ring = programs_[r].rings[e];
    std::vector<std::byte> data;
    uint64_t low = 0;
    bool last = false;
    bool compute = false;
    while (!last) {
      if (state.pending[e] == 0 || state.m2s[e] >= ring.m2s.size()) {
        problem_ = "a packet that ends beyond what was rung";
        return;
      }
      --state.pending[e];
      const Descriptor& d = ring.m2s[state.m2s[e]++];
      if ((d.control & NEURON_DESC_META) != 0) {
        low = uint64_t{d.meta} << 32;
        compute = true;
        continue;
      }
      uint32_t length = d.control & NEURON_DESC_LENGTH_MASK;
      if (length == 0) length = 65536;
      const std::byte* from = bytes_at(r, d.address, length);
      if (from == nullptr) return;
      data.insert(data.end(), from, from + length);
      last = (d.control & NEURON_DESC_LAST) != 0;
    }
    if (state.s2m[e] >= state.s2m_pushed[e]) {
      problem_ = "a packet without a destination";
      return;
    }
    const Descriptor& to = ring.s2m[state.s2m[e]++];
    uint32_t length = to.control & NEURON_DESC_LENGTH_MASK;
    if (length == 0) length = 65536;
    if (compute) {
      const size_t sources = (low >> NEURON_DMA_META_SOURCES_SHIFT & 15) + 1 +
                             (low >> NEURON_DMA_META_MORE_SOURCES_SHIFT & 3) * 16;
      if ((low >> NEURON_DMA_META_OPERATION_SHIFT & 15) != NEURON_DMA_REDUCE) {
        problem_ = "a packet that is no reduce";
      }
      if (data.size() != sources * length) problem_ = "sources that do not fit their result";
      std::vector<float> sum(length / 4), one(length / 4);
      std::memcpy(sum.data(), data.data(), length);
      for (size_t s = 1; s < sources; ++s) {
        std::memcpy(one.data(), data.data() + s * length, length);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
      }
      data.resize(length);
      std::memcpy(data.data(), sum.data(), length);
    }
    if (data.size() != length) problem_ = "a packet whose sides differ";
    if (to.address % NEURON_V2_PEER_LOCAL >= NEURON_V2_BAR0_DEVICE_BASE ||
        (resolve(r, to.address).second >= NEURON_V2_BAR0_DEVICE_BASE)) {
      uint32_t value;
      std::memcpy(&value, data.data(), 4);
      add(r, to.address, value);
    } else if (std::byte* there = bytes_at(r, to.address, length)) {
      std::memcpy(there, data.data(), length);
    }
  }

  std::vector<DeviceProgram> programs_;
  const uint32_t of_instance_;
  std::vector<RankState> ranks_;
  std::mt19937 random_;
  std::string problem_;
};

}  // namespace neuron::ccom

#endif
