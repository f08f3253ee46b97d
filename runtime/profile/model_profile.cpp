// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/model_profile.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/log.h"
#include "runtime/device/core_trace.h"
#include "runtime/profile/execution_chunk.h"
#include "runtime/profile/program_chunks.h"
#include "runtime/profile/recorded_ring.h"
#include "runtime/profile/stream_chunks.h"

namespace neuron::runtime {
namespace {

using ntff::ChunkKind;
using ntff::TraceFileWriter;

constexpr size_t kEntriesOfChunk = 16384;

}  // namespace

// What one core records of one model.
class ProfileSink final : public TraceSink {
 public:
  ProfileSink(std::shared_ptr<TraceFileWriter> file, uint32_t part, const LoadedModel& model)
      : file_(std::move(file)), part_(part), model_(model) {}

  void take(uint32_t slot, std::span<const neuron_notification> entries) override {
    if (!is_ours()) return;
    rings_[slot].add(entries);
    if (rings_[slot].entries().size() < kEntriesOfChunk) return;
    write(slot);
    in_pieces_ = true;
  }

  void ended(const TracedExecution& execution) override {
    lost_ = execution.lost;
    if (!is_ours()) return;
    write_streams_once();
    if (repeats_the_last(execution)) {
      RepeatedExecutionText text;
      note(file_->write(ChunkKind::kExecution, {.part = part_, .index = 0},
                        text.of(execution, last_index_)));
      for (RecordedRing& ring : rings_) ring.forget();
    } else {
      for (uint32_t slot = 0; slot < rings_.size(); ++slot) write(slot);
      note(file_->write(ChunkKind::kExecution, {.part = part_, .index = 0},
                        execution_text(execution)));
      remember(execution);
    }
    in_pieces_ = false;
    ++executions_;
  }

  uint64_t lost() const { return lost_; }
  uint64_t executions() const { return executions_; }

 private:
  // Other models run on the core too.
  bool is_ours() const { return model_.core().current_model == &model_; }
  void write(uint32_t slot) {
    const auto entries = rings_[slot].entries();
    if (!entries.empty()) {
      note(file_->write(ChunkKind::kEntries, {.part = part_, .index = slot},
                        {reinterpret_cast<const uint8_t*>(entries.data()), entries.size_bytes()}));
    }
    rings_[slot].written();
  }
  void write_streams_once() {
    if (has_streams_) return;
    const Result<bool> written = write_streams(*file_, part_, model_);
    if (!written) return note(written.error());
    has_streams_ = *written;
  }
  // Executions of one program are often alike to the picosecond. Then the entries are in the file
  // once, since writing them takes longer than executing a short program.
  bool repeats_the_last(const TracedExecution& execution) const {
    if (!has_last_ || in_pieces_ || execution.failed || execution.lost != last_.lost ||
        execution.device_ps != last_.device_ps ||
        std::memcmp(&execution.work, &last_.work, sizeof(last_.work)) != 0) {
      return false;
    }
    return std::all_of(rings_.begin(), rings_.end(),
                       [](const RecordedRing& ring) { return ring.repeats(); });
  }
  void remember(const TracedExecution& execution) {
    has_last_ = !in_pieces_ && !execution.failed;
    last_ = execution;
    last_index_ = executions_;
  }
  // The file keeps its first failure, which stop() reports; the log has it now, once for both
  // cores.
  void note(const Result<void>& result) {
    if (result || !file_->failure_is_news()) return;
    log_error(LogComponent::kNrt, "{}", result.error().sentence);
  }

  std::shared_ptr<TraceFileWriter> file_;
  const uint32_t part_;
  const LoadedModel& model_;
  std::array<RecordedRing, kTracedRings> rings_;
  bool has_streams_ = false;  // what the CC cores are for is in the file
  bool in_pieces_ = false;    // some of this execution's entries are in the file already
  // The last execution whose entries are in the file, and all of them in rings_.
  bool has_last_ = false;
  TracedExecution last_;
  uint64_t last_index_ = 0;
  uint64_t lost_ = 0;
  uint64_t executions_ = 0;
};

Result<std::unique_ptr<ModelProfile>> ModelProfile::start(LoadedModel& model,
                                                          const std::string& path) {
  std::unique_ptr<ModelProfile> profile(new ModelProfile(model, path));
  for (const LoadedModel* part : {&model, model.second()}) {
    if (part == nullptr || part->core().trace == nullptr) continue;
    return fail(NRT_INVALID,
                "device {} core {} is profiled already; stop that profile before '{}' is begun",
                part->core().device().index(), part->core().number(), path);
  }
  NEURON_TRY(file, TraceFileWriter::create(path));
  profile->file_ = std::make_shared<TraceFileWriter>(std::move(file));
  // A profile that does not begin leaves no file.
  auto begun = profile->begin();
  if (begun) return profile;
  profile->file_->discard();
  return begun.error();
}

Result<void> ModelProfile::begin() {
  uint32_t number = 0;
  for (LoadedModel* part : {&model_, model_.second()}) {
    if (part == nullptr) continue;
    NEURON_CHECK(write_program(*file_, number, *part, model_.core().index()));
    auto sink = std::make_shared<ProfileSink>(file_, number, *part);
    NEURON_TRY(trace, CoreTrace::create(part->core(), sink));
    part->core().trace = std::move(trace);
    cores_.push_back(&part->core());
    sinks_.push_back(std::move(sink));
    ++number;
  }
  // What the program is reaches the file before it runs, which the process may not outlive.
  return file_->finish();
}

ModelProfile::~ModelProfile() {
  for (Core* core : cores_) core->trace.reset();
}

Result<void> ModelProfile::stop() {
  for (Core* core : cores_) core->trace.reset();
  cores_.clear();
  uint64_t lost = 0, executions = 0;
  for (const auto& sink : sinks_) {
    lost += sink->lost();
    executions = std::max(executions, sink->executions());
  }
  NEURON_CHECK(file_->write(ChunkKind::kEnd, {},
                            format(R"({{"executions":{},"lost":{}}})", executions, lost)));
  NEURON_CHECK(file_->finish());
  if (lost != 0) {
    log_notice(LogComponent::kNrt,
               "the profile '{}' lacks {} events, which the device dropped because this process "
               "did not read them in time; what is shown of its executions has gaps: profile "
               "fewer executions, or on a host with less other load",
               path_, lost);
  }
  return {};
}

}  // namespace neuron::runtime
