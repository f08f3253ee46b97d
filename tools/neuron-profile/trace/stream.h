// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of one CC core: the collectives of its program, and what each of its
// instructions is for.
// Callers: everything that shows a profile. Thread-safe: values. Fails: NRT_INVALID for a
// description that cannot be read; an instruction that it does not know has no note.
#ifndef TOOLS_NEURON_PROFILE_TRACE_STREAM_H
#define TOOLS_NEURON_PROFILE_TRACE_STREAM_H

#include <optional>
#include <span>
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
  uint32_t group = 0;           // its number among the groups of the model
  // False: the file is of a version that does not say the sizes.
  bool sized = false;
  uint64_t input_bytes = 0, output_bytes = 0;  // of this rank's buffers
  uint64_t bytes = 0;                          // of the operation
  // Bytes of the operation by a time in picoseconds, in bytes a second; 0 for no time.
  double algorithm_rate(uint64_t time) const;
  // That times what each rank must send of a byte, as nccom-test counts it.
  double bus_rate(uint64_t time) const;
};

struct Stream {
  uint32_t number = 0;    // of the CC core in its core
  uint32_t rank = 0;      // that the profile is of
  uint32_t prologue = 0;  // instructions of the runtime in front of the program
  uint64_t go = 0;        // where engines write to begin the next collective; 0: not known
  std::vector<Collective> collectives;
  std::vector<ntff::StreamNote> notes;  // one for each instruction of the program
  std::vector<ntff::StreamWait> waits;  // two for each

  // Of a chunk of kind kStream.
  static runtime::Result<Stream> parse(std::string_view document);
  // Of a chunk of kind kNotes.
  void take_notes(const std::vector<uint8_t>& bytes);
  // Of a chunk of kind kWaits.
  void take_waits(const std::vector<uint8_t>& bytes);

  // Null: an instruction of the runtime, or one that the profile does not describe.
  const ntff::StreamNote* note(uint32_t pc) const;
  // The two waits of an instruction; none of one that the profile does not describe.
  std::span<const ntff::StreamWait> waits_of(uint32_t pc) const;
  // What an instruction waited for last, which the semaphore `cell` says; nothing if it did not
  // wait. Of a file that does not say it, the wait for another rank.
  std::optional<ntff::StreamWait> wait_of(uint32_t pc, uint32_t cell) const;
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
// Whether a wait is for another rank.
bool is_for_rank(const ntff::StreamWait& wait);
// Whether it is for a message of another rank.
bool is_arrival(const ntff::StreamWait& wait);

}  // namespace neuron::profile

#endif
