// SPDX-License-Identifier: Apache-2.0
// One ".dma" line: ID [NAME] : from [, from ...] -> to {, key=value}
#include <bit>
#include <cmath>

#include "driver/base/format.h"
#include "hw/udma.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"
#include "tools/compiler/assembler/source.h"

namespace neuron::assembler {

using base::format;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr const char* kTransferKeys =
    "queue, instance, function, section, event, semaphore, remote, op, scale, constant, shape, "
    "element";

class Parser {
 public:
  Parser(Cursor& cursor, const neff::Subgraph& subgraph) : cursor_(cursor), subgraph_(subgraph) {}

  neff::DmaTransfer parse(std::string& block_name, std::string& function);

 private:
  neff::DmaAccess access(bool& shaped);
  void dimensions(neff::DmaAccess& access);
  bool key(std::string_view name, std::string& function);
  float finite_number();
  void constant();
  uint8_t semaphore();
  void complete(bool from_shaped, bool to_shaped);

  Cursor& cursor_;
  const neff::Subgraph& subgraph_;
  neff::DmaTransfer transfer_;
};

neff::DmaTransfer Parser::parse(std::string& block_name, std::string& function) {
  transfer_.id = static_cast<uint32_t>(cursor_.integer("a block id", 0, UINT32_MAX));
  if (!cursor_.is(":")) block_name = cursor_.name("a name for the block, or \":\"");
  cursor_.expect(":");
  bool from_shaped = false, to_shaped = false;
  do {
    if (transfer_.from.size() == 16) cursor_.expected("\"->\": a transfer has at most 16 sources");
    transfer_.from.push_back(access(from_shaped));
    const bool own_scale = cursor_.accept("*");
    transfer_.from.back().scale = own_scale ? finite_number() : std::nanf("");
  } while (cursor_.ok() && cursor_.accept(","));
  cursor_.expect("->");
  transfer_.to = access(to_shaped);
  transfer_.queue = neff::kNoTarget;
  while (cursor_.ok() && !cursor_.at_end()) {
    if (cursor_.accept(",")) continue;
    const Token at = cursor_.peek();
    const std::string name = cursor_.name(format("one of the keys {}", kTransferKeys));
    if (cursor_.ok() && !key(name, function)) {
      cursor_.expected_at(at, format("one of the keys {}", kTransferKeys));
    }
  }
  if (cursor_.ok() && transfer_.queue == neff::kNoTarget) {
    if (subgraph_.queues.size() == 1) {
      transfer_.queue = 0;
    } else {
      cursor_.expected("queue=NAME");
    }
  }
  if (cursor_.ok()) complete(from_shaped, to_shaped);
  for (neff::DmaAccess& source : transfer_.from) {
    if (std::isnan(source.scale)) source.scale = transfer_.scale;
  }
  return std::move(transfer_);
}

// x + 0x100 f32 [128:262144, 64]: byte offset, type, bytes outermost first
neff::DmaAccess Parser::access(bool& shaped) {
  neff::DmaAccess out;
  const Token at = cursor_.peek();
  const uint32_t variable = variable_named(subgraph_, cursor_.name("a variable"));
  if (cursor_.ok() && variable == subgraph_.variables.size()) {
    cursor_.expected_at(at, "a variable of this subgraph");
  }
  if (!cursor_.ok()) return out;
  out.variable = variable;
  const uint64_t size = subgraph_.variables[variable].size;
  if (cursor_.is("+")) {
    const Token offset = cursor_.next();
    out.offset = static_cast<uint64_t>(cursor_.integer("a byte offset", 0, kMostBytes));
    if (cursor_.ok() && out.offset >= size) {
      cursor_.fail(offset.column, format("the offset is {}, expected less than the {} bytes of {}",
                                         out.offset, size, subgraph_.variables[variable].name));
    }
  }
  if (cursor_.peek().kind == Token::kName) out.dtype = parse_dtype(cursor_);
  shaped = cursor_.is("[");
  if (shaped) {
    dimensions(out);
  } else {
    out.sizes[0] = size - out.offset;
  }
  return out;
}

void Parser::dimensions(neff::DmaAccess& access) {
  struct Dimension {
    uint64_t size = 0;
    std::optional<int64_t> step;
    Token at;
  };
  std::vector<Dimension> given;
  cursor_.expect("[");
  while (cursor_.ok()) {
    if (given.size() == 4) return cursor_.expected("\"]\": there are at most 4 dimensions");
    Dimension dimension;
    dimension.at = cursor_.peek();
    dimension.size = static_cast<uint64_t>(cursor_.integer("a size", 0, kMostBytes));
    if (cursor_.accept(":")) {
      dimension.step = cursor_.integer("a step in bytes", -kMostBytes, kMostBytes);
    }
    given.push_back(dimension);
    if (!cursor_.accept(",")) break;
  }
  cursor_.expect("]");
  if (!cursor_.ok()) return;
  access.dimensions = static_cast<uint8_t>(given.size());
  uint64_t contiguous = 1;
  for (size_t d = 0; d < given.size(); ++d) {
    const Dimension& dimension = given[given.size() - 1 - d];
    access.sizes[d] = dimension.size;
    access.steps[d] = dimension.step.value_or(static_cast<int64_t>(contiguous));
    if (d == 0 && access.steps[0] != 1) {
      return cursor_.expected_at(dimension.at,
                                 "no step here: the innermost size counts contiguous bytes");
    }
    if (__builtin_mul_overflow(contiguous, dimension.size, &contiguous) ||
        contiguous > static_cast<uint64_t>(kMostBytes)) {
      return cursor_.expected_at(dimension.at, "at most 2^40 bytes");
    }
  }
}

// A side of a copy without a shape has as many contiguous bytes as the other side.
void Parser::complete(bool from_shaped, bool to_shaped) {
  if (transfer_.operation != neff::DmaOperation::kCopy || transfer_.from.size() != 1) return;
  neff::DmaAccess& from = transfer_.from[0];
  if (from_shaped && !to_shaped) transfer_.to.sizes[0] = from.bytes();
  if (to_shaped && !from_shaped) from.sizes[0] = transfer_.to.bytes();
}

uint8_t Parser::semaphore() {
  if (cursor_.peek().kind == Token::kNumber) {
    return static_cast<uint8_t>(cursor_.integer("a semaphore of the program",
                                                NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST));
  }
  const Token at = cursor_.peek();
  const std::string name = cursor_.name("a semaphore");
  for (const neff::Semaphore& known : subgraph_.semaphores) {
    if (known.name == name) return known.number;
  }
  uint64_t number = 0;
  if (at.kind == Token::kName && name.size() > 1 && name[0] == 's' &&
      parse_unsigned(std::string_view(name).substr(1), number) &&
      number >= NEURON_SEM_PROGRAM_FIRST && number <= NEURON_SEM_PROGRAM_LAST) {
    return static_cast<uint8_t>(number);
  }
  cursor_.expected_at(at, "a semaphore; name it with .sem before");
  return 0;
}

// The file is JSON, which has neither infinities nor NaN.
float Parser::finite_number() {
  const Token at = cursor_.peek();
  const auto value = std::bit_cast<float>(parse_real_bits(cursor_));
  if (cursor_.ok() && !std::isfinite(value)) cursor_.expected_at(at, "a finite number");
  return value;
}

// 1.5, or -3 i32
void Parser::constant() {
  isa::Scalar scalar;
  const Token at = cursor_.peek();
  parse_scalar(cursor_, false, scalar);
  const bool type = scalar.dtype == NEURON_DTYPE_F32 || scalar.dtype == NEURON_DTYPE_I32 ||
                    scalar.dtype == NEURON_DTYPE_U32;
  if (cursor_.ok() && (scalar.kind != NEURON_SCALAR_IMMEDIATE || !type)) {
    cursor_.expected_at(at, "a number, alone or with f32, i32 or u32 behind it");
  }
  if (cursor_.ok() && scalar.dtype == NEURON_DTYPE_F32 &&
      !std::isfinite(std::bit_cast<float>(scalar.value))) {
    cursor_.expected_at(at, "a finite number");
  }
  transfer_.constant = scalar.value;
  transfer_.constant_dtype = scalar.dtype;
}

bool Parser::key(std::string_view name, std::string& function) {
  if (name == "section") {
    transfer_.starts_section = true;
    return true;
  }
  cursor_.expect("=");
  const Token at = cursor_.peek();
  if (name == "queue") {
    const std::string queue = cursor_.name("a queue set");
    for (uint32_t i = 0; i < subgraph_.queues.size(); ++i) {
      if (subgraph_.queues[i].name == queue) transfer_.queue = i;
    }
    if (transfer_.queue == neff::kNoTarget) cursor_.expected_at(at, "a queue set of this subgraph");
  } else if (name == "instance") {
    transfer_.instance = cursor_.name("an instance of the queue set");
  } else if (name == "function") {
    function = cursor_.name("an entry of kind function");
  } else if (name == "event") {
    if (cursor_.peek().text.starts_with("e")) {
      uint64_t number = 256;
      parse_unsigned(cursor_.next().text.substr(1), number);
      if (number > 255) cursor_.expected_at(at, "an event, 0 to 255");
      transfer_.event = static_cast<uint8_t>(number);
    } else {
      transfer_.event = static_cast<uint8_t>(cursor_.integer("an event", 0, 255));
    }
  } else if (name == "semaphore") {
    transfer_.semaphore = semaphore();
  } else if (name == "priority") {
    transfer_.priority =
        static_cast<uint8_t>(cursor_.integer("a class of service", 0, NEURON_DMA_CLASSES - 1));
  } else if (name == "remote") {
    for (uint64_t number : cursor_.numbers("a semaphore of the other core of two", 16,
                                           NEURON_SEM_PAIR_FIRST, NEURON_SEM_PAIR_LAST)) {
      transfer_.remote_semaphores.push_back(static_cast<uint8_t>(number));
    }
  } else if (name == "op") {
    const auto operation = index_of(kTransferOperations, cursor_.name("an operation"));
    if (!operation) cursor_.expected_at(at, listed(kTransferOperations));
    transfer_.operation = static_cast<neff::DmaOperation>(operation.value_or(0));
    const bool has_constant = transfer_.operation == neff::DmaOperation::kMin ||
                              transfer_.operation == neff::DmaOperation::kMax;
    if (has_constant && transfer_.constant_dtype == NEURON_DTYPE_NONE) {
      transfer_.constant_dtype = NEURON_DTYPE_F32;
    }
  } else if (name == "scale") {
    transfer_.scale = finite_number();
  } else if (name == "constant") {
    constant();
  } else if (name == "shape") {
    const auto shape = cursor_.numbers("a size", 4, 1, UINT32_MAX);
    if (shape.size() != 4) cursor_.expected_at(at, "four sizes in brackets");
    for (size_t i = 0; i < shape.size(); ++i) {
      transfer_.transpose_shape[i] = static_cast<uint32_t>(shape[i]);
    }
  } else if (name == "element") {
    transfer_.transpose_element_bytes =
        static_cast<uint32_t>(cursor_.integer("bytes of an element", 1, 8));
  } else {
    return false;
  }
  return true;
}

}  // namespace

neff::DmaTransfer parse_transfer(Cursor& cursor, const neff::Subgraph& subgraph,
                                 std::string& block_name, std::string& function) {
  return Parser(cursor, subgraph).parse(block_name, function);
}

}  // namespace neuron::assembler
