// SPDX-License-Identifier: Apache-2.0
//
// A NEFF as a program: the data that the loader puts onto a device. model_reader.h reads and checks
// it. Callers: runtime/model (loading), tools. Thread-safe: values. Owns everything except
// Variable::contents, which points into the container (or, for an uncompressed payload, into the
// caller's file bytes): upload constants before those bytes are freed. Cannot fail.
#ifndef RUNTIME_NEFF_MODEL_H
#define RUNTIME_NEFF_MODEL_H

#include <ccom/ccom.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw/address_map.h"
#include "hw/isa.h"
#include "hw/neff_program.h"
#include "runtime/neff/compatibility.h"
#include "runtime/neff/container.h"
#include "runtime/neff/debug_info.h"

namespace neuron::neff {

struct ModelLimits {
  uint32_t json_bytes = 256u << 20;
  uint32_t json_depth = 32;
  uint32_t subgraphs = 64;
  uint32_t tensors = 4096;        // Inputs plus outputs.
  uint32_t variables = 65536;     // Per subgraph.
  uint32_t transfers = 1u << 20;  // `dma` entries per engine.
  uint32_t instructions = NEURON_PROGRAM_MAX;
  uint64_t variable_bytes = 1ull << 40;
  uint64_t transfer_bytes = 1ull << 32;  // Moved by one `dma` entry.
  uint64_t transfer_rows = 1ull << 20;   // Contiguous runs of one side of it.
  uint64_t engine_rows = 1ull << 24;     // Of all entries of one engine.
  uint32_t json_values = 32u << 20;
};

// An input or output of the whole model.
struct TensorInfo {
  std::string name;
  uint32_t subgraph = 0;        // Index into Model::subgraphs
  uint32_t variable = 0;        // Index into Subgraph::variables
  uint8_t dtype = 0;            // enum neuron_dtype, the same numbers as nrt_dtype_t.
  std::vector<uint32_t> shape;  // Empty: a scalar.
  uint64_t size = 0;            // Bytes; product of the shape times the element.
  std::string format;           // "NC", "NHWC" ...; for people.
  bool timeseries = false;
};

enum class VariableKind : uint8_t {
  kInput,
  kOutput,
  kFile,         // Constant: `contents`.
  kTmpBuf,       // HBM, private to the loaded model.
  kVirtual,      // HBM, in the scratchpad that models share, at `backing_offset`.
  kPointer,      // HBM; holds the device address of variable `referenced`.
  kStateBuffer,  // SBUF or PSUM at byte `core_offset` of the core window (key "core_offset", ours,
                 // default 0: a variable of 32 MiB at 0 is all of SBUF, partitions 256 KiB apart).
  kDgeTable,     // HBM; a table of the variables in `list`.
};

// Where a program says how much of an output it has written: a word of 32 bits that counts units.
// Key "true_size" of an output, ours: {"var_id": of a tmp-buf, "unit": bytes}.
struct TrueSize {
  uint32_t counter = 0;  // Index into variables
  uint64_t unit = 1;     // Bytes
};

struct Variable {
  std::string name;
  VariableKind kind = VariableKind::kTmpBuf;
  uint32_t id = 0;  // var_id, unique in the subgraph.
  uint64_t size = 0;
  uint64_t alignment = 0;  // 0 or a power of two.
  bool alternate_fabric = false;
  bool compressed = false;  // kFile: `contents` are streams (hw/compressed_stream.h), one behind
                            // the other, whose content has `size` bytes in all.
  bool shared = false;      // kTmpBuf: one place for both cores of a logical core of two.
  std::string file_name;    // kFile: the member, with its directory.
  Bytes contents;           // kFile: exactly `size` bytes, unless they are compressed.
  uint64_t backing_offset = 0;        // kVirtual
  uint64_t core_offset = 0;           // kStateBuffer
  uint32_t referenced = 0;            // kPointer: index into variables
  std::vector<uint32_t> list;         // kDgeTable: indices into variables
  std::optional<TrueSize> true_size;  // kOutput; absent: all of it is written
};

enum class QueueKind : uint8_t { kIn, kOut, kData, kEmbeddingUpdate, kDynamic };

// A queue set: one hardware queue number on `num_queues` DMA engines.
struct QueueSet {
  std::string name;
  QueueKind kind = QueueKind::kData;
  uint32_t num_queues = 1;             // 1..16
  std::optional<uint8_t> owner;        // enum neuron_engine
  std::vector<std::string> instances;  // Further ring sets, each with transfers of its own.
  // Incremented by a transfer that names no semaphore: every queue increments `semaphore`, or queue
  // q increments semaphore_set[q] (which then has num_queues numbers).
  std::vector<uint8_t> semaphore_set;
  std::optional<uint8_t> semaphore;
  uint32_t ring_descriptors = 1024;  // kDynamic: slots of each ring (key ours).
  bool alternate_fabric = false;
};

struct Semaphore {
  std::string name;
  uint8_t number = 0;  // NEURON_SEM_PROGRAM_FIRST.._LAST, or NEURON_SEM_PAIR_FIRST.._LAST (which
                       // the other core of a virtual core of two raises), each once.
};

enum class DmaOperation : uint8_t {
  kCopy,
  kCast,
  kFma,
  kAdd,
  kMin,
  kMax,
  kTranspose,
  kCompress,    // One stream (hw/compressed_stream.h) of all bytes of `from`, and zeros behind it.
  kDecompress,  // The content, as long as `to`, of the stream that `from` begins with.
};

// One side of a transfer: bytes of a variable. Dimension 0 is innermost and contiguous: sizes[0] is
// in bytes, steps[0] is 1; the other sizes count, the other steps are in bytes. Every run lies in
// the variable; for a state buffer it lies in the existing bytes of one partition.
struct DmaAccess {
  uint32_t variable = 0;  // Index into Subgraph::variables
  uint64_t offset = 0;
  uint8_t dimensions = 1;  // 1..4
  std::array<uint64_t, 4> sizes{0, 1, 1, 1};
  std::array<int64_t, 4> steps{1, 0, 0, 0};
  uint8_t dtype = NEURON_DTYPE_U8;
  float scale = 1.0f;  // Of a source of kFma: its own, or the transfer's.

  uint64_t run_bytes() const { return sizes[0]; }
  uint64_t runs() const { return sizes[1] * sizes[2] * sizes[3]; }
  uint64_t bytes() const { return run_bytes() * runs(); }
};

// One entry of the `dma` list of <ENGINE>.json: what one execution of one dma_trigger moves. The
// ring of a queue set holds its transfers in the order of the list. A trigger with block id N moves
// the next of them. All transfers with that id (in the same function) have equally many
// descriptors.
struct DmaTransfer {
  uint32_t id = 0;
  uint32_t queue = 0;                // Index into Subgraph::queues
  std::string instance;              // Empty: the default ring set of the queue set.
  std::optional<uint32_t> function;  // Index into EngineProgram::entries; absent: the main program.
  bool starts_section = false;       // All descriptors go to the first queue of the set.
  std::optional<uint8_t> event;      // Set after the transfer, which uses the first queue only.
  std::optional<uint8_t> semaphore;  // Incremented by every queue of the set after the transfer.
  // Likewise on the other core of a virtual core of two: NEURON_SEM_PAIR_FIRST.._LAST.
  std::vector<uint8_t> remote_semaphores;
  uint8_t priority = 0;  // Class of service of the packets, 0 is served first.

  DmaOperation operation = DmaOperation::kCopy;  // For kCopy: one source, as many bytes as `to`.
  std::vector<DmaAccess> from;                   // 1..16
  DmaAccess to;
  float scale = 1.0f;     // kFma
  uint32_t constant = 0;  // kMin, kMax: bits of constant_dtype; absent: the infinity that
                          // changes nothing
  uint8_t constant_dtype = NEURON_DTYPE_NONE;
  // kTranspose: [outer, rows, columns, inner]. Both sides are streams of elements: `from` is an
  // array of this shape, `to` one of [outer, columns, rows, inner].
  std::array<uint32_t, 4> transpose_shape{};
  uint32_t transpose_element_bytes = 0;  // 1, 2, 4 or 8
};

// Names a place in the code; `length` counts instructions.
struct ProgramEntry {
  std::string name;
  uint32_t pc = 0;
  uint32_t length = 0;
  uint32_t kind = NEURON_ENTRY_MAIN;  // enum neuron_bin_entry_kind
};

// Bytes of the code that depend on addresses chosen when the model is loaded. pc, field and width
// lie in the code, which is zero at these bytes. The symbol exists (a variable that is not an input
// or output, a block id, a queue set, a semaphore, an entry, "self"; of a virtual core of two also
// "peer", and "peer:NAME" for a semaphore of the other core's subgraph), except symbols of another
// rank or of a collective core, which only the loader can resolve.
struct Relocation {
  uint32_t pc = 0;
  uint16_t field = 0;  // Byte offset in the instruction.
  uint8_t kind = 0;    // enum neuron_bin_reloc_kind
  uint8_t width = 0;   // 1, 4, 8; 0: the whole body.
  std::string symbol;
  int64_t addend = 0;
  // Index of the symbol: variables, queues, semaphores, entries; for NEURON_RELOC_DMA_BLOCK the
  // first transfer with that id in `dma`; for "peer:NAME" into the semaphores of the other
  // subgraph. kNoTarget for NEURON_RELOC_CORE, _PEER and names with "cc:".
  uint32_t target = 0;
  bool of_peer() const { return symbol.starts_with("peer:"); }
};
inline constexpr uint32_t kNoTarget = UINT32_MAX;

// True if a relocation of kind NEURON_RELOC_QUEUE and width 1 goes into the middle of dma.ctl.
bool is_dma_control(const Relocation& relocation, Bytes code);

struct SourceLine {
  uint32_t debug = 0;  // Ascending
  uint32_t line = 0;
  uint16_t column = 0;
  std::string file;
};

// Members of the file, with their directory.
struct DveTableFiles {
  std::string control;
  std::string datapath;
  std::string opcode;
};

struct EngineProgram {
  uint8_t engine = 0;  // enum neuron_engine
  uint8_t generation = 2;
  std::vector<uint8_t> code;  // Whole instructions; empty: the subgraph does not use this engine.
  std::vector<ProgramEntry> entries;  // entries[main] is the only one of kind NEURON_ENTRY_MAIN.
  uint32_t main = 0;
  std::vector<Relocation> relocations;
  std::vector<SourceLine> lines;
  std::vector<DmaTransfer> dma;
  std::vector<std::string> activation_function_sets;  // Activation only; carried.
  std::vector<DveTableFiles> dve_tables;              // DVE only; carried.

  uint32_t instructions() const {
    return static_cast<uint32_t>(code.size() / NEURON_INSTRUCTION_BYTES);
  }
};

// Program of a collective core.
struct CollectiveProgram {
  EngineProgram program;
  uint32_t stream = 0;
};

// Where a collective's buffer lies in SBUF. Byte b of the buffer is in row b / row_bytes. The first
// rows lie one in each of `partitions` partitions, beginning with the partition of the buffer's
// offset. The next rows lie behind them in the same partitions. So consecutive tiles of the buffer
// lie side by side in SBUF.
struct RowsOfSbuf {
  uint32_t row_bytes = 0;    // 0: the buffer is in HBM
  uint32_t partitions = 0;   // 1..128
  uint64_t core_offset = 0;  // of byte 0, in the core's window

  bool present() const { return row_bytes != 0; }
  uint32_t first_partition() const {
    return static_cast<uint32_t>(core_offset / NEURON_SBUF_PARTITION_STRIDE);
  }
  // Of byte 0 in its partition.
  uint64_t first_byte() const { return core_offset % NEURON_SBUF_PARTITION_STRIDE; }
};

// A collective operation among the ranks that run the same program, each on its own data. The
// collective core of its stream executes it when an engine triggers it (cc_trigger): the n-th
// trigger of a stream in an execution starts the n-th of its collectives, in the order of the list.
// Buffers are temporaries or rows of SBUF: their addresses are known to the other ranks from
// loading on.
struct Collective {
  ccom_operation_t operation = CCOM_BARRIER;
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  uint32_t root = 0;    // in its group
  uint64_t count = 0;   // elements, as in ccom_collective_t
  uint32_t input = 0;   // index into variables; kNoTarget: none
  uint32_t output = 0;  // likewise
  uint64_t input_offset = 0;
  uint64_t output_offset = 0;
  RowsOfSbuf input_rows;
  RowsOfSbuf output_rows;
  // Ranks that work together; each rank of the job is in at most one. Empty: all, as one group.
  std::vector<std::vector<uint32_t>> groups;
  std::vector<ccom_pair_t> pairs;  // send_receive, permute; of ranks in the group
  // For operations whose lengths differ between ranks; as in ccom_device_collective_t.
  std::vector<uint64_t> counts, displacements, receive_displacements;
  uint32_t stream = 0;               // below CCOM_MAX_STREAMS
  std::optional<uint8_t> semaphore;  // a semaphore of the core; it gets semaphore_add at the end
  uint16_t semaphore_add = 1;
};

// Bytes of the input and output of a collective among so many ranks; both are 0 for a barrier.
struct CollectiveBytes {
  uint64_t input = 0;
  uint64_t output = 0;
};
CollectiveBytes collective_bytes(const Collective& collective, uint64_t ranks);
const char* collective_name(ccom_operation_t operation);
const char* collective_type_name(ccom_type_t type);
const char* collective_algorithm_name(ccom_algorithm_t algorithm);
const char* collective_reduction_name(ccom_reduction_t reduction);
uint64_t collective_type_bytes(ccom_type_t type);

// What runs on one physical core.
struct Subgraph {
  std::string name;  // "sg00"
  std::vector<Variable> variables;
  std::vector<QueueSet> queues;
  std::vector<Semaphore> semaphores;
  std::array<EngineProgram, NEURON_CORE_ENGINES> engines;  // By enum neuron_engine
  std::vector<CollectiveProgram> collectives;
  std::vector<Collective> operations;
  DebugInfo debug;
};

struct Model {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string target;  // "trn1"
  uint32_t generation = 2;
  uint32_t lnc = 1;
  std::vector<TensorInfo> inputs;   // In the order of the file.
  std::vector<TensorInfo> outputs;  // A name in both lists is one buffer.
  std::vector<Subgraph> subgraphs;  // At least one
  std::vector<std::string> notes;   // Ignored keys and other remarks, one sentence each.
};

// "float32" -> NEURON_DTYPE_F32; NEURON_DTYPE_NONE for an unknown name.
uint8_t dtype_from_name(std::string_view name);
const char* dtype_name(uint8_t dtype);
uint32_t dtype_bytes(uint8_t dtype);

// "PE", "Activation", "Pool", "DVE", "SP", "CC"; NEURON_ENGINE_HOST for an unknown name.
uint8_t engine_from_name(std::string_view name);
const char* engine_name(uint8_t engine);

}  // namespace neuron::neff

#endif
