// SPDX-License-Identifier: Apache-2.0
//
// The parts of a Program once its operations are written: buffers, steps of the engines, transfers,
// loops, and the meaning of each counted point of the ordering.
// Callers: Program fills these, NeffEmitter reads them. Plain values, thread-safe. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_PARTS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_PARTS_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/neff/model.h"
#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/draft.h"
#include "tools/compiler/program_builder/ordering.h"

namespace neuron::builder {

enum class BufferKind : uint8_t { kInput, kOutput, kConstant, kTemporary, kTable };

struct BufferInfo {
  std::string name;
  BufferKind kind = BufferKind::kTemporary;
  uint8_t dtype = NEURON_DTYPE_NONE;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::vector<uint8_t> contents;  // Constants
  std::vector<int32_t> list;      // Tables: the buffers whose addresses it holds
};

struct TileInfo {
  std::string name;
  uint32_t parts = 0;
  uint32_t columns = 0;
  uint8_t dtype = NEURON_DTYPE_NONE;
};

// The computation of a transfer; operations are numbers of enum neuron_dma_operation, and the two
// of hw/udma.h that recode.
struct ComputeOptions {
  uint8_t operation = NEURON_DMA_CAST;
  float scale = 1;     // fma
  float constant = 0;  // min, max
  // transpose: of each block of [outer, rows, columns, inner] elements
  std::array<uint32_t, 4> transpose_shape{};
};

struct Transfer {
  uint32_t id = 0;
  unsigned engine = 0;
  std::string queue;
  uint32_t slot = 0;  // DMA agent - kFirstDmaAgent
  BufferAccess to;    // Buffer kOnChip: SBUF
  std::vector<BufferAccess> from;
  ComputeOptions compute;  // operation NEURON_DMA_COPY: none
  static constexpr int32_t kOnChip = 1 << 30;
  static constexpr const char* kOnChipName = "sbuf";  // Its variable in def.json
};

// A buffer of a collective: all of one in HBM, or rows of a tile in SBUF.
struct SharedSide {
  int32_t buffer = -1;  // Transfer::kOnChip: SBUF
  uint64_t offset = 0;  // Bytes in the variable
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint32_t partitions = 0;  // SBUF only
  uint32_t columns = 0;
  uint8_t dtype = NEURON_DTYPE_NONE;
};

// A collective operation, started by a cc_trigger.
struct CollectiveStep {
  neff::Collective operation;  // without its variables
  int32_t input = -1;          // buffers
  int32_t output = -1;
  unsigned engine = 0;
  uint32_t slot = 0;  // DMA agent - kFirstDmaAgent
};

// A field of an instruction that holds the device address of a variable.
struct AddressField {
  uint16_t field = 0;
  int32_t buffer = 0;  // As in BufferAccess
  uint64_t offset = 0;
};

// What begins or ends the body of a loop whose rounds the device decides.
enum class Control : uint8_t { kNone, kWhile, kEndWhile };

struct Step {
  isa::Instruction instruction;
  std::vector<Point> waits;
  std::vector<Advance> advances;
  std::vector<AddressField> addresses;
  bool signals = false;   // Another agent waits for this one
  int32_t transfer = -1;  // Of a prepared ring
  int32_t slot = -1;      // Whose semaphore generated descriptors increment
  int32_t collective = -1;
  int32_t loop = -1;
  Control control = Control::kNone;
  uint32_t while_loop = 0;  // Of a control: its number
  uint32_t label = 0;       // Index of the operation's line
  Point self;               // Its own place in the order, or that of what it moves
};

struct Label {
  std::string section;
  uint32_t line = 0;  // Operation in the section, from 1
  uint32_t tile = 0;  // What it writes; 0 = no tile
  int32_t buffer = -1;
  bool of_file = false;  // The section is a source file, the line one of its lines

  // The file of the line table.
  std::string file(const std::string& program) const {
    return of_file ? section : program + "/" + section;
  }
};

// Steps [first, end) of each engine are repeated.
struct LoopInfo {
  uint32_t rounds = 0;
  std::array<size_t, NEURON_CORE_ENGINES> first{}, end{};
};

// A loop whose rounds the device decides: its body runs as long as the 32-bit word is not 0.
struct WhileLoop {
  AddressField condition;
  std::vector<uint32_t> slots;  // That only its body counts on
};

// The step that a point of an engine stands for; in a loop, in the last round or the one before.
struct StepPoint {
  size_t step = 0;
  bool previous = false;
};

// A semaphore that counts transfers, one in flight at a time.
struct Slot {
  struct Use {
    uint32_t count = 0;  // Transfers up to this one; in a loop, in its first round
    int32_t loop = -1;
    bool previous = false;
  };
  Point last;
  uint32_t transfers = 0;   // Of all rounds
  std::vector<Use> uses;    // By point
  unsigned owner = 0;       // Engine that starts the last one
  bool reserved = false;    // By the loop that is being placed
  int32_t while_loop = -1;  // Whose body alone may use it
};

}  // namespace neuron::builder

#endif
