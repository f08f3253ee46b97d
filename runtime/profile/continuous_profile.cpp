// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/continuous_profile.h"

#include "runtime/base/log.h"
#include "runtime/device/core_trace.h"
#include "runtime/device/core_turn.h"
#include "runtime/model/loaded_model.h"
#include "runtime/profile/execution_chunk.h"
#include "runtime/profile/profile_series.h"
#include "runtime/profile/program_chunks.h"
#include "runtime/profile/stream_chunks.h"

namespace neuron::runtime {
namespace {

constexpr size_t kMostEntries = 2u << 20;  // 64 MiB

}  // namespace

// Entries of the last execution on one physical core, in the turn of the virtual one.
class LastExecution final : public TraceSink {
 public:
  explicit LastExecution(Core& core) : core_(core) {}

  void take(uint32_t slot, std::span<const neuron_notification> entries) override {
    if (ended_) {
      for (auto& list : entries_) list.clear();
      count_ = missing_ = 0;
      ended_ = false;
    }
    const size_t room = std::min(entries.size(), kMostEntries - std::min(kMostEntries, count_));
    entries_[slot].insert(entries_[slot].end(), entries.begin(),
                          entries.begin() + static_cast<ptrdiff_t>(room));
    count_ += room;
    missing_ += entries.size() - room;
  }
  void ended(const TracedExecution& execution) override {
    ended_ = true;
    execution_ = execution;
    execution_.lost += missing_;
    model_ = static_cast<const LoadedModel*>(core_.current_model);
  }

  // Whether the model whose execution is kept is this one.
  bool is_of(const void* model) const { return ended_ && model_ != nullptr && model_ == model; }

  uint64_t lost() const { return execution_.lost; }

  // `part`: 0, or 1 for the second physical core of the virtual one.
  Result<void> write(ntff::TraceFileWriter& file, uint32_t part) const {
    NEURON_CHECK(write_program(file, part, *model_, core_.index()));
    NEURON_CHECK(write_streams(file, part, *model_));
    for (uint32_t slot = 0; slot < entries_.size(); ++slot) {
      const auto& list = entries_[slot];
      constexpr size_t kPiece = 16384;
      for (size_t at = 0; at < list.size(); at += kPiece) {
        const size_t count = std::min(kPiece, list.size() - at);
        NEURON_CHECK(file.write(ntff::ChunkKind::kEntries, {.part = part, .index = slot},
                                {reinterpret_cast<const uint8_t*>(list.data() + at),
                                 count * sizeof(neuron_notification)}));
      }
    }
    return file.write(ntff::ChunkKind::kExecution, {.part = part, .index = 0},
                      execution_text(execution_));
  }

 private:
  Core& core_;
  std::array<std::vector<neuron_notification>, kTracedRings> entries_;
  size_t count_ = 0, missing_ = 0;
  bool ended_ = true;
  TracedExecution execution_;
  const LoadedModel* model_ = nullptr;
};

ContinuousProfile::~ContinuousProfile() {
  if (state_ == State::kOn) (void)stop();
}

// Who has the turn of a core may wait for mutex_, so nobody who has mutex_ waits for a turn.
Result<void> ContinuousProfile::start(Session& session) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOff) return fail(NRT_INVALID, "continuous profiling runs already");
    state_ = State::kChanging;
  }
  std::vector<Core*> cores;
  std::map<uint32_t, Kept> kept;
  const auto begin = [&](uint32_t vnc) -> Result<void> {
    NEURON_TRY(core, session.core(vnc));
    NEURON_TRY(turn, CoreTurn::take(*core));
    for (Core* part : {core, core->peer.get()}) {
      if (part == nullptr) continue;
      if (part->trace != nullptr) {
        return fail(NRT_INVALID, "device {} core {} is profiled already; stop that profile first",
                    part->device().index(), part->number());
      }
      auto last = std::make_shared<LastExecution>(*part);
      NEURON_TRY(trace, CoreTrace::create(*part, last));
      if (part == core) cores.push_back(core);
      part->trace = std::move(trace);
      kept[core->index()].push_back(std::move(last));
    }
    return {};
  };
  Result<void> started;
  for (uint32_t vnc = 0; started && vnc < session.core_count(); ++vnc) started = begin(vnc);
  if (!started) end(cores);
  const std::lock_guard lock(mutex_);
  state_ = started ? State::kOn : State::kOff;
  if (started) {
    cores_ = std::move(cores);
    kept_ = std::move(kept);
  }
  return started;
}

Result<void> ContinuousProfile::save(Session& session, uint32_t vnc,
                                     const std::string& output_dir) {
  NEURON_TRY(most, ProfileSeries::limit());
  NEURON_TRY(core, session.core(vnc));
  NEURON_TRY(turn, CoreTurn::take(*core));
  Kept kept;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(core->index());
    if (state_ != State::kOn || found == kept_.end()) {
      return fail(NRT_FAILURE,
                  "continuous profiling does not run; call nrt_profile_continuous_start");
    }
    kept = found->second;
  }
  const auto* model = static_cast<const LoadedModel*>(core->current_model);
  if (!kept[0]->is_of(model)) {
    return fail(NRT_FAILURE,
                "there is nothing to save of virtual core {}: no model was executed on it since "
                "profiling began, or it was unloaded",
                vnc);
  }
  // The second core takes part in executions of models for two.
  if (kept.size() == 2 && !kept[1]->is_of(model->second())) kept.pop_back();
  const ProfileSeries series(output_dir, vnc);
  NEURON_TRY(file, series.next());
  if (auto written = write(kept, file); !written) {
    file.discard();
    return written;
  }
  series.trim(most);
  return {};
}

Result<void> ContinuousProfile::write(const Kept& kept, ntff::TraceFileWriter& file) {
  uint64_t lost = 0;
  for (uint32_t part = 0; part < kept.size(); ++part) {
    NEURON_CHECK(kept[part]->write(file, part));
    lost += kept[part]->lost();
  }
  NEURON_CHECK(
      file.write(ntff::ChunkKind::kEnd, {}, format(R"({{"executions":1,"lost":{}}})", lost)));
  return file.finish();
}

Result<void> ContinuousProfile::stop() {
  std::vector<Core*> cores;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOn) return fail(NRT_FAILURE, "continuous profiling does not run");
    state_ = State::kChanging;
    cores.swap(cores_);
  }
  end(cores);
  const std::lock_guard lock(mutex_);
  state_ = State::kOff;
  kept_.clear();
  return {};
}

void ContinuousProfile::end(const std::vector<Core*>& cores) {
  for (Core* core : cores) {
    auto turn = CoreTurn::take(*core);
    if (turn) {
      core->trace.reset();
      if (core->peer != nullptr) core->peer->trace.reset();
    } else {
      log_warning(LogComponent::kNrt, "{}", turn.error().sentence);
    }
  }
}

}  // namespace neuron::runtime
