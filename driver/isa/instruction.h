// SPDX-License-Identifier: Apache-2.0
// Decoded form of one 128-byte instruction (include/hw/isa.h) and the conversions between both.
//
// Callers: the emulated sequencer (decode), the loader (decode + check), the program builder
// (encode), disassembler and packager. Plain values, no allocation in decode/encode/check,
// thread-safe. Fails: decode never rejects; `check` says which field breaks which rule.
// encode(decode(b)) == b for every b that check accepts.
#ifndef DRIVER_ISA_INSTRUCTION_H
#define DRIVER_ISA_INSTRUCTION_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "driver/isa/generation.h"
#include "hw/fault.h"
#include "hw/isa.h"

namespace neuron::isa {

using Bytes = std::span<const std::byte, NEURON_INSTRUCTION_BYTES>;
using MutableBytes = std::span<std::byte, NEURON_INSTRUCTION_BYTES>;

struct Wait {
  uint8_t index = 0;
  uint8_t condition = NEURON_WAIT_NONE;
  bool event = false;
  bool is_register = false;  // value is a register number
  uint16_t value = 0;
};

struct Update {
  uint8_t index = 0;
  uint8_t operation = NEURON_UPDATE_NONE;
  bool at_complete = false;
  bool is_register = false;
  uint16_t value = 0;
};

struct Binding {
  uint8_t reg = 0;
  uint8_t item = 0;
  uint8_t operand = 0;
  uint8_t mode = NEURON_BIND_UNUSED;
};

// Where an indirect operand has its offsets: in SBUF, as many partitions as the operand.
struct IndexPlace {
  uint32_t base = 0;  // byte offset in the partition
  uint8_t start = 0;  // first partition, a multiple of 32
  uint8_t dtype = NEURON_DTYPE_NONE;
  bool operator==(const IndexPlace&) const = default;
};

struct Operand {
  uint32_t base = 0;  // byte offset in the partition
  uint8_t start = 0;
  uint8_t parts = 0;
  uint8_t dtype = NEURON_DTYPE_NONE;
  uint8_t space = NEURON_SPACE_ABSENT;
  uint8_t ndim = 0;
  bool saturate = false;
  bool indirect = false;
  uint8_t bias = 0;
  std::array<uint16_t, 4> size{};  // innermost first
  std::array<int16_t, 4> step{};   // elements
  bool present() const { return space != NEURON_SPACE_ABSENT; }
  // Elements per partition. In bytes that no check has seen, the field may say up to 7 dimensions.
  uint64_t elements() const {
    uint64_t n = 1;
    for (int d = 0; d < ndim && d < 4; ++d) n *= size[d];
    return n;
  }
  // Of an indirect operand, which keeps the place of its index in dimension 3.
  IndexPlace index() const {
    return {static_cast<uint16_t>(step[3]) | (size[3] & 3u) << 16,
            static_cast<uint8_t>((size[3] >> 2 & 3u) * 32),
            static_cast<uint8_t>(size[3] >> 4 & 0x3Fu)};
  }
  // `place` is one that the fields can hold.
  void set_index(const IndexPlace& place) {
    indirect = true;
    step[3] = static_cast<int16_t>(place.base & 0xFFFFu);
    size[3] = static_cast<uint16_t>((place.base >> 16 & 3u) | place.start / 32u << 2 |
                                    static_cast<unsigned>(place.dtype) << 4);
  }
};

// Affine pattern in the place of src1 (iota): value = offset + sum of step[d] * index[d].
struct Pattern {
  std::array<int32_t, 4> step{};
  std::array<uint16_t, 4> size{};  // innermost first; unused: size = step = 0
};

struct Scalar {
  uint32_t value = 0;
  uint8_t kind = NEURON_SCALAR_ABSENT;
  uint8_t dtype = NEURON_DTYPE_NONE;
  uint8_t space = 0;
  uint8_t start = 0;
  bool present() const { return kind != NEURON_SCALAR_ABSENT; }
};
// The number itself; of a negative one the 32 bits.
inline Scalar immediate(int64_t value) {
  return {.value = static_cast<uint32_t>(value),
          .kind = NEURON_SCALAR_IMMEDIATE,
          .dtype = NEURON_DTYPE_U32};
}

struct AddressBody {
  uint64_t addr = 0;
  int32_t stride = 0;
  uint16_t count = 0;
};
struct LoopBody {
  int32_t step = 0;
  uint32_t length = 0;
};
struct DmaTriggerBody {
  uint64_t m2s = 0;
  uint64_t s2m = 0;
  uint32_t stride = 0;
  uint16_t mask = 0;
  uint8_t queue = 0;
  uint32_t block = 0;
  std::array<uint16_t, 16> m2s_count{};
  std::array<uint16_t, 16> s2m_count{};
};

struct DmaDimension {
  uint32_t size = 0;
  int32_t step = 0;  // bytes
};
// dma.ctl of dma_generate, dma_gather, dma_scatter.
struct DmaControl {
  uint8_t operation = 0;  // enum neuron_dma_operation
  uint8_t from_type = 0, to_type = 0;
  bool accumulate = false, skip = false;
  uint8_t queue = 0;
  bool generator = false;
  uint8_t priority = 0;
  uint16_t mask = 0;
  uint8_t semaphore = 0;
  bool signal = false;
};
struct DmaGenerateBody {
  uint64_t to = 0, from = 0;
  std::array<DmaDimension, 4> to_dims{}, from_dims{};  // innermost first
  uint32_t scale = 0;                                  // bits of the fp32 factor or constant
  uint32_t limit = 0;
};
struct DmaIndirectBody {
  uint64_t base = 0;
  uint32_t row_bytes = 0, row_step = 0, rows = 0;
};

// Operation words, unpacked; only the one of the opcode's group is meaningful.
struct VectorOp {
  uint8_t op0 = 0, op1 = 0;
  bool rev0 = false, rev1 = false;
  uint8_t reduce = 0, reduce_command = 0;
  bool negate = false;
  uint8_t axes = 0;
  bool invert = false;
  uint32_t imm = 0;
};
// Group 5 uses VectorOp::op0 and imm as well.
struct PoolOp {
  uint8_t elements = 0;  // log2 of the elements per index
  uint16_t count = 0;    // valid indices; K of topk
};
struct ActOp {
  uint8_t function = 0, table_set = 0, reduce = 0, reduce_command = 0, pre = 0;
  bool rev0 = false, rev1 = false;
  uint32_t param = 0;
};
struct PeOp {
  uint8_t row = 0, column = 0, rows = 0, columns = 0, mode = 0;
  bool accumulate = false, swap = false, onezero_moving = false, onezero_stationary = false;
  uint8_t quarter = 0;  // of the scale rows; mx only
};
struct FlowOp {
  uint8_t rd = 0, ra = 0, rb = 0;
  bool imm = false;
  uint8_t alu = 0, condition = 0;
  bool is_unsigned = false;
  int32_t target = 0;
};

struct Instruction {
  uint16_t opcode = NEURON_OP_NOP;
  uint8_t isa = NEURON_ISA_VERSION;
  uint8_t engines = 0;
  bool trace = false, brk = false, drain = false, nan = false;
  uint8_t rounding = 0, size = 0;
  uint32_t debug = 0;
  std::array<Wait, 2> wait{};
  std::array<Update, 2> update{};
  std::array<Binding, 4> bind{};
  Operand dst, src0, src1;
  Pattern pattern;  // iota; shares its place with src1
  Scalar scalar0, scalar1;
  AddressBody address;       // write, load, store
  LoopBody loop;             // loop
  DmaTriggerBody trigger;    // dma_trigger
  DmaGenerateBody generate;  // dma_generate
  DmaIndirectBody indirect;  // dma_gather, dma_scatter; with dst = SBUF side, src0 = index
  DmaControl dma;            // dma_generate, dma_gather, dma_scatter
  std::array<uint8_t, NEURON_SHUFFLE_ROWS> shuffle{};  // stream_shuffle
  VectorOp vector;  // groups 3 and 5 (iota: imm = channel multiplier)
  PoolOp pool;
  ActOp act;
  PeOp pe;
  FlowOp flow;
  uint8_t group() const { return opcode >> 8; }
};

// The result of check(). code == NEURON_FAULT_NONE: no violation.
struct Violation {
  uint8_t code = NEURON_FAULT_NONE;
  uint8_t rule = 0;       // R1..R9 of the operand rules, 0 = none
  uint8_t offset = 0;     // byte offset in the instruction
  uint8_t operand = 0;    // 0 dst, 1 src0, 2 src1
  uint32_t value = 0;     // offending value
  const char* what = "";  // static text: the rule in words, with what was expected
  explicit operator bool() const { return code != NEURON_FAULT_NONE; }
};

Instruction decode(Bytes bytes);
void encode(const Instruction& instruction, MutableBytes bytes);

// Structure of the raw bytes: reserved bits, enums, opcode, generation, engine mask
// (NEURON_FAULT_ISA_VERSION .. OP_NOT_ALLOWED). `engine` is the fetching engine.
Violation check_encoding(Bytes bytes, unsigned engine, const Limits& limits);
// Operand rules on the decoded form with all register bindings substituted (R1-R5, R8, ranges,
// shapes, dtypes).
Violation check_operands(const Instruction& instruction, unsigned engine, const Limits& limits);

// The violation as one sentence: which part of the instruction, the rule, what was found.
std::string describe(const Violation& violation, const Instruction& instruction);

// One line of assembly in the syntax of the device specification, lossless for what check accepts.
// With `engine`, an engine mask of just that engine is left out (as below an `.engine` directive).
std::string disassemble(const Instruction& instruction, int engine = -1);

// Names: "PE", "f32", "exp", "add", "tensor_tensor", "OPERAND_RANGE" ...; "?" for an unknown value.
const char* engine_name(unsigned engine);
const char* dtype_name(unsigned dtype);
const char* activation_name(unsigned function);
const char* alu_name(unsigned op);
const char* step_name(unsigned steps);  // of activate2 (op.act pre): "mul", "mul_add"
const char* opcode_name(unsigned opcode);
const char* fault_name(unsigned code);
// One sentence for an operator: what the fault means and what to do.
const char* fault_text(unsigned code);
// Bytes of one element; 0 for NONE and unknown.
unsigned dtype_bytes(unsigned dtype);

}  // namespace neuron::isa

#endif
