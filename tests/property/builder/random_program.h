// SPDX-License-Identifier: Apache-2.0
//
// Programs that follow from a seed: operations on tiles and buffers, in loops around loops, loops
// that a number counts, branches, functions and what happens once; and an interpreter of them.
//
// Values are numbers below 2^24 in 32-bit words, which all engines move exactly. A window of a tile
// or a block of a buffer moves with the rounds of loops and with numbers, and never leaves its
// memory. Products are of the lowest two bits of words, so that their sums are exact, too. Callers:
// the property test. Thread-safe: no state. Cannot fail.
#ifndef TESTS_PROPERTY_BUILDER_RANDOM_PROGRAM_H
#define TESTS_PROPERTY_BUILDER_RANDOM_PROGRAM_H

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tools/compiler/program_builder/program.h"

namespace neuron::property {

inline constexpr uint32_t kRows = 32, kColumns = 64, kTiles = 24, kBuffers = 6, kBlocks = 24;
inline constexpr uint32_t kWindow = 4;  // Columns of a window
inline constexpr uint32_t kBanks = 4;   // Sums in PSUM, kWindow x kWindow
inline constexpr uint32_t kNumbers = 5, kFunctions = 3, kTable = 16;

// An index of the program: a loop (by the number of its statement) or a number.
struct Reference {
  bool number = false;
  uint32_t which = 0;
};

struct Move {
  Reference index;
  int32_t step = 0;  // Columns of a window, rows of blocks of a buffer
};

// A window of a tile, or a block of a buffer; it moves.
struct Place {
  uint32_t which = 0;
  uint32_t first = 0;  // Column, or block
  std::vector<Move> moves;
};

struct Statement {
  enum class Kind : uint8_t {
    kFill,        // to = value
    kCopy,        // to = a
    kXor,         // to = a ^ b
    kLoad,        // to = block; a is one of a buffer
    kStore,       // block to = a
    kProduct,     // bank to (+)= transpose(a & 3) * (b & 3); value: whether it adds
    kEvict,       // the first rows of to = bank a
    kReduce,      // the first column of to = the words of each row of a, by op
    kReduceRows,  // the first row of to = the greatest of each column of a
    kGather,      // to = words of tile a, where the words of b say
    kFetch,       // to = rows of buffer a, where the first column of b says
    kSet,         // number = value
    kAlu,         // number = number op value, or op other
    kRead,        // number = word
    kWrite,       // word = number
    kLoop,        // body, value times
    kCount,       // body, as often as the number says
    kWhen,
    kCall,
    kBarrier,
    kOnce,
  };
  Kind kind = Kind::kBarrier;
  builder::Engine engine = builder::Engine::kDve;
  bool generated = false;  // Of a transfer
  Place to, a, b;
  uint32_t value = 0, number = 0, op = 0;
  bool with_number = false;
  Reference left, right;  // Of kAlu
  builder::Compare compare = builder::Compare::kEqual;
  uint32_t loop = 0;  // The number of the loop
  std::vector<Statement> body, otherwise;
};

struct RandomProgram {
  std::array<uint32_t, kNumbers> most{};  // Largest values of the numbers
  std::array<uint32_t, kTable> table{};   // Words that numbers are loaded from
  std::vector<std::vector<Statement>> functions;
  std::vector<Statement> main;
  uint32_t loops = 0;
  uint32_t operations = 0;
};

// About `operations` operations, in all bodies together. More than kFunctions functions are small
// ones whose transfers several engines start, and are called often.
RandomProgram random_program(uint32_t seed, uint32_t operations, uint32_t functions = kFunctions);

// All tiles, then all blocks, row by row.
using Memory = std::vector<uint32_t>;
inline constexpr size_t kTileWords = size_t{kTiles} * kRows * kColumns;
inline constexpr size_t kBufferWords = size_t{kBuffers} * kBlocks * kRows * kWindow;

// What outputs "tiles" and "buffers" hold behind each of so many executions.
std::vector<Memory> interpret(const RandomProgram& program, uint32_t executions);

// The same as calls of the builder.
void write(const RandomProgram& random, builder::Program& program);

}  // namespace neuron::property

#endif
