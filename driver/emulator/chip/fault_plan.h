// SPDX-License-Identifier: Apache-2.0
// Faults that an operator or a test plans: what happens, where, and at which event.
//
// Concepts: a plan is text, one JSON object per line; empty lines and lines that begin with # are
// skipped. "at" names the point, "kind" what happens there, "n" the event that it happens at,
// counted from 1 from the moment at which the fault is armed; the other fields narrow down which
// events count (chip, core, engine, queue, address, bytes), absent = any. Counting follows the
// model's order of events, so a plan does the same at every run. driver/emulator/README.md has the
// table of points and kinds. Callers: ChipFaults, the service, the control channel; values only.
// Fails: parse_fault_plan returns false with a sentence that names line and field.
#ifndef DRIVER_EMULATOR_CHIP_FAULT_PLAN_H
#define DRIVER_EMULATOR_CHIP_FAULT_PLAN_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuron::chip {

enum class FaultPoint : uint8_t {
  kInstruction,  // "engine.instruction": an engine is about to execute an instruction
  kDescriptor,   // "dma.descriptor": a DMA engine is about to move what a descriptor names
  kHbm,          // "hbm": DMA reads HBM, or an engine fetches code from it
  kSram,         // "sram": a core's memory; counts as kInstruction does
  kChip,         // "chip": the host accesses a register
  kLink,         // "link": a link between chips; no events
};

enum class FaultKind : uint8_t {
  kHang,           // the engine stops issuing until its core is reset
  kError,          // the DMA engine gives up on the descriptor
  kCorrectable,    // the bytes are right, and a counter increases
  kUncorrectable,  // an access that reads the bytes faults
  kRepairable,     // the same, until the device is reset
  kOff,            // the chip is gone: all registers read all ones
  kDown,           // the link carries nothing
};

struct FaultSpec {
  static constexpr int kAny = -1;

  FaultPoint at = FaultPoint::kChip;
  FaultKind kind = FaultKind::kOff;
  int chip = kAny;  // device number; for a link one of its ends
  int peer = kAny;  // the other end of a link
  int node = kAny;  // of an UltraServer, that each end of a link is on; kAny: the node of the plan
  int peer_node = kAny;
  int core = kAny;
  int engine = kAny;  // of the core, or DMA engine of the chip
  int queue = kAny;
  uint64_t address = 0;  // device address; with bytes = 0: all of HBM
  uint64_t bytes = 0;
  uint64_t n = 1;
  uint64_t count = 1;  // number of events in a row at which it happens (correctable errors)

  // The line of a plan that describes this fault.
  std::string text() const;
};

// "PE", "Activation", ...: engines as plans name them.
const char* engine_label(unsigned engine);

// Every point with every kind that may happen there, in the order of the enumerations.
std::vector<std::pair<FaultPoint, FaultKind>> known_faults();

// Appends nothing unless all lines are right.
bool parse_fault_plan(std::string_view text, std::vector<FaultSpec>& plan, std::string& error);
// Reads a plan from a file. False, with a sentence, if it cannot be read or is wrong.
bool read_fault_plan(const std::string& path, std::vector<FaultSpec>& plan, std::string& error);

}  // namespace neuron::chip

#endif
