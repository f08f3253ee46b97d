// SPDX-License-Identifier: Apache-2.0
// Words about every available opcode. The rules are those that the checks enforce beyond the common
// ones; the costs are the formulas of cost.cpp, N = elements per partition.
#include <algorithm>
#include <iterator>

#include "driver/isa/explain.h"

namespace neuron::isa {
namespace {

constexpr const char* kControl = "one smallest initiation interval: 64 cycles at 1.4 GHz, 45.7 ns";
constexpr const char* kOnce = "max(64, N)";
constexpr const char* kTwoStreams =
    "max(64, 2N); max(64, N) if exactly one of the two tensors read is in PSUM";
constexpr const char* kPool = "150 + N";
constexpr const char* kGenerated = "600 ns + 2 posted writes of 0.7 ns per row";

// Ascending by opcode.
constexpr OpcodeText kTexts[] = {
    {NEURON_OP_NOP, "does nothing; carries waits and updates", "", kControl},
    {NEURON_OP_HALT, "halts the engine; the program counter stays", "", kControl},
    {NEURON_OP_DRAIN, "completes when all earlier work of the engine, DMA included, did", "",
     kControl},
    {NEURON_OP_EVENT, "carries waits and updates", "", kControl},
    {NEURON_OP_WRITE, "stores s0 `count` times from `at`, `stride` apart",
     "addresses are multiples of 4", "45.7 ns + 0.7 ns for each further store"},
    {NEURON_OP_NOTIFY, "posts a notification with s0 and s1", "", kControl},
    {NEURON_OP_COMPLETE, "writes the completion record with status s0, after draining", "",
     kControl},
    {NEURON_OP_BRK, "stops the engine before it issues", "", kControl},
    {NEURON_OP_MODE, "sets the mode bits s1 of this engine to s0", "", kControl},
    {NEURON_OP_ORDER, "chooses the order of doorbells", "", kControl},
    {NEURON_OP_BARRIER, "goes on when the other core of the pair is at its barrier, too",
     "s0 is a semaphore 8 to 15, of both cores; wait1 is s0 >= 1, update1 decrements it", kControl},
    {NEURON_OP_MOV, "rd = s0", "", kControl},
    {NEURON_OP_ALU, "rd = ra op (rb or s0), 32 bits, wrapping", "", kControl},
    {NEURON_OP_LOAD, "rd = 32 bits at a device address", "the address is a multiple of 4",
     kControl},
    {NEURON_OP_STORE, "stores ra at a device address", "the address is a multiple of 4", kControl},
    {NEURON_OP_BRANCH, "compares ra with rb or s0 and jumps", "", kControl},
    {NEURON_OP_LOOP, "repeats the `length` instructions behind it", "the step is above 0",
     kControl},
    {NEURON_OP_CALL, "calls a function", "", kControl},
    {NEURON_OP_RET, "returns from a function", "", kControl},
    {NEURON_OP_SEM, "rd = value of semaphore s0", "", kControl},
    {NEURON_OP_TIME, "rd, rd + 1 = model time in picoseconds", "rd is even", kControl},
    {NEURON_OP_IDENT, "rd = core, chip, rank or generation", "", kControl},
    {NEURON_OP_LDWEIGHTS, "loads a stationary matrix [K partitions, M] into the shadow weights",
     "the source is in SBUF, a float type; K fits the rows and M the columns of the tile, at most "
     "128; a tile has 32, 64 or 128 rows and columns, not both 32, at a multiple of its size",
     "p M / 4, hidden behind a running matmul; p = 4 passes for f32 and f32r (2 with a onezero "
     "hint), else 1"},
    {NEURON_OP_MATMUL, "dst[M, N] (+)= stationary transposed x moving[K, N], in fp32",
     "the moving matrix is in SBUF, a float type, N at most 512; 32-bit types pair with 32-bit "
     "types only; the destination is f32 in one PSUM bank; K and M fit the tile; mode 1 "
     "(double_row, generation 3): f8 matrices [K, 2, M] and [K, 2, N]; generation 4: also into "
     "bf16, N at most 4096 into f32 and 8192 into bf16, over all banks",
     "p max(min(64, M), N), visible 64 cycles later; p = 4 passes for f32 and f32r (2 with a "
     "onezero hint), else 1"},
    {NEURON_OP_TRANSPOSE, "dst[F, P] = data[P, F] transposed, bits kept",
     "2- or 4-byte types, the same on both sides, or, from generation 3 on, f8 into u16; the data "
     "is in SBUF, the destination in one PSUM "
     "bank; the data fits the tile",
     "p max(P, min(64, F)), visible 64 cycles later; from generation 4 on beside another "
     "transpose or product"},
    {NEURON_OP_LDWEIGHTS_MX, "loads a stationary matrix of x4 elements and its block scales",
     "the matrix is f8e5x4, f8e4fnx4 or f4x4 in SBUF, of 32, 64, 96 or 128 partitions and an even "
     "number of columns, at most 128; the scales are u8 or e8m0; all columns of the array",
     "M / 4, hidden behind a running matmul"},
    {NEURON_OP_MATMUL_MX, "dst[M, N] (+)= the product of two matrices of x4 elements, in fp32",
     "the moving matrix is f8e5x4, f8e4fnx4 or f4x4 in SBUF, N at most 4096 into f32, 8192 into "
     "bf16; the scales are u8 or e8m0; K and M are those of ldweights_mx",
     "max(min(64, M), N), visible 64 cycles later"},
    {NEURON_OP_LDWEIGHTS_SPARSE, "loads a compressed stationary matrix [K, M] and its positions",
     "mode 0 to 6: 4:16, 4:12, 4:8, 2:8, 2:4, 1:4, 1:2; f8, bf16, f16 or tf32 in SBUF; positions "
     "are u16 [K, M / 4], different in a group of a column; all columns of the array",
     "M / 4, hidden behind a running matmul"},
    {NEURON_OP_MATMUL_SPARSE, "dst[M, N] (+)= the product of the sparse weights and [K, slots, N]",
     "the mode of ldweights_sparse; the moving matrix is in SBUF, f8, bf16, f16 or tf32, and has a "
     "slot for each dense row by compressed one; K and M are those of the weights",
     "max(min(64, M), N), visible 64 cycles later"},
    {NEURON_OP_TENSOR_TENSOR, "dst = src0 op src1",
     "at most one input in PSUM; pow of two tensors on Pool only; bit operations on integers of "
     "one width",
     "max(64, 2N); max(64, N) if exactly one input is in PSUM, or add, sub, mul of dense bf16; "
     "Pool: 150 + that"},
    {NEURON_OP_TENSOR_SCALAR, "dst = (src0 op0 s0) op1 s1",
     "both operations are bit operations or both arithmetic; rsqrt on Pool only; an arithmetic "
     "immediate is f32; Activation: mul, add, or mul then add in generation 3, any arithmetic from "
     "generation 4 on",
     "max(64, N); Pool: 150 + N, 4N for rsqrt"},
    {NEURON_OP_SCALAR_TENSOR_TENSOR, "dst = (src0 op0 s0) op1 src1",
     "arithmetic only; at most one input in PSUM",
     "max(64, 2N); max(64, N) for bf16, sub then mul, N even"},
    {NEURON_OP_TENSOR_SCALAR_REDUCE, "dst = src0 op0 s0; the accumulator reduces dst",
     "arithmetic only; reduces by add, mul, max or min; load_reduce, and only that, has an initial "
     "value s1",
     "max(64, N) + 64"},
    {NEURON_OP_TENSOR_SCALAR_CUMULATIVE, "running dst[i] = op1(op0(src0[i], s0), dst[i - 1])",
     "op1 is add, sub, mul, max or min; no 32-bit integers; load_reduce, and only that, has an "
     "initial value s1",
     kOnce},
    {NEURON_OP_TENSOR_REDUCE, "reduces the innermost `axes` dimensions",
     "the destination has one element for each position that is kept",
     "max(64, N); max(64, N / 2) for add and max of bf16"},
    {NEURON_OP_TENSOR_TENSOR_SCAN, "dst[i] = s = op1(op0(src0[i], s), src1[i]), s starts as s0",
     "arithmetic only; at most one input in PSUM", "max(64, 2N)"},
    {NEURON_OP_TENSOR_COPY, "dst = src0, converted", "", "max(64, N); Pool: 150 + N"},
    {NEURON_OP_COPY_PREDICATED, "where src1 is not 0 (invert: is 0), dst = src0 or s0",
     "one source: src0 or s0; the predicate is u8, u16 or u32; source and destination have one "
     "type; not both tensors read in PSUM",
     kTwoStreams},
    {NEURON_OP_SELECT_REDUCE,
     "dst = src0 where src1 is not 0 (invert: is 0), else s0; the accumulator takes its maximum",
     "the predicate is i8, u8, i16 or u16; src0 is not tf32 and no 32-bit integer; s0 is f32",
     kTwoStreams},
    {NEURON_OP_RANGE_SELECT,
     "dst = src0 where start + i op0 s0 and start + i op1 s1, else -3.4028235e38; the accumulator "
     "takes its maximum",
     "op0 and op1 are eq, gt, ge, lt or le; both bounds are f32; i counts elements, exact below "
     "2^24",
     kOnce},
    {NEURON_OP_RECIPROCAL, "dst = 1 / src0", "", "max(64, 8N)"},
    {NEURON_OP_EXPONENTIAL, "dst = exp(src0 - s0); the accumulator may sum dst",
     "reduces by add only; load_reduce, and only that, has an initial value s1", "max(64, N / 4)"},
    {NEURON_OP_BN_STATS, "dst = count, mean, variance x count of even, then of odd elements",
     "at most 512 elements; 6 elements are written", kOnce},
    {NEURON_OP_BN_AGGR, "dst = mean, variance of the triples in src0",
     "a multiple of 3 elements; 2 elements are written", "max(64, 13N / 3)"},
    {NEURON_OP_MAX8, "dst = the 8 largest elements, descending",
     "8 to 16384 elements; 8 elements are written", kOnce},
    {NEURON_OP_FIND_INDEX8, "dst = where each of the 8 values of src1 first occurs in src0",
     "8 to 16384 elements; 8 values; 8 indices, u16 or u32", kOnce},
    {NEURON_OP_MATCH_REPLACE8, "dst = src0 with the first of each of 8 values replaced",
     "8 to 16384 elements; s0 points to 8 values, s1, if present, to 8 indices, u16 or u32", kOnce},
    {NEURON_OP_STREAM_SHUFFLE, "in each quadrant row i of dst = row mask[i] of src0",
     "one type and shape on both sides; rows 0 to 31, or 255", kOnce},
    {NEURON_OP_TRANSPOSE32, "transposes blocks of 32 x 32",
     "one type on both sides; multiples of 32 partitions and elements, or one smaller block",
     kOnce},
    {NEURON_OP_DROPOUT, "dst = src0, or 0 with probability s0 (invert: 1 - s0)",
     "one type on both sides", kOnce},
    {NEURON_OP_MEMSET, "dst = the bits of `value`", "",
     "max(64, N), max(64, N / 2) for 0 in 16 bits; Pool: 150 + that"},
    {NEURON_OP_RNG, "dst = random bits", "an integer type", kOnce},
    {NEURON_OP_SET_RNG_SEED, "seeds rng and dropout", "one u32 of one partition", "64"},
    {NEURON_OP_RAND_SET_STATE, "sets the XORWOW states of random numbers",
     "u32, 6 words a partition on Pool, 24 on DVE; DVE from generation 4", "150 + 6; DVE: 64"},
    {NEURON_OP_RAND_GET_STATE, "dst = the XORWOW states of random numbers",
     "u32, 6 words a partition on Pool, 24 on DVE; DVE from generation 4", "150 + 6; DVE: 64"},
    {NEURON_OP_RAND2, "dst = random numbers, uniform from s0 to s1", "a float type; bounds are f32",
     "max(64, N / 4)"},
    {NEURON_OP_QUANTIZE_MX, "dst = src0 as f8 codes, four to an element; src1 = their block scales",
     "bf16 or f16 to f8e5x4 or f8e4fnx4, in SBUF, of 32, 64, 96 or 128 partitions; the scales are "
     "u8 or e8m0; quarter is 0 to 3",
     "max(64, N / 4), N of src0"},
    {NEURON_OP_READ_ACC, "dst = the accumulator of each partition", "1 element is written", "64"},
    {NEURON_OP_ACTIVATE, "dst = func(src0 scale + bias); the accumulator may sum dst",
     "before generation 3 the bias is a pointer, and reciprocal has none; the bias is not tf32; "
     "reduces by add only",
     kOnce},
    {NEURON_OP_ACTIVATE2, "dst = func((src0 step s0) step s1); the accumulator may reduce dst",
     "steps: mul, add, sub, mul then add, mul then sub, or none; one scalar for each; reduces by "
     "add, max, min, abs_max or abs_min",
     "max(64, N), max(64, N / 2) for types of 16 bits and f8"},
    {NEURON_OP_LOAD_TABLE, "loads an activation table set from device memory",
     "the address is a multiple of 4", "1.35 us: start and one descriptor of a DMA"},
    {NEURON_OP_IOTA, "dst = offset + partition channel + pattern, in 32-bit integers",
     "the pattern has as many elements as the destination", kPool},
    {NEURON_OP_AFFINE_SELECT, "dst = (offset + partition channel + pattern) op 0 ? src0 : s0",
     "op is a comparison; the pattern has as many elements as the destination", kPool},
    {NEURON_OP_PARTITION_REDUCE, "dst = op over the partitions of src0",
     "add, average, max, and, or; one partition is written", "150 + 16N"},
    {NEURON_OP_LOCAL_GATHER, "per 16 partitions: dst = the elements of src0 that src1 names",
     "multiples of 16 partitions; u16 indices, at most 4096 per 16 partitions; 1 to 32 elements "
     "per index; one type on both sides",
     "150 + count e / C, C = ((28 + 4e) / 4e) / min(4 / type bytes, e), e elements per index"},
    {NEURON_OP_N_GATHER, "dst[p, i] = src0[p, src1[p, i]]",
     "u32 indices, one per element written; one type on both sides",
     "150 per 512 elements + N, N of the destination"},
    {NEURON_OP_SEQUENCE_BOUNDS, "start and end of the segment of each element",
     "one partition; f32 or i32; twice as many elements are written", "150 + 2N"},
    {NEURON_OP_NONZERO_WITH_COUNT,
     "in partitions 0, 16, ...: dst = where src0 is not 0, then padding, last the count",
     "f32 or i32 to i32; one element more is written than read", "150 + N of src0"},
    {NEURON_OP_TOPK, "per 16 partitions: the `count` largest of n elements, ascending, and where",
     "bf16; multiples of 16 partitions; n 8 to 65535, count 1 to 32767, not above n; indices u16 "
     "or u32",
     "4n + count"},
    {NEURON_OP_SENDRECV, "dst = src0 of the other core of the pair",
     "one type and shape on both sides and both cores, at most 65536 elements a partition; s0 is a "
     "semaphore 8 to 15, of both cores; wait1 is s0 >= 1, update1 decrements it",
     "150 + bytes / 128, from when both cores are there"},
    {NEURON_OP_CUSTOM, "runs an operator that the device registers",
     "each operator has its own shapes", kPool},
    {NEURON_OP_CUSTOM_OPERATOR, "runs the C++ function of a call table in device memory",
     "the address is a multiple of 8; the device runs code of its host only where it is told to "
     "(NEURON_EMULATOR_CUSTOM_OPERATORS=1)",
     "150, and for the core of the eight that takes longest: 100 per element of an accessor, 4 per "
     "element of a stream, 1.3 us and its bytes at the DMA engine's rate per transfer with TCM"},
    {NEURON_OP_DMA_TRIGGER, "rings the doorbells of prepared rings",
     "addresses are multiples of 4; counts of engines outside the mask are 0",
     "45.7 ns + 2 doorbells of 0.7 ns per engine of the mask"},
    {NEURON_OP_DMA_GENERATE, "makes descriptors from two patterns and rings the queue",
     "copy and transpose keep the type, transpose 2 or 4 bytes; as many elements on both sides; "
     "less than 4 GiB and at most 2^20 contiguous rows; a priority other than 0, which is served "
     "first, needs generation 4",
     kGenerated},
    {NEURON_OP_DMA_GATHER, "rows of HBM to SBUF by index",
     "one u32 index per partition; row_bytes fit the SBUF side; its type is to_type", kGenerated},
    {NEURON_OP_DMA_SCATTER, "SBUF to rows of HBM by index",
     "one u32 index per partition; row_bytes fit the SBUF side; its type is from_type; no "
     "transpose",
     kGenerated},
    {NEURON_OP_CC_TRIGGER, "as write, and counts as a collective in traces",
     "addresses are multiples of 4", "45.7 ns + 0.7 ns for each further store"},
    {NEURON_OP_CC_ADVANCE, "marks step s0 of a collective, with peer s1", "", kControl},
};

}  // namespace

const OpcodeText* find_opcode_text(unsigned opcode) {
  const auto* found =
      std::lower_bound(std::begin(kTexts), std::end(kTexts), opcode,
                       [](const OpcodeText& text, unsigned key) { return text.opcode < key; });
  return found != std::end(kTexts) && found->opcode == opcode ? found : nullptr;
}

}  // namespace neuron::isa
