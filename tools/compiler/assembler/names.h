// SPDX-License-Identifier: Apache-2.0
//
// How names are spelled: strings, well-known semaphores, the words of enums; both directions, for
// parser and printer. Callers: this folder. Thread-safe: no state. A word that is not known is an
// empty optional.
#ifndef TOOLS_COMPILER_ASSEMBLER_NAMES_H
#define TOOLS_COMPILER_ASSEMBLER_NAMES_H

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hw/address_map.h"
#include "hw/isa.h"
#include "runtime/neff/model.h"

namespace neuron::assembler {

// "..." with escapes; the inverse takes the text with its quotes.
std::string in_quotes(std::string_view text);
std::optional<std::string> unquoted(std::string_view text);
// Unchanged if it can be read as a name, else quoted.
std::string spelled(std::string_view name);
// Likewise, where "s5", "e5" and "r5" mean a number.
std::string spelled_semaphore(std::string_view name);

// Names that every program has: go_pe ... go_sp, done, abort, launch.
std::optional<uint8_t> well_known_semaphore(std::string_view name);
std::string_view well_known_semaphore(uint8_t number);  // Empty: none.

// A name of driver/isa (lower case, "f32") or of engine JSON ("float32"); NONE if it is neither.
uint8_t dtype_of(std::string_view name);

inline constexpr const char* kVariableKinds[] = {"input",   "output",  "file",         "tmp-buf",
                                                 "virtual", "pointer", "state-buffer", "dge-table"};
inline constexpr const char* kQueueKinds[] = {"in", "out", "data", "embedding_update", "dynamic"};
// By neff::DmaOperation.
inline constexpr const char* kTransferOperations[] = {
    "copy", "cast", "fma", "add", "min", "max", "transpose", "compress", "decompress"};
// Those of transfers whose descriptors a program writes.
inline constexpr std::span kOperations(kTransferOperations, 7);
inline constexpr const char* kEntryKinds[] = {"main", "function", "label"};
// By enum neuron_bin_reloc_kind - 1.
inline constexpr const char* kRelocationKinds[] = {"var_addr", "dma_block", "queue", "semaphore",
                                                   "sem_addr", "pc",        "core",  "peer"};

// The other core of a virtual core of two, in relocations.
inline constexpr const char* kPeer = "peer";

// Offset, in the window of a collective core, of the register that starts its next collective.
inline constexpr int64_t kGoOfStream =
    NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + NEURON_CC_SEM_GO * 4;

inline std::optional<unsigned> index_of(std::span<const char* const> words, std::string_view word) {
  for (unsigned i = 0; i < words.size(); ++i) {
    if (word == words[i]) return i;
  }
  return std::nullopt;
}
// "copy, cast, fma", for messages.
std::string listed(std::span<const char* const> words);

// Width in bytes of a relocation of that kind if the text gives none; 0 for a dma_block, which
// fills the whole body.
uint8_t default_width(uint8_t kind);

// Names of the transfers of an engine by block id: what they move, and the id.
std::map<uint32_t, std::string> block_names(const neff::Subgraph& subgraph,
                                            const neff::EngineProgram& program);

std::string base64(neff::Bytes bytes);  // One line
std::optional<std::vector<uint8_t>> from_base64(std::string_view text);

}  // namespace neuron::assembler

#endif
