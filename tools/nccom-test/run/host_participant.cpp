// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/host_participant.h"

#include <ccom/ccom.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>

#include "ccom/request/names.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/data.h"
#include "tools/nccom-test/run/rank_run.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;
using Clock = std::chrono::steady_clock;

namespace {

constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kSpare = 64ull << 20;  // for the library's own data there
constexpr size_t kMostUnique = 1024;
// Beyond the time limit of an operation: the library's own sentence comes first.
constexpr std::chrono::seconds kSpareTime{1};

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Result<void> checked(ccom_status_t status) {
  if (status == CCOM_SUCCESS) return {};
  return ccom::Error{status, ccom_last_error()};
}

ccom_options_t options_of(const HostSettings& settings) {
  ccom_options_t options{};
  options.size_of = sizeof options;
  options.root = settings.root.empty() ? nullptr : settings.root.c_str();
  options.secret = settings.secret.empty() ? nullptr : settings.secret.c_str();
  options.providers = settings.providers.empty() ? nullptr : settings.providers.c_str();
  options.timeout_ms = settings.timeout_ms;
  options.memory_bytes = settings.memory_bytes;
  options.flags = (settings.no_shared_memory ? CCOM_FLAG_NO_SHARED_MEMORY : 0u) |
                  (settings.fast_order ? CCOM_FLAG_FAST_ORDER : 0u);
  return options;
}

// Bytes of input and output; in place they are one buffer.
struct Sizes {
  uint64_t input = 0, output = 0;
};

Sizes sizes_of_work(const BlockCase& block, const Work& work) {
  const uint64_t width = type_size(work.type);
  return {work.input_elements(block.place) * width, work.output_elements(block.place) * width};
}

// Sets of buffers that iterations take in turn: the same number on every rank. If every result is
// kept for a look, small ones get several sets, so that the ranks need not meet after each of the
// quickest operations; all sets together stay in the nearest cache.
size_t sets_of(const HostSettings& settings, const std::vector<BlockCase>& blocks) {
  constexpr uint64_t kNear = 16 << 10;
  constexpr uint64_t kMostNear = 8;
  if (settings.unique_buffers) return std::min<size_t>(settings.operations, kMostUnique);
  if (!settings.every_result) return 1;
  uint64_t bytes = 1;
  for (const BlockCase& block : blocks) {
    if (has_variable_counts(block.what.works.front().operation)) return 1;  // ranks differ
    bytes += 2 * block.what.size * block.repetitions;
  }
  return std::clamp<uint64_t>(kNear / bytes, 1, kMostNear);
}

// Buffers of a call in a set: all repetitions share one, or each has its own.
uint32_t buffers_of(const HostSettings& settings, const BlockCase& block) {
  return settings.unique_buffers || settings.every_result ? block.repetitions : 1;
}

// For one operation of one call.
struct Buffers {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
};

struct HostCall {
  ccom_collective_t collective{};
  std::vector<Buffers> buffers;  // those of the first set, those of the second, ...
  Sizes sizes;
};

struct BlockState {
  const BlockCase* what = nullptr;
  ccom_comm_t* comm = nullptr;
  std::vector<HostCall> calls;  // coalesced ones, in order
  // Of an iteration:
  ccom_request_t* request = nullptr;
  uint32_t started = 0;
  Clock::time_point until;  // for the operation under way
};

class Host final : public Participant {
 public:
  Host(uint32_t rank, uint32_t ranks, const HostSettings& settings, ccom_comm_t* world)
      : rank_(rank), ranks_(ranks), settings_(settings), world_(world) {}
  ~Host() override {
    release();
    for (auto& [groups, comm] : communicators_) {
      if (comm != nullptr) ccom_free(comm);
    }
    if (ccom_comm_t* world = world_.load()) ccom_free(world);
  }

  uint32_t rank() const override { return rank_; }

  Result<void> join() override {
    if (world_.load() != nullptr) return {};
    const ccom_options_t options = options_of(settings_);
    ccom_comm_t* world = nullptr;
    NEURON_CHECK(checked(ccom_init(rank_, ranks_, &options, &world)));
    world_.store(world);
    return {};
  }

  Result<void> enter(const Phase& phase) override {
    release();
    block_comms_.clear();
    for (const PhaseBlock& block : phase.blocks) {
      NEURON_TRY(comm, communicator(block.groups));
      block_comms_.push_back(comm);
    }
    return {};
  }

  Result<void> prepare(const std::vector<BlockCase>& blocks) override {
    release();
    sets_ = sets_of(settings_, blocks);
    blocks_.resize(blocks.size());
    for (size_t b = 0; b < blocks.size(); ++b) {
      BlockState& state = blocks_[b];
      state.what = &blocks[b];
      state.comm = block_comms_[b];
      if (!blocks[b].takes_part) continue;
      for (const Work& work : blocks[b].what.works) {
        NEURON_TRY(call, make_call(state, work));
        state.calls.push_back(std::move(call));
      }
      if (settings_.shared_output) share_output(state);
    }
    return {};
  }

  size_t sets() const override { return sets_; }
  uint32_t results_of(size_t block) const override {
    return buffers_of(settings_, *blocks_[block].what);
  }

  Result<void> write(const Slot& slot, std::span<const std::byte> input) override {
    get_on();
    for (const Buffers& one : buffers_in(slot)) {
      // The untouched first: in place, the input lies within the output or holds it.
      spoil(slot, one);
      if (!input.empty()) std::memcpy(one.input, input.data(), input.size());
    }
    return {};
  }

  // An input that no output has overwritten stays as it is, also in the caches of the processors.
  Result<void> renew(const Slot& slot, std::span<const std::byte> input) override {
    if (blocks_[slot.block].what->in_place) return write(slot, input);
    get_on();
    for (const Buffers& one : buffers_in(slot)) spoil(slot, one);
    return {};
  }
  uint32_t inputs_in_turn() const override { return 1; }

  Result<std::span<const std::byte>> result(const Slot& slot) override {
    get_on();
    const std::byte* output = buffers_in(slot)[slot.repetition].output;
    return std::span(output, call_of(slot).sizes.output);
  }

  Result<void> barrier() override {
    ccom_collective_t barrier{};
    barrier.size_of = sizeof barrier;
    barrier.operation = CCOM_BARRIER;
    return checked(ccom_run(world_, &barrier));
  }
  bool waits_are_measured() const override { return true; }

  Result<void> execute(size_t iteration, std::vector<double>& times_us) override {
    std::fill(times_us.begin(), times_us.end(), 0.0);
    if (blocks_.size() == 1) {
      BlockState& block = blocks_.front();
      if (!block.what->takes_part) return {};
      const auto begin = Clock::now();
      for (uint32_t r = 0; r < block.what->repetitions; ++r) {
        for (HostCall& call : block.calls) {
          NEURON_CHECK(checked(ccom_run(block.comm, &chosen(call, iteration, r))));
          get_on();
        }
      }
      times_us[0] = since(begin) / block.what->repetitions;
      return {};
    }
    return concurrently(iteration, times_us);
  }

  std::string algorithm(size_t block) override {
    const BlockState& state = blocks_[block];
    if (state.calls.empty()) return "";
    char text[4096];
    ccom_explain(state.comm, &state.calls.front().collective, text, sizeof text);
    const char* mark = std::strstr(text, "<- chosen");
    if (mark == nullptr) {
      const ccom_algorithm_t asked = state.calls.front().collective.algorithm;
      return asked == CCOM_ALGORITHM_AUTO ? "" : algorithm_name(asked);
    }
    const char* begin = mark;
    while (begin != text && begin[-1] != '\n') --begin;
    while (*begin == ' ') ++begin;
    // The library's name is replaced by the one that the original prints.
    const std::string name(begin, std::find(begin, mark, ' '));
    const ccom_algorithm_t known = ccom::algorithm_named(name);
    return known < CCOM_ALGORITHM_COUNT ? algorithm_name(known) : name;
  }

  void abort() override {
    if (ccom_comm_t* world = world_.load()) ccom_abort(world);
  }

 private:
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

  Result<ccom_comm_t*> communicator(const GroupConfig& groups) {
    bool everybody = groups.size() == 1 && groups[0].size() == ranks_;
    for (uint32_t i = 0; everybody && i < ranks_; ++i) everybody = groups[0][i] == i;
    if (everybody) return world_.load();
    const auto found = communicators_.find(groups);
    if (found != communicators_.end()) return found->second;
    uint32_t group = 0, place = 0;
    const bool in = place_in(groups, rank_, group, place);
    ccom_comm_t* comm = nullptr;
    NEURON_CHECK(checked(ccom_split(world_, in ? static_cast<int32_t>(group) : -1,
                                    static_cast<int32_t>(place), &comm)));
    communicators_[groups] = comm;
    return comm;
  }

  HostCall& call_of(const Slot& slot) { return blocks_[slot.block].calls[slot.work]; }
  std::span<Buffers> buffers_in(const Slot& slot) {
    const size_t count = results_of(slot.block);
    return std::span(call_of(slot).buffers).subspan(slot.set * count, count);
  }
  void spoil(const Slot& slot, const Buffers& one) {
    if (one.output == nullptr) return;
    std::memset(one.output, static_cast<int>(kUntouched), call_of(slot).sizes.output);
  }

  Result<std::byte*> allocate(ccom_comm_t* comm, uint64_t bytes) {
    if (bytes == 0) return static_cast<std::byte*>(nullptr);
    void* memory = nullptr;
    NEURON_CHECK(checked(ccom_mem_alloc(comm, bytes, &memory)));
    allocated_.emplace_back(comm, memory);
    return static_cast<std::byte*>(memory);
  }

  void release() {
    for (const auto& [comm, memory] : allocated_) ccom_mem_free(comm, memory);
    allocated_.clear();
    blocks_.clear();
  }

  Result<HostCall> make_call(const BlockState& state, const Work& work) {
    const BlockCase& block = *state.what;
    HostCall call;
    call.sizes = sizes_of_work(block, work);
    const size_t count = sets_ * buffers_of(settings_, block);
    for (size_t i = 0; i < count; ++i) {
      Buffers set;
      uint64_t offset = 0;
      bool output_is_larger = true;
      if (block.in_place && work.in_place_offset(block.place, offset, output_is_larger)) {
        offset *= type_size(work.type);
        NEURON_TRY(memory, allocate(state.comm, std::max(call.sizes.input, call.sizes.output)));
        set.input = call.sizes.input == 0 ? nullptr : memory + (output_is_larger ? offset : 0);
        set.output = call.sizes.output == 0 ? nullptr : memory + (output_is_larger ? 0 : offset);
        if (call.sizes.output == 0) set.input = memory;
      } else {
        NEURON_TRY(input, allocate(state.comm, call.sizes.input));
        NEURON_TRY(output, allocate(state.comm, call.sizes.output));
        set = {input, output};
      }
      call.buffers.push_back(set);
    }
    call.collective = collective_of(work);
    call.collective.stream = block.stream;
    chosen(call, 0, 0);
    return call;
  }

  void share_output(BlockState& state) const {
    size_t largest = 0;
    for (size_t i = 0; i < state.calls.size(); ++i) {
      if (state.calls[i].sizes.output > state.calls[largest].sizes.output) largest = i;
    }
    for (HostCall& call : state.calls) {
      for (size_t i = 0; i < call.buffers.size(); ++i) {
        call.buffers[i].output = state.calls[largest].buffers[i].output;
      }
      chosen(call, 0, 0);
    }
  }

  const ccom_collective_t& chosen(HostCall& call, size_t iteration, uint32_t repetition) const {
    const size_t of_set = call.buffers.size() / sets_;
    const Buffers& one = call.buffers[iteration % sets_ * of_set + (of_set == 1 ? 0 : repetition)];
    call.collective.input = one.input;
    call.collective.output = one.output;
    return call.collective;
  }

  // Starts the next operation of a block; false: all operations of this iteration are done.
  Result<bool> start_next(BlockState& block, size_t iteration) {
    const size_t all = block.calls.size() * block.what->repetitions;
    if (block.started == all) return false;
    HostCall& call = block.calls[block.started % block.calls.size()];
    const auto repetition = static_cast<uint32_t>(block.started / block.calls.size());
    NEURON_CHECK(
        checked(ccom_start(block.comm, &chosen(call, iteration, repetition), &block.request)));
    ++block.started;
    block.until = Clock::now() + std::chrono::milliseconds(settings_.timeout_ms) + kSpareTime;
    return true;
  }

  // One operation of each block under way at any time.
  Result<void> concurrently(size_t iteration, std::vector<double>& times_us) {
    const auto begin = Clock::now();
    size_t open = 0;
    for (BlockState& block : blocks_) {
      block.started = 0;
      if (!block.what->takes_part) continue;
      NEURON_TRY(started, start_next(block, iteration));
      open += started ? 1 : 0;
    }
    while (open != 0) {
      for (size_t b = 0; b < blocks_.size(); ++b) {
        BlockState& block = blocks_[b];
        if (block.request == nullptr) continue;
        const ccom_status_t status = ccom_test(block.request);
        if (status == CCOM_IN_PROGRESS) {
          if (Clock::now() > block.until) {
            return fail(CCOM_TIMEOUT, "an operation of stream {} did not end within {} ms",
                        block.what->stream, settings_.timeout_ms);
          }
          continue;
        }
        block.request = nullptr;
        NEURON_CHECK(checked(status));
        get_on();
        NEURON_TRY(started, start_next(block, iteration));
        if (!started) {
          times_us[b] = since(begin) / block.what->repetitions;
          --open;
        }
      }
    }
    return {};
  }

  const uint32_t rank_, ranks_;
  const HostSettings settings_;
  std::atomic<ccom_comm_t*> world_;  // abort() may come from another thread than join()
  std::map<GroupConfig, ccom_comm_t*> communicators_;
  std::vector<ccom_comm_t*> block_comms_;
  std::vector<BlockState> blocks_;
  size_t sets_ = 1;
  std::vector<std::pair<ccom_comm_t*, void*>> allocated_;
};

}  // namespace

uint64_t memory_needed(const Job& job, uint32_t ranks, const HostSettings& settings) {
  uint64_t most = 0;
  for (const Phase& phase : job.phases) {
    if (phase.steps() == 0) continue;
    for (const uint32_t rank : {0u, ranks - 1}) {
      const auto cases = cases_of(phase, phase.steps() - 1, rank);
      if (!cases) continue;
      uint64_t bytes = 0;
      const size_t sets = sets_of(settings, *cases);
      for (const BlockCase& block : *cases) {
        for (const Work& work : block.what.works) {
          const Sizes sizes = sizes_of_work(block, work);
          bytes +=
              (aligned(sizes.input) + aligned(sizes.output)) * sets * buffers_of(settings, block);
        }
      }
      // Smaller sizes have more sets, but then all of them fit into the spare.
      // A root has more than others, and uneven counts differ; no rank has more than twice as much.
      most = std::max(most, bytes * 2);
    }
  }
  return most + kSpare;
}

Result<std::vector<std::unique_ptr<Participant>>> make_host_participants(
    uint32_t ranks, const HostSettings& settings) {
  const ccom_options_t options = options_of(settings);
  std::vector<ccom_comm_t*> comms(ranks);
  NEURON_CHECK(checked(ccom_init_all(ranks, &options, comms.data())));
  std::vector<std::unique_ptr<Participant>> result;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    result.push_back(std::make_unique<Host>(rank, ranks, settings, comms[rank]));
  }
  return result;
}

std::unique_ptr<Participant> make_host_participant(uint32_t rank, uint32_t ranks,
                                                   const HostSettings& settings) {
  return std::make_unique<Host>(rank, ranks, settings, nullptr);
}

}  // namespace neuron::nccom
