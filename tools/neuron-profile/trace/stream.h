// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of one CC core: the collectives of its program, and what each of its
// instructions is for.
// Callers: everything that shows a profile. Thread-safe: values. Fails: NRT_INVALID for a
// description that cannot be read; an instruction that it does not know has no note.
#ifndef TOOLS_NEURON_PROFILE_TRACE_STREAM_H
#define TOOLS_NEURON_PROFILE_TRACE_STREAM_H

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/ntff/trace_file.h"

namespace neuron::profile {

struct Collective {
  std::string name;       // "all_reduce of 1024 float32 (add)"
  std::string algorithm;  // "ring"
  std::string operation, type;
  uint64_t count = 0;           // elements
  std::vector<uint32_t> ranks;  // of the group
};

struct Stream {
  uint32_t number = 0;    // of the CC core in its core
  uint32_t rank = 0;      // that the profile is of
  uint32_t prologue = 0;  // instructions of the runtime in front of the program
  std::vector<Collective> collectives;
  std::vector<ntff::StreamNote> notes;  // one for each instruction of the program

  // Of a chunk of kind kStream.
  static runtime::Result<Stream> parse(std::string_view document);
  // Of a chunk of kind kNotes.
  void take_notes(const std::vector<uint8_t>& bytes);

  // Null: an instruction of the runtime, or one that the profile does not describe.
  const ntff::StreamNote* note(uint32_t pc) const;
  // Null: it belongs to none.
  const Collective* collective(const ntff::StreamNote& note) const {
    return note.collective < collectives.size() ? &collectives[note.collective] : nullptr;
  }
  // "all_reduce of 1024 float32 (add)"; empty for an instruction of none.
  std::string collective_name(uint32_t pc) const;
  // "sends 4096 bytes to rank 1, when rank 1 takes them"
  std::string text(uint32_t pc) const;
};

// Whether a note is of a transfer to another rank.
bool sends(const ntff::StreamNote& note);
// Whether an instruction waits for another rank.
bool waits_for_rank(const ntff::StreamNote& note);

}  // namespace neuron::profile

#endif
