// SPDX-License-Identifier: Apache-2.0
// Static programs of a few machine instructions in the place of compiled operators.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_PROGRAMS_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_PROGRAMS_H

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "hw/custom_operator.h"

namespace neuron::core {

// A static program of these instructions.
inline std::vector<uint8_t> program_of(const std::vector<uint8_t>& code) {
  constexpr uint64_t kBase = 0x400000;
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_EXEC;
  head.e_machine = EM_X86_64;
  head.e_version = EV_CURRENT;
  head.e_entry = kBase + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  head.e_phoff = sizeof(Elf64_Ehdr);
  head.e_ehsize = sizeof(Elf64_Ehdr);
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_X;
  segment.p_vaddr = segment.p_paddr = kBase;
  segment.p_filesz = segment.p_memsz = sizeof(head) + sizeof(segment) + code.size();
  segment.p_align = 4096;
  std::vector<uint8_t> image(segment.p_filesz);
  std::memcpy(image.data(), &head, sizeof(head));
  std::memcpy(image.data() + sizeof(head), &segment, sizeof(segment));
  std::memcpy(image.data() + sizeof(head) + sizeof(segment), code.data(), code.size());
  return image;
}

// mov eax, NUMBER; mov edi, ARGUMENT; syscall
inline std::vector<uint8_t> system_call(uint8_t number, uint8_t argument) {
  return {0xB8, number, 0, 0, 0, 0xBF, argument, 0, 0, 0, 0x0F, 0x05};
}
inline std::vector<uint8_t> endless() { return {0xEB, 0xFE}; }

// Machine code, piece by piece.
class Code {
 public:
  void add(std::initializer_list<uint8_t> bytes) { code_.insert(code_.end(), bytes); }
  void add_word(uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) {
      code_.push_back(static_cast<uint8_t>(word >> shift));
    }
  }
  void add(const std::vector<uint8_t>& code) {
    code_.insert(code_.end(), code.begin(), code.end());
  }
  size_t size() const { return code_.size(); }
  const std::vector<uint8_t>& bytes() const { return code_; }

  // rax = the first `bytes` of a file.
  void map(uint32_t file, uint32_t bytes, bool writable) {
    add({0xB8}), add_word(9);                  // mov eax, 9 (mmap)
    add({0x31, 0xFF, 0xBE}), add_word(bytes);  // xor edi, edi; mov esi, bytes
    add({0xBA}), add_word(writable ? 3 : 1);   // mov edx, PROT_READ | PROT_WRITE
    add({0x41, 0xBA}), add_word(1);            // mov r10d, MAP_SHARED
    add({0x41, 0xB8}), add_word(file);         // mov r8d, file
    add({0x45, 0x31, 0xC9, 0x0F, 0x05});       // xor r9d, r9d; syscall
  }
  // The state in the results, which rax points to.
  void set_state(uint32_t state) {
    add({0xC7, 0x80}), add_word(offsetof(neuron_operator_result, state)), add_word(state);
  }

 private:
  std::vector<uint8_t> code_;
};

constexpr uint32_t operator_tensor_behind(size_t bytes) {
  constexpr uint32_t kAlignment = NEURON_OPERATOR_TENSOR_ALIGNMENT;
  return (static_cast<uint32_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr uint32_t kOperatorOutput =
    operator_tensor_behind(sizeof(neuron_operator_result) + NEURON_OPERATOR_PRINT_BYTES);
inline constexpr uint32_t kOperatorInput = operator_tensor_behind(sizeof(neuron_operator_input));

// Maps the results, writes a byte of the output and this state, and then does what `last` says.
inline std::vector<uint8_t> writing(uint8_t byte, uint32_t state,
                                    const std::vector<uint8_t>& last) {
  Code code;
  code.map(NEURON_OPERATOR_RESULT_FILE, kOperatorOutput + 4, true);
  code.add({0xC6, 0x80}), code.add_word(kOperatorOutput), code.add({byte});  // mov byte [rax + ..]
  code.set_state(state);
  code.add(last);
  return code.bytes();
}

// output[n] = 3 x input[n] + 5 for `words` of 32 bits, of the first input; then it is done.
inline std::vector<uint8_t> three_times_and_five(uint8_t words) {
  Code code;
  code.map(NEURON_OPERATOR_INPUT_FILE, kOperatorInput + 4u * words, false);
  code.add({0x48, 0x89, 0xC3});  // mov rbx, rax
  code.map(NEURON_OPERATOR_RESULT_FILE, kOperatorOutput + 4u * words, true);
  code.add({0x31, 0xC9});  // xor ecx, ecx
  const size_t loop = code.size();
  code.add({0x8B, 0x94, 0x8B}), code.add_word(kOperatorInput);   // mov edx, [rbx + 4 rcx + ..]
  code.add({0x8D, 0x14, 0x52, 0x83, 0xC2, 0x05});                // lea edx, [3 rdx]; add edx, 5
  code.add({0x89, 0x94, 0x88}), code.add_word(kOperatorOutput);  // mov [rax + 4 rcx + ..], edx
  code.add({0xFF, 0xC1, 0x83, 0xF9, words});                     // inc ecx; cmp ecx, words
  const size_t end = code.size() + 2;
  code.add({0x72, static_cast<uint8_t>(loop - end)});  // jb loop
  code.set_state(NEURON_OPERATOR_DONE);
  code.add(system_call(231, 0));  // exit_group
  return code.bytes();
}

}  // namespace neuron::core

#endif
