// SPDX-License-Identifier: Apache-2.0
// Instruction to text. Every field has a spelling, and fields with their default are left out, so
// that two different accepted instructions never read the same.
#include <bit>
#include <cinttypes>

#include "driver/isa/line.h"
#include "driver/isa/opcode_table.h"

namespace neuron::isa {
namespace {

constexpr const char* kCompare[] = {"?", ">=", "==", ">", "<=", "<", "!=", "?"};
constexpr const char* kBranch[] = {"always", "eq", "ne", "lt", "le", "gt", "ge", "?"};
constexpr const char* kReduceCommand[] = {"idle",        "reset", "reduce", "reset_reduce",
                                          "load_reduce", "?5",    "?6",     "?7"};
constexpr const char* kItem[] = {"base",  "parts", "start", "scalar", "size0", "size1",
                                 "size2", "size3", "step0", "step1",  "step2", "step3",
                                 "?12",   "?13",   "?14",   "?15"};
constexpr const char* kOperand[] = {"dst", "src0", "src1", "?3"};

// True for a binding that is printed inside its operand: slot 0, added to a base.
bool is_inline(const Binding& bind) {
  return bind.item == NEURON_BIND_BASE &&
         (bind.mode == NEURON_BIND_ADD || bind.mode == NEURON_BIND_ADD_ELEMENTS);
}

// True if the operand bytes hold a body instead; its bound addresses are printed by name.
bool has_body(const Instruction& i) {
  return i.group() <= 1 || i.group() == 7 || i.opcode == NEURON_OP_LOAD_TABLE ||
         i.opcode == NEURON_OP_CUSTOM_OPERATOR || i.opcode == NEURON_OP_DMA_TRIGGER ||
         i.opcode == NEURON_OP_DMA_GENERATE;
}

void tensor(Line& line, const Instruction& i, const Operand& operand, unsigned which) {
  const char* space = operand.space == NEURON_SPACE_PSUM ? "psum" : "sbuf";
  line.addf("%s[%u:%u, 0x%" PRIX32, space, operand.start, operand.parts, operand.base);
  const Binding& bind = i.bind[0];
  if (bind.operand == which && is_inline(bind)) {
    line.addf("+r%u%s", bind.reg, bind.mode == NEURON_BIND_ADD_ELEMENTS ? "*e" : "");
  }
  line.addf("] %s", dtype_name(operand.dtype));
  if (operand.bias) line.addf("/%u", operand.bias);
  if (operand.saturate) line.add("/sat");
  line.add(" [");
  uint64_t contiguous = 1;
  std::array<bool, 4> plain{};
  const int dimensions = operand.ndim > 4 ? 4 : operand.ndim;  // More are never accepted
  for (int d = 0; d < dimensions; ++d) {
    plain[d] = operand.step[d] >= 0 && static_cast<uint64_t>(operand.step[d]) == contiguous;
    contiguous *= operand.size[d];
  }
  for (int d = dimensions - 1; d >= 0; --d) {
    line.addf("%u", operand.size[d]);
    if (!plain[d]) line.addf(":%d", operand.step[d]);
    if (d > 0) line.add(", ");
  }
  if (operand.indirect) {
    const IndexPlace index = operand.index();
    line.addf(" by &sbuf[%u, 0x%" PRIX32 "] %s", index.start, index.base, dtype_name(index.dtype));
  }
  line.add("]");
}

// `raw`: in control and flow a number without a type is 32 bits, so that an f32 shows its type.
void scalar(Line& line, const char* name, const Scalar& s, bool raw = false) {
  if (!s.present()) return;
  switch (s.kind) {
    case NEURON_SCALAR_IMMEDIATE:
      line.key("%s=%s", name, scalar_value(s.value, s.dtype).c_str());
      break;
    case NEURON_SCALAR_REGISTER:
      line.key("%s=r%" PRIu32, name, s.value);
      break;
    default:
      line.key("%s=&%s[%u, 0x%" PRIX32 "]", name, s.space == NEURON_SPACE_PSUM ? "psum" : "sbuf",
               s.start, s.value);
      break;
  }
  // A vector instruction's numbers are f32 by default; those of control are raw.
  const bool number = !raw && s.kind == NEURON_SCALAR_IMMEDIATE && s.dtype == NEURON_DTYPE_F32 &&
                      scalar_value(s.value, s.dtype).compare(0, 2, "0x") != 0;
  if (!number && s.dtype != NEURON_DTYPE_NONE) line.addf(" %s", dtype_name(s.dtype));
}

void reduction(Line& line, const VectorOp& op) {
  if (op.reduce) line.key("reduce=%s", alu_name(op.reduce));
  if (op.reduce_command) line.key("%s", kReduceCommand[op.reduce_command]);
}

void vector_keys(Line& line, const Instruction& i) {
  const VectorOp& op = i.vector;
  switch (i.opcode) {
    case NEURON_OP_SELECT_REDUCE:
    case NEURON_OP_EXPONENTIAL:
      scalar(line, "s0", i.scalar0);
      scalar(line, "s1", i.scalar1);
      if (op.invert) line.key("invert");
      reduction(line, op);
      break;
    case NEURON_OP_RANGE_SELECT:
      line.key("start=%s", scalar_value(op.imm, NEURON_DTYPE_F32).c_str());
      line.key("op0=%s", alu_name(op.op0));
      scalar(line, "s0", i.scalar0);
      line.key("op1=%s", alu_name(op.op1));
      scalar(line, "s1", i.scalar1);
      reduction(line, op);
      break;
    case NEURON_OP_RAND2:
      scalar(line, "s0", i.scalar0);
      scalar(line, "s1", i.scalar1);
      break;
    case NEURON_OP_QUANTIZE_MX:
      if (op.imm) line.key("quarter=%" PRIu32, op.imm);
      break;
    case NEURON_OP_TENSOR_TENSOR:
      line.key("op=%s", alu_name(op.op0));
      break;
    case NEURON_OP_TENSOR_SCALAR:
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
    case NEURON_OP_TENSOR_SCALAR_REDUCE:
    case NEURON_OP_TENSOR_SCALAR_CUMULATIVE:
    case NEURON_OP_TENSOR_TENSOR_SCAN:
      line.key("op0=%s", alu_name(op.op0));
      scalar(line, "s0", i.scalar0);
      if (op.rev0) line.key("rev0");
      if (op.op1 != NEURON_ALU_BYPASS) line.key("op1=%s", alu_name(op.op1));
      scalar(line, "s1", i.scalar1);
      if (op.rev1) line.key("rev1");
      reduction(line, op);
      break;
    case NEURON_OP_TENSOR_REDUCE:
      line.key("reduce=%s", alu_name(op.reduce));
      line.key("axes=%u", op.axes);
      if (op.negate) line.key("negate");
      break;
    case NEURON_OP_READ_ACC:
      if (op.negate) line.key("negate");
      break;
    case NEURON_OP_MEMSET:
    case NEURON_OP_MATCH_REPLACE8:
      scalar(line, "s0", i.scalar0);
      scalar(line, "s1", i.scalar1);
      line.key("value=0x%" PRIX32, op.imm);
      break;
    case NEURON_OP_STREAM_SHUFFLE:
      line.key("mask=%u", i.shuffle[0]);
      for (unsigned row = 1; row < NEURON_SHUFFLE_ROWS; ++row) line.addf("/%u", i.shuffle[row]);
      break;
    default:
      scalar(line, "s0", i.scalar0);
      if (op.invert) line.key("invert");
      break;
  }
}

void pool_keys(Line& line, const Instruction& i) {
  for (unsigned d = 0; d < 4; ++d) {
    if (i.pattern.size[d]) line.key("p%u=%u:%" PRId32, d, i.pattern.size[d], i.pattern.step[d]);
  }
  switch (i.opcode) {
    case NEURON_OP_IOTA:
      scalar(line, "offset", i.scalar0);
      break;
    case NEURON_OP_AFFINE_SELECT:
      line.key("op=%s", alu_name(i.vector.op0));
      scalar(line, "s0", i.scalar0);
      scalar(line, "offset", i.scalar1);
      break;
    case NEURON_OP_PARTITION_REDUCE:
      line.key("op=%s", alu_name(i.vector.op0));
      return;
    case NEURON_OP_LOCAL_GATHER:
      line.key("elements=%u", 1u << i.pool.elements);
      line.key("count=%u", i.pool.count);
      return;
    case NEURON_OP_NONZERO_WITH_COUNT:
      scalar(line, "offset", i.scalar0);
      if (i.vector.imm) line.key("padding=%" PRId32, static_cast<int32_t>(i.vector.imm));
      return;
    case NEURON_OP_SENDRECV:
      scalar(line, "s0", i.scalar0);
      return;
    case NEURON_OP_TOPK:
      line.key("count=%u", i.pool.count);
      line.key("n=%" PRIu32, i.vector.imm);
      return;
    case NEURON_OP_CUSTOM:
      line.key("operator=%" PRIu32, i.vector.imm);
      return;
    default:
      return;
  }
  if (i.vector.imm) line.key("channel=%" PRId32, static_cast<int32_t>(i.vector.imm));
}

void compute(Line& line, const Instruction& i) {
  line.add(" ");
  line.argument();
  if (i.dst.present()) {
    tensor(line, i, i.dst, 0);
    if (i.src0.present()) line.add(" = ");
  }
  if (i.opcode == NEURON_OP_ACTIVATE || i.opcode == NEURON_OP_ACTIVATE2) {
    if (i.act.function <= NEURON_ACT_RECIPROCAL) {
      line.addf("%s ", activation_name(i.act.function));
    } else {
      line.addf("table%u ", i.act.function);
    }
  }
  if (i.src0.present()) tensor(line, i, i.src0, 1);
  if (i.src1.present()) {
    line.add(", ");
    tensor(line, i, i.src1, 2);
  }
  switch (i.group()) {
    case 2:
      if (i.opcode == NEURON_OP_MATMUL || i.opcode == NEURON_OP_MATMUL_MX ||
          i.opcode == NEURON_OP_MATMUL_SPARSE) {
        line.key(i.pe.accumulate ? "acc" : "new");
      }
      if (i.pe.swap) line.key("swap");
      if (i.pe.row || i.pe.column) line.key("at=%ux%u", i.pe.row * 32, i.pe.column * 32);
      if (i.pe.rows || i.pe.columns) line.key("tile=%ux%u", 128 >> i.pe.rows, 128 >> i.pe.columns);
      if (i.pe.mode) line.key("mode=%u", i.pe.mode);
      if (i.pe.onezero_moving) line.key("onezero_moving");
      if (i.pe.onezero_stationary) line.key("onezero_stationary");
      if (i.pe.quarter) line.key("quarter=%u", i.pe.quarter);
      break;
    case 3:
      vector_keys(line, i);
      break;
    case 4:
      if (i.opcode == NEURON_OP_ACTIVATE2) {
        if (i.act.pre) line.key("steps=%s", step_name(i.act.pre));
        scalar(line, "s0", i.scalar0);
        if (i.act.rev0) line.key("rev0");
        scalar(line, "s1", i.scalar1);
        if (i.act.rev1) line.key("rev1");
      } else {
        scalar(line, "scale", i.scalar0);
        scalar(line, "bias", i.scalar1);
      }
      if (i.act.reduce) line.key("reduce=%s", alu_name(i.act.reduce));
      if (i.act.reduce_command) line.key("%s", kReduceCommand[i.act.reduce_command]);
      if (i.act.table_set) line.key("set=%u", i.act.table_set);
      if (i.act.param) line.key("param=%s", scalar_value(i.act.param, NEURON_DTYPE_F32).c_str());
      break;
    case 5:
      pool_keys(line, i);
      break;
    default:
      print_indirect(line, i);
      break;
  }
}

// Flow instructions: words of one or two registers and an immediate.
void flow(Line& line, const Instruction& i) {
  const FlowOp& op = i.flow;
  switch (i.opcode) {
    case NEURON_OP_MOV:
    case NEURON_OP_SEM:
    case NEURON_OP_IDENT:
      line.key("r%u", op.rd);
      scalar(line, "s0", i.scalar0, true);
      break;
    case NEURON_OP_ALU:
      line.key("r%u = r%u %s", op.rd, op.ra, alu_name(op.alu));
      if (!op.imm) line.addf(" r%u", op.rb);
      scalar(line, "s0", i.scalar0, true);
      if (op.is_unsigned) line.key("unsigned");
      break;
    case NEURON_OP_BRANCH:
      line.key("%s", kBranch[op.condition & 7]);
      if (op.condition != NEURON_BRANCH_ALWAYS || op.ra || op.rb || op.imm) {
        line.key("r%u", op.ra);
        if (!op.imm) line.key("r%u", op.rb);
      }
      scalar(line, "s0", i.scalar0, true);
      line.key("%+" PRId32, op.target);
      if (op.is_unsigned) line.key("unsigned");
      break;
    case NEURON_OP_CALL:
      line.key("%+" PRId32, op.target);
      break;
    case NEURON_OP_LOOP:
      line.key("r%u", op.rd);
      scalar(line, "start", i.scalar0, true);
      scalar(line, "end", i.scalar1, true);
      line.key("step=%" PRId32, i.loop.step);
      line.key("length=%" PRIu32, i.loop.length);
      break;
    case NEURON_OP_LOAD:
      line.key("r%u", op.rd);
      print_address(line, i.address);
      break;
    case NEURON_OP_STORE:
      line.key("r%u", op.ra);
      print_address(line, i.address);
      break;
    case NEURON_OP_TIME:
      line.key("r%u", op.rd);
      break;
    default:
      break;
  }
}

void bindings(Line& line, const Instruction& i) {
  for (unsigned n = 0; n < 4; ++n) {
    const Binding& bind = i.bind[n];
    if (bind.mode == NEURON_BIND_UNUSED) continue;
    if (n == 0 && !has_body(i) && is_inline(bind)) continue;
    const char* assign = bind.mode == NEURON_BIND_REPLACE ? "=" : "+=";
    const char* suffix = bind.mode == NEURON_BIND_ADD_ELEMENTS ? "*e"
                         : bind.mode == NEURON_BIND_ADD_PAIR   ? ":pair"
                                                               : "";
    line.key("bind%u(%s.%s %s r%u%s)", n, kOperand[bind.operand], kItem[bind.item], assign,
             bind.reg, suffix);
  }
}

void clauses(Line& line, const Instruction& i) {
  bool any = false;
  for (unsigned n = 0; n < 2; ++n) {
    const Wait& wait = i.wait[n];
    if (wait.condition == NEURON_WAIT_NONE) continue;
    line.add(any ? ", " : "  wait(");
    // An empty first slot is printed, so that the reader can tell the slots apart.
    if (n == 1 && !any) line.add("-, ");
    any = true;
    line.addf("%s%u %s %s%u", wait.event ? "e" : "s", wait.index, kCompare[wait.condition & 7],
              wait.is_register ? "r" : "", wait.value);
  }
  if (any) line.add(")");
  any = false;
  for (unsigned n = 0; n < 2; ++n) {
    const Update& update = i.update[n];
    if (update.operation == NEURON_UPDATE_NONE) continue;
    line.add(any ? ", " : "  then(");
    if (n == 1 && !any) line.add("-, ");
    any = true;
    const char* reg = update.is_register ? "r" : "";
    switch (update.operation) {
      case NEURON_UPDATE_INC:
        line.addf("s%u++", update.index);
        break;
      case NEURON_UPDATE_DEC:
        line.addf("s%u--", update.index);
        break;
      case NEURON_UPDATE_ADD:
        line.addf("s%u += %s%u", update.index, reg, update.value);
        break;
      case NEURON_UPDATE_SUB:
        line.addf("s%u -= %s%u", update.index, reg, update.value);
        break;
      case NEURON_UPDATE_WRITE:
        line.addf("s%u = %s%u", update.index, reg, update.value);
        break;
      case NEURON_UPDATE_EVENT_SET:
        line.addf("e%u = 1", update.index);
        break;
      default:
        line.addf("e%u = 0", update.index);
        break;
    }
    if (!update.at_complete) line.add("!");
  }
  if (any) line.add(")");
  if (i.debug) line.addf("  @%" PRIu32, i.debug);
}

}  // namespace

std::string scalar_value(uint32_t bits, unsigned dtype) {
  char buffer[48];
  if (dtype == NEURON_DTYPE_F32) {
    const float value = std::bit_cast<float>(bits);
    std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(value));
    float back = 0;
    // NaN payloads and the like do not survive the decimal form.
    if (std::sscanf(buffer, "%f", &back) == 1 && std::bit_cast<uint32_t>(back) == bits) {
      return buffer;
    }
  }
  std::snprintf(buffer, sizeof buffer, "0x%" PRIX32, bits);
  return buffer;
}

std::string disassemble(const Instruction& i, int engine) {
  Line line;
  const OpcodeInfo* info = find_opcode(i.opcode);
  if (info == nullptr || !info->available) {
    line.addf(".word 0x%03X", i.opcode);
    if (info != nullptr) line.addf(" (%s)", info->name);
    return line.take();
  }
  line.add(info->name);
  switch (i.opcode) {
    case NEURON_OP_DMA_TRIGGER:
      print_trigger(line, i.trigger);
      break;
    case NEURON_OP_DMA_GENERATE:
      print_generate(line, i);
      break;
    case NEURON_OP_LOAD_TABLE:
      line.key("set=%u", i.act.table_set);
      print_address(line, i.address);
      break;
    case NEURON_OP_CUSTOM_OPERATOR:
      print_address(line, i.address);
      break;
    case NEURON_OP_WRITE:
    case NEURON_OP_CC_TRIGGER:
      print_address(line, i.address);
      [[fallthrough]];
    default:
      if (!has_body(i)) {
        compute(line, i);
      } else if (i.group() == 1) {
        flow(line, i);
      } else {
        scalar(line, "s0", i.scalar0, true);
        scalar(line, "s1", i.scalar1, true);
      }
      break;
  }
  bindings(line, i);
  if (i.trace) line.key("trace");
  if (i.brk) line.key("break");
  if (i.drain) line.key("drain");
  if (i.nan) line.key("nan");
  if (i.rounding) line.key(i.rounding == 1 ? "round=nearest" : "round=stochastic");
  if (engine < 0 || i.engines != 1u << engine) {
    line.key("engines=");
    bool any = false;
    for (unsigned e = 0; e < 6; ++e) {
      if (!(i.engines >> e & 1)) continue;
      line.addf("%s%s", any ? "|" : "", engine_name(e));
      any = true;
    }
  }
  clauses(line, i);
  return line.take();
}

}  // namespace neuron::isa
