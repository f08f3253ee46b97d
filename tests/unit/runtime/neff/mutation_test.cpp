// SPDX-License-Identifier: Apache-2.0
// Damaged files of every kind: a status and one sentence, or the model that was there before.
#include <gtest/gtest.h>

#include <random>

#include "runtime/neff/model_reader.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using test::SampleProgram;

// What would run, as text: two models with the same text do the same.
std::string summary(const Model& model) {
  std::string text = model.target + std::to_string(model.generation) + std::to_string(model.lnc);
  for (const auto* list : {&model.inputs, &model.outputs}) {
    for (const TensorInfo& tensor : *list) {
      text += tensor.name + ":" + std::to_string(tensor.variable) + ":" +
              std::to_string(tensor.size) + ";";
    }
  }
  for (const Subgraph& subgraph : model.subgraphs) {
    for (const Variable& variable : subgraph.variables) {
      text += variable.name + std::to_string(static_cast<int>(variable.kind)) + ":" +
              std::to_string(variable.size) + hexadecimal(variable.contents) + ";";
    }
    for (const EngineProgram& program : subgraph.engines) {
      text += hexadecimal(program.code) + std::to_string(program.dma.size());
      for (const DmaTransfer& transfer : program.dma) {
        text += "," + std::to_string(transfer.id) + ":" + std::to_string(transfer.to.variable) +
                ":" + std::to_string(transfer.to.offset);
      }
    }
  }
  return text;
}

// Empty if the file is refused, which must come with a sentence.
std::string outcome(Bytes file, bool validate_hash) {
  const auto container = Container::open(file, {.validate_hash = validate_hash});
  if (!container) {
    EXPECT_NE(container.error().status, NRT_SUCCESS);
    EXPECT_FALSE(container.error().sentence.empty());
    return {};
  }
  const auto model = load_model(*container, {.generation = 2, .lnc = 1});
  if (!model) {
    EXPECT_NE(model.error().status, NRT_SUCCESS);
    EXPECT_FALSE(model.error().sentence.empty());
    return {};
  }
  return summary(*model);
}

TEST(DamagedFile, IsRefusedAtEveryLength) {
  for (const bool compress : {true, false}) {
    SampleProgram sample;
    sample.options.compress = compress;
    const Buffer file = sample.pack();
    ASSERT_FALSE(outcome(file, false).empty());
    for (size_t size = 0; size < file.size(); ++size) {
      ASSERT_TRUE(outcome(Bytes(file).first(size), false).empty()) << size << " bytes";
      // With the length corrected, so that the readers behind the header see the cut.
      Buffer cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
      if (size < NEFF_HEADER_BYTES) continue;
      base::store_little<uint64_t>(cut.data() + NEFF_OFF_DATA_SIZE, size - NEFF_HEADER_BYTES);
      const bool has_end_mark =
          !compress && size + 512 >= file.size();  // Of two zero blocks one will do.
      ASSERT_EQ(outcome(cut, false).empty(), !has_end_mark) << size << " bytes";
    }
  }
}

TEST(DamagedFile, NeverYieldsAnotherModelWhenTheHashIsChecked) {
  std::mt19937 random(5);
  for (const bool compress : {true, false}) {
    SampleProgram sample;
    sample.options.compress = compress;
    const Buffer file = sample.pack();
    const std::string good = outcome(file, true);
    ASSERT_FALSE(good.empty());
    for (int round = 0; round < 1500; ++round) {
      Buffer damaged = file;
      for (size_t flips = 1 + random() % 3; flips; --flips) {
        damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1u << random() % 8);
      }
      const std::string found = outcome(damaged, true);
      ASSERT_TRUE(found.empty() || found == good) << "round " << round;
      (void)outcome(damaged, false);
    }
  }
}

TEST(DamagedFile, WithDamagedTextIsReadOrRefused) {
  std::mt19937 random(9);
  const SampleProgram sample;
  for (const char* member : {"neff.json", "sg00/def.json", "sg00/SP.json", "sg00/w.npy"}) {
    for (int round = 0; round < 400; ++round) {
      SampleProgram damaged = sample;
      damaged.options.compress = false;
      Buffer& bytes = damaged.members[member];
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
          break;
        case 1:
          bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at));
          break;
        default:
          bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), "{}[]\":,0-9e."[random() % 12]);
      }
      (void)outcome(damaged.pack(), true);
    }
  }
}

}  // namespace
}  // namespace neuron::neff
