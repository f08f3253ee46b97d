// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/debug_streams.h"

#include "runtime/base/environment.h"
#include "runtime/device/core_turn.h"

namespace neuron::runtime {

namespace {

// Takes the rings of a stream from both physical cores.
void end(Core& core) {
  for (Core* part : {&core, core.peer.get()}) {
    if (part == nullptr || part->notes == nullptr) continue;
    part->notes->stop();
    part->notes.reset();
  }
}

}  // namespace

DebugStreams::~DebugStreams() {
  for (auto& [descriptor, notes] : streams_) end(notes->core());
}

Result<int> DebugStreams::connect(Core& core) {
  NEURON_TRY(room, environment_unsigned("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", 65536, 1, 1u << 24));
  NEURON_TRY(turn, CoreTurn::take(core));
  if (core.notes != nullptr) {
    return fail(NRT_INVALID, "the debug stream of virtual core {} has a client already",
                core.index());
  }
  NEURON_TRY(notes, CoreNotes::create(core, room));
  if (core.peer != nullptr) {
    auto second = CoreNotes::create_second(*core.peer, notes);
    if (!second) {
      notes->stop();
      return second.error();
    }
    core.peer->notes = std::move(*second);
  }
  core.notes = notes;
  const std::lock_guard lock(mutex_);
  const int descriptor = notes->descriptor();
  streams_[descriptor] = std::move(notes);
  return descriptor;
}

Result<std::shared_ptr<CoreNotes>> DebugStreams::stream(int descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(descriptor);
  if (found != streams_.end()) return found->second;
  return fail(NRT_INVALID, "descriptor {} is no debug stream", descriptor);
}

Result<void> DebugStreams::close(int descriptor) {
  NEURON_TRY(notes, stream(descriptor));
  Core& core = notes->core();
  NEURON_TRY(turn, CoreTurn::take(core));
  const std::lock_guard lock(mutex_);
  if (streams_.erase(descriptor) == 0 || core.notes != notes) {
    return fail(NRT_INVALID, "descriptor {} was closed meanwhile", descriptor);
  }
  end(core);
  return {};
}

}  // namespace neuron::runtime
