// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/names.h"

#include <algorithm>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "runtime/neff/text.h"

namespace neuron::assembler {
namespace {

constexpr std::string_view kWellKnown[] = {"go_pe", "go_act", "go_pool", "go_dve",
                                           "go_sp", "done",   "abort",   "launch"};
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hexadecimal_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9') || name[0] == '.') return false;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '.' && c != '$') return false;
  }
  // A range's dots end a name.
  return name.find("..") == std::string_view::npos && name.back() != '.';
}

bool is_numbered(std::string_view name) {
  return name.size() > 1 && (name[0] == 's' || name[0] == 'e' || name[0] == 'r') &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  const bool utf8 = neff::is_utf8(text);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !utf8)) {
      out += base::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::optional<std::string> unquoted(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case '"':
      case '\\':
        out += text[i];
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'x': {
        if (i + 2 >= text.size()) return std::nullopt;
        const int high = hexadecimal_digit(text[i + 1]);
        const int low = hexadecimal_digit(text[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

std::string spelled(std::string_view name) {
  return is_plain(name) ? std::string(name) : in_quotes(name);
}

std::string spelled_semaphore(std::string_view name) {
  return is_plain(name) && !is_numbered(name) ? std::string(name) : in_quotes(name);
}

std::optional<uint8_t> well_known_semaphore(std::string_view name) {
  const auto* place = std::find(std::begin(kWellKnown), std::end(kWellKnown), name);
  if (place == std::end(kWellKnown)) return std::nullopt;
  return static_cast<uint8_t>(place - std::begin(kWellKnown));
}

std::string_view well_known_semaphore(uint8_t number) {
  return number < std::size(kWellKnown) ? kWellKnown[number] : std::string_view();
}

uint8_t dtype_of(std::string_view name) {
  for (unsigned dtype = 1; dtype <= NEURON_DTYPE_F8E4FNX4; ++dtype) {
    if (name == isa::dtype_name(dtype)) return static_cast<uint8_t>(dtype);
  }
  return neff::dtype_from_name(name);
}

std::string listed(std::span<const char* const> words) {
  std::string text;
  for (const char* word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

uint8_t default_width(uint8_t kind) {
  switch (kind) {
    case NEURON_RELOC_DMA_BLOCK:
      return 0;
    case NEURON_RELOC_SEMAPHORE:
      return 1;
    case NEURON_RELOC_PC:
      return 4;
    default:
      return 8;
  }
}

std::map<uint32_t, std::string> block_names(const neff::Subgraph& subgraph,
                                            const neff::EngineProgram& program) {
  std::map<uint32_t, std::string> names;
  const auto on_chip = [&](const neff::DmaAccess& access) {
    return subgraph.variables[access.variable].kind == neff::VariableKind::kStateBuffer;
  };
  for (const neff::DmaTransfer& transfer : program.dma) {
    if (names.contains(transfer.id) || transfer.from.empty()) continue;
    const bool store = on_chip(transfer.from[0]) && !on_chip(transfer.to);
    const neff::DmaAccess& outer = store ? transfer.to : transfer.from[0];
    std::string name = (store ? "store_" : "load_") + subgraph.variables[outer.variable].name;
    for (char& c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!plain) c = '_';
    }
    name += "_" + std::to_string(transfer.id);
    names[transfer.id] = std::move(name);
  }
  return names;
}

std::string base64(neff::Bytes bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t have = std::min<size_t>(bytes.size() - i, 3);
    uint32_t group = 0;
    for (size_t b = 0; b < 3; ++b) {
      group = group << 8 | (b < have ? bytes[i + b] : uint8_t{0});
    }
    for (size_t c = 0; c < 4; ++c) {
      out += c <= have ? kBase64[group >> (18 - 6 * c) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::vector<uint8_t>> from_base64(std::string_view text) {
  static const auto values = [] {
    std::array<int8_t, 256> table;
    table.fill(-1);
    for (size_t i = 0; i < kBase64.size(); ++i) {
      table[static_cast<unsigned char>(kBase64[i])] = static_cast<int8_t>(i);
    }
    return table;
  }();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::vector<uint8_t> out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  unsigned count = 0;
  for (char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<uint8_t>(bits >> count));
    }
  }
  if (bits & ((1u << count) - 1)) return std::nullopt;
  return out;
}

}  // namespace neuron::assembler
