// SPDX-License-Identifier: Apache-2.0
//
// The debug streams of a session, by the descriptor that a client polls: one for each virtual core,
// with what the programs of all its physical cores say.
// Callers: nrt_debug_client_*. Thread-safe: all functions. Closing the session ends the streams.
// Fails: NRT_INVALID for a core that has a client, or a descriptor that is no stream.
#ifndef RUNTIME_PROFILE_DEBUG_STREAMS_H
#define RUNTIME_PROFILE_DEBUG_STREAMS_H

#include <map>
#include <memory>
#include <mutex>

#include "runtime/device/core_notes.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class DebugStreams final : public SessionPart {
 public:
  static DebugStreams& of(Session& session) { return session.debug.of<DebugStreams>(); }
  ~DebugStreams() override;

  // Returns the descriptor.
  Result<int> connect(Core& core);
  Result<void> close(int descriptor);
  Result<std::shared_ptr<CoreNotes>> stream(int descriptor);

 private:
  std::mutex mutex_;  // streams_
  std::map<int, std::shared_ptr<CoreNotes>> streams_;
};

}  // namespace neuron::runtime

#endif
