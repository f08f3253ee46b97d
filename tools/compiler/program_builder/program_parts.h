// SPDX-License-Identifier: Apache-2.0
//
// The parts of a Program once its operations are written: buffers, steps of the engines, transfers,
// loops, and the meaning of each counted point of the ordering.
// Callers: Program fills these, NeffEmitter reads them. Plain values, thread-safe. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_PARTS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_PARTS_H

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/draft.h"
#include "tools/compiler/program_builder/ordering.h"

namespace neuron::builder {

enum class BufferKind : uint8_t { kInput, kOutput, kConstant, kTemporary, kTable, kScratch };

// Gives the bytes of a constant from byte `at` on: as many as `to` has. Called when the file is
// written, in ascending order, once for each byte. An error ends the writing.
using ConstantSource = std::function<runtime::Result<void>(std::span<uint8_t> to, uint64_t at)>;

struct BufferInfo {
  std::string name;
  BufferKind kind = BufferKind::kTemporary;
  uint8_t dtype = NEURON_DTYPE_NONE;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::vector<uint8_t> contents;  // Constants
  std::vector<int32_t> list;      // Tables: the buffers whose addresses it holds
  ConstantSource source;          // Constants whose contents come later
  uint64_t offset = 0;            // In the scratchpad
  int32_t counter = -1;           // Outputs: the buffer whose first word counts what was written
  bool shared = false;            // Temporaries: with the other program of a virtual core
  uint64_t counted_bytes = 0;     // By each unit of that word
};

struct TileInfo {
  std::string name;
  uint32_t parts = 0;
  uint32_t columns = 0;
  uint8_t dtype = NEURON_DTYPE_NONE;
};

// The computation of a transfer, and its class of service; operations are numbers of enum
// neuron_dma_operation, and the two of hw/udma.h that recode.
struct ComputeOptions {
  uint8_t operation = NEURON_DMA_CAST;
  float scale = 1;     // fma: of each source, unless `scales` has one for each
  float constant = 0;  // min, max
  // transpose: of each block of [outer, rows, columns, inner] elements
  std::array<uint32_t, 4> transpose_shape{};
  uint8_t priority = 0;       // 0 is served first; others need generation 4
  std::vector<float> scales;  // fma
};

struct Transfer {
  uint32_t id = 0;
  unsigned engine = 0;
  std::string queue;
  uint32_t slot = 0;   // DMA agent - kFirstDmaAgent
  uint32_t scope = 0;  // In which it counts
  BufferAccess to;     // Buffer kOnChip: SBUF
  std::vector<BufferAccess> from;
  ComputeOptions compute;  // operation NEURON_DMA_COPY: none
  static constexpr int32_t kOnChip = 1 << 30;
  static constexpr const char* kOnChipName = "sbuf";  // Its variable in def.json
};

// Of the queue sets of what happens in the first execution only.
inline constexpr const char* kOnceSuffix = "_once";

// Inside a queue a packet waits for those in front of it, whatever their classes; so each priority
// has queues of its own.
inline std::string queue_name(unsigned engine, const char* what, uint8_t priority) {
  const std::string name = base::format("q{}_{}", isa::engine_name(engine), what);
  return priority == 0 ? name : name + base::format("_priority{}", priority);
}

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
  uint32_t slot = 0;   // DMA agent - kFirstDmaAgent
  uint32_t scope = 0;  // In which it counts
};

// A field of an instruction that holds the device address of a variable.
struct AddressField {
  uint16_t field = 0;
  int32_t buffer = 0;  // As in BufferAccess
  uint64_t offset = 0;
};

// What of the flow of a program a step is, instead of an operation. All engines have these.
enum class Control : uint8_t {
  kNone,
  kWhile,  // Of a loop whose rounds the device decides
  kEndWhile,
  kMeet,  // All work is complete, and known to all; counts begin anew
  kLoop,  // Of a block
  kEndLoop,
  kBranch,
  kElse,
  kEndBranch,
  kCall,
  kFunction,
  kEndFunction,
};

// A part of the program that happens a number of times, or not always. Engines meet in front of it
// and at its end, at the end of each round if it is a loop.
struct Block {
  // A loop: its own index; its rounds, or the index that holds their number.
  uint32_t index = 0;
  uint32_t rounds = 0;
  uint32_t count = 0;
  // A branch: taken where `left` compares so (enum neuron_branch_condition) with `right`.
  uint32_t left = 0;
  uint8_t condition = NEURON_BRANCH_ALWAYS;
  uint32_t right = 0;
  bool once = false;      // Happens in the first execution only
  std::string name;       // A function
  uint32_t function = 0;  // A call: the block of the function
};

struct Step {
  isa::Instruction instruction;
  std::vector<Point> waits;
  std::vector<Advance> advances;
  std::vector<AddressField> addresses;
  bool signals = false;   // Another agent waits for this one
  int32_t transfer = -1;  // Of a prepared ring
  int32_t slot = -1;      // Whose semaphore generated descriptors increment
  int32_t collective = -1;
  uint8_t raises = 0;  // Semaphore of the other core that a `write` increments; 0: none
  int32_t loop = -1;
  Control control = Control::kNone;
  uint32_t block = 0;  // Of a control: its number among those of its kind
  uint32_t scope = 0;  // In which it counts
  // Indexes whose registers rd, ra and rb of the instruction are; 0: none.
  std::array<uint32_t, 3> registers{};
  uint32_t label = 0;  // Index of the operation's line
  Point self;          // Its own place in the order, or that of what it moves
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
  uint32_t rounds = 0;  // The most there can be
  uint32_t index = 0;   // Its own
  uint32_t count = 0;   // The index that holds the number of rounds; 0: it is `rounds`
  std::array<size_t, NEURON_CORE_ENGINES> first{}, end{};
};

// A loop whose rounds the device decides: its body runs as long as the 32-bit word is not 0.
struct WhileLoop {
  AddressField condition;
  std::vector<uint32_t> scopes;  // Of its body
  std::vector<uint32_t> slots;   // That only its body counts on
};

// A part of the program in which semaphores count from 0. When it ends, engines meet, and its
// semaphores are 0 again.
struct Scope {
  uint64_t first = 0, end = UINT64_MAX;  // Its place in the order of the program
  uint32_t part = 0;            // Of the program, 0 is its main part; parts share no semaphores
  std::vector<uint32_t> slots;  // That count in it, or in none
  bool adopts = false;          // Takes slots that scopes around it do not use
  // At most so many semaphores of each engine, and signals that the last of them counts.
  std::array<uint32_t, NEURON_CORE_ENGINES> counted{}, filled{};
};

// Signals that an engine counts in one semaphore: waits compare with 16 bits.
inline constexpr uint32_t kSignalsOfASemaphore = 32768;

// What is cleared where engines meet.
struct Meeting {
  std::vector<uint32_t> scopes;
};

// What an index is.
struct IndexInfo {
  std::string name;   // Of a number
  uint32_t most = 0;  // Its largest value
  bool is_loop = false;
  bool open = true;  // A loop that is being written, or a number
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
    uint32_t scope = 0;
  };
  Point last;
  uint32_t transfers = 0;   // Of all rounds
  std::vector<Use> uses;    // By point
  unsigned owner = 0;       // Engine that starts the last one
  bool reserved = false;    // By the loop that is being placed
  uint32_t scope = 0;       // In which alone it counts
  bool collective = false;  // Of the last one
};

}  // namespace neuron::builder

#endif
