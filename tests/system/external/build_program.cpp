// SPDX-License-Identifier: Apache-2.0
// A compiler back end outside the tree, as small as one can be: builds a program that doubles a
// tensor and writes its NEFF into the file that the first argument names.
#include <cstdio>
#include <fstream>

#include "tools/compiler/program_builder/program.h"

int main(int argc, char** argv) {
  using neuron::builder::Engine;
  if (argc != 2) {
    std::fputs("usage: build_program FILE.neff\n", stderr);
    return 2;
  }
  neuron::builder::Program program("doubled");
  const auto x = program.input("x", NEURON_DTYPE_F32, {128, 512});
  const auto y = program.output("y", NEURON_DTYPE_F32, {128, 512});
  const auto tile = program.sbuf("tile", 128, 512, NEURON_DTYPE_F32);
  const auto sum = program.sbuf("sum", 128, 512, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, tile.all(), x.all());
  program.tensor_tensor(Engine::kDve, sum.all(), tile.all(), NEURON_ALU_ADD, tile.all());
  program.dma(Engine::kSp, y.all(), sum.all());
  const auto neff = program.build();
  if (!neff) {
    std::fprintf(stderr, "build_program: %s\n", neff.error().sentence.c_str());
    return 1;
  }
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(neff->data()),
             static_cast<std::streamsize>(neff->size()));
  if (!file.flush()) {
    std::fprintf(stderr, "build_program: %s cannot be written\n", argv[1]);
    return 1;
  }
  return 0;
}
