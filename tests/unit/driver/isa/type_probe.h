// SPDX-License-Identifier: Apache-2.0
// Which types the checks accept in which place of an instruction, found by trying.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_UNIT_DRIVER_ISA_TYPE_PROBE_H
#define TESTS_UNIT_DRIVER_ISA_TYPE_PROBE_H

#include <vector>

#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa::testing {

// Every type of generation 2.
inline constexpr uint8_t kTypes[] = {
    NEURON_DTYPE_F32,  NEURON_DTYPE_F32R, NEURON_DTYPE_TF32, NEURON_DTYPE_BF16, NEURON_DTYPE_F16,
    NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_I8,   NEURON_DTYPE_U8,
    NEURON_DTYPE_I16,  NEURON_DTYPE_U16,  NEURON_DTYPE_I32,  NEURON_DTYPE_U32};
// Those that generation 3 adds, on Pool.
inline constexpr uint8_t kTypesOf3[] = {NEURON_DTYPE_I64, NEURON_DTYPE_U64};
// Those that generation 4 adds.
inline constexpr uint8_t kTypesOf4[] = {NEURON_DTYPE_F8E4FN, NEURON_DTYPE_E8M0, NEURON_DTYPE_F4X4,
                                        NEURON_DTYPE_F8E5X4, NEURON_DTYPE_F8E4FNX4};

inline bool accepted(const Instruction& i, unsigned engine, unsigned generation) {
  const Limits limits = limits_of(generation);
  return !check_encoding(raw(i), engine, limits) && !check_operands(i, engine, limits);
}

// The types that chips of a generation know.
inline std::vector<uint8_t> types_of(unsigned generation) {
  std::vector<uint8_t> types(std::begin(kTypes), std::end(kTypes));
  if (generation >= 3) types.insert(types.end(), std::begin(kTypesOf3), std::end(kTypesOf3));
  if (generation >= 4) types.insert(types.end(), std::begin(kTypesOf4), std::end(kTypesOf4));
  return types;
}

// One instruction of every opcode that the generation executes.
inline std::vector<Sample> samples_of(unsigned generation) {
  std::vector<Sample> all;
  for (Sample sample : samples()) {
    if (sample.generation > generation) continue;
    sample.generation = generation;
    all.push_back(sample);
  }
  return all;
}

// The first generation that executes a sample.
inline unsigned first_generation_of(const Sample& sample) {
  return first_generation(*find_opcode(sample.instruction.opcode), sample.engine);
}

// The places of a type: dst, src0, src1; from and to of DMA.
enum Place : unsigned { kPlaceDst, kPlaceSrc0, kPlaceSrc1, kPlaceFrom, kPlaceTo, kPlaces };
inline constexpr char kPlaceLetter[] = {'d', 'a', 'b', 'f', 't'};

inline bool is_dma(const Instruction& i) {
  return i.opcode >= NEURON_OP_DMA_GENERATE && i.opcode <= NEURON_OP_DMA_SCATTER;
}

inline bool has_place(const Instruction& i, unsigned place) {
  switch (place) {
    case kPlaceDst:
      return i.dst.present() && !is_dma(i);
    case kPlaceSrc0:
      return i.src0.present() && !is_dma(i);
    case kPlaceSrc1:
      return i.src1.present();
    default:
      return is_dma(i);
  }
}

// Puts a type into the places of a mask, and makes what depends on it fit.
inline Instruction with_type(Instruction i, unsigned places, uint8_t type) {
  if (places >> kPlaceDst & 1) i.dst.dtype = type;
  if (places >> kPlaceSrc0 & 1) i.src0.dtype = type;
  if (places >> kPlaceSrc1 & 1) i.src1.dtype = type;
  if (!is_dma(i)) return i;
  if (places >> kPlaceFrom & 1) i.dma.from_type = type;
  if (places >> kPlaceTo & 1) i.dma.to_type = type;
  const bool gather = i.opcode == NEURON_OP_DMA_GATHER;
  const int from = static_cast<int>(dtype_bytes(i.dma.from_type));
  const int to = static_cast<int>(dtype_bytes(i.dma.to_type));
  if (i.opcode == NEURON_OP_DMA_GENERATE) {
    i.generate.to_dims[0].step = to;
    i.generate.from_dims[0].step = from;
  } else {
    i.dst.dtype = gather ? i.dma.to_type : i.dma.from_type;
    i.indirect.row_bytes =
        static_cast<uint32_t>(i.dst.elements()) * static_cast<uint32_t>(gather ? from : to);
  }
  return i;
}

inline bool has_typed_place(const Instruction& i) {
  for (unsigned place = 0; place < kPlaces; ++place) {
    if (has_place(i, place)) return true;
  }
  return false;
}

// The sample on another engine that executes its opcode, as that engine has it.
inline Sample on_engine(Sample sample, unsigned engine) {
  Instruction& i = sample.instruction;
  sample.engine = engine;
  sample.keeps_engine = true;
  i.engines = static_cast<uint8_t>(1u << engine);
  if (engine == NEURON_ENGINE_POOL && i.src1.space == NEURON_SPACE_PSUM) {  // which it never reads
    i.src1.space = NEURON_SPACE_SBUF;
    i.src1.base = 0x800;
  }
  // Vector has four XORWOW states, Pool one.
  const uint16_t states = engine == NEURON_ENGINE_DVE ? 24 : 6;
  if (i.opcode == NEURON_OP_RAND_SET_STATE) i.src0.size[0] = states;
  if (i.opcode == NEURON_OP_RAND_GET_STATE) i.dst.size[0] = states;
  return sample;
}

// One instruction of every opcode on every engine that executes it in the generation, where its
// operands have types; elsewhere the engine makes no difference to the types, and one stands for
// all.
inline std::vector<Sample> samples_of_every_engine(unsigned generation) {
  std::vector<Sample> all;
  for (const Sample& sample : samples_of(generation)) {
    if (!has_typed_place(sample.instruction)) {
      all.push_back(sample);
      continue;
    }
    for (unsigned engine = 0; engine <= NEURON_ENGINE_CC; ++engine) {
      const unsigned first = first_generation(*find_opcode(sample.instruction.opcode), engine);
      if (first != 0 && first <= generation) all.push_back(on_engine(sample, engine));
    }
  }
  return all;
}

// The sample on Pool, as an instruction on 64-bit integers has to be: in SBUF, with integer
// scalars.
inline Sample on_pool(Sample sample) {
  Instruction& i = sample.instruction;
  const OpcodeInfo& info = *find_opcode(i.opcode);
  if (!sample.keeps_engine && ((info.engines | info.engines_v3) >> NEURON_ENGINE_POOL & 1) != 0) {
    sample.engine = NEURON_ENGINE_POOL;
    i.engines = 1u << NEURON_ENGINE_POOL;
  }
  if (i.src1.space == NEURON_SPACE_PSUM) i.src1.space = NEURON_SPACE_SBUF;
  if (i.opcode == NEURON_OP_AFFINE_SELECT) i.scalar0 = pointer(0x1000, NEURON_DTYPE_I32);
  // What is below zero wraps in u64, and would be 0 if fp32 were converted.
  if (i.opcode == NEURON_OP_TENSOR_REDUCE) i.vector.negate = false;
  // Arithmetic of fp32 takes no integer as an immediate, so only bit operations have both forms.
  if (i.opcode == NEURON_OP_TENSOR_SCALAR) {
    i.vector.op0 = NEURON_ALU_XOR;
    i.scalar0 = immediate(5, NEURON_DTYPE_U32);
    i.vector.op1 = NEURON_ALU_AND;
    i.scalar1 = immediate(6, NEURON_DTYPE_I32);
  }
  if (is_dma(i)) {  // they only copy
    i.dma.operation = NEURON_DMA_COPY;
    i.dma.accumulate = false;
    i.generate.to_dims[0].size = i.generate.from_dims[0].size = 256;
  }
  return sample;
}

// The sample and its forms that have other rules for types.
inline std::vector<Sample> variants(const Sample& original, uint8_t type) {
  const bool int64 = type == NEURON_DTYPE_I64 || type == NEURON_DTYPE_U64;
  const Sample sample = int64 ? on_pool(original) : original;
  std::vector<Sample> all{sample};
  const auto add = [&](auto&& change) {
    all.push_back(sample);
    change(all.back().instruction);
  };
  switch (sample.instruction.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
      add([](Instruction& i) { i.vector.op0 = NEURON_ALU_XOR; });
      break;
    case NEURON_OP_PARTITION_REDUCE:
      add([](Instruction& i) { i.vector.op0 = NEURON_ALU_OR; });
      break;
    case NEURON_OP_DMA_GENERATE:
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER:
      for (const uint8_t operation : {NEURON_DMA_COPY, NEURON_DMA_CAST}) {
        if (sample.instruction.dma.operation == operation) continue;
        add([operation](Instruction& i) {
          i.dma.operation = operation;
          i.dma.accumulate = false;
        });
      }
      break;
    default:
      break;
  }
  return all;
}

// Forms of a sample that have `type` in `place`, accepted in the sample's generation.
inline std::vector<Sample> forms(const Sample& sample, unsigned place, uint8_t type) {
  std::vector<Sample> found;
  for (const Sample& variant : variants(sample, type)) {
    if (!has_place(variant.instruction, place)) continue;
    // Alone, with each subset of the other places.
    for (unsigned others = 0; others < 1u << kPlaces; ++others) {
      if (others >> place & 1) continue;
      bool exist = true;
      for (unsigned p = 0; p < kPlaces; ++p) {
        exist = exist && (!(others >> p & 1) || has_place(variant.instruction, p));
      }
      if (!exist) continue;
      const Instruction i = with_type(variant.instruction, others | 1u << place, type);
      if (!accepted(i, variant.engine, sample.generation)) continue;
      found.push_back({i, variant.engine, variant.generation, variant.keeps_engine});
    }
  }
  return found;
}

}  // namespace neuron::isa::testing

#endif
