// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/fault_plan.h"

#include <strings.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "driver/isa/instruction.h"
#include "hw/isa.h"

namespace neuron::chip {
namespace {

namespace json = boost::json;

constexpr size_t kMostText = size_t{1} << 20;
constexpr uint64_t kMostEvents = uint64_t{1} << 48;

constexpr std::array kPoints = {
    "engine.instruction", "dma.descriptor", "hbm", "sram", "chip", "link"};
constexpr std::array kKinds = {"hang",       "error", "correctable", "uncorrectable",
                               "repairable", "off",   "down"};

// Bit k: kind k may happen at the point.
constexpr unsigned bit(FaultKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned kAllowed[] = {
    bit(FaultKind::kHang) | bit(FaultKind::kOff),
    bit(FaultKind::kError) | bit(FaultKind::kOff),
    bit(FaultKind::kCorrectable) | bit(FaultKind::kUncorrectable) | bit(FaultKind::kRepairable),
    bit(FaultKind::kCorrectable) | bit(FaultKind::kUncorrectable),
    bit(FaultKind::kOff),
    bit(FaultKind::kDown),
};

// Which fields a point knows, besides at and kind.
struct Field {
  const char* name;
  unsigned points;  // bit per point
};
constexpr unsigned at(FaultPoint point) { return 1u << static_cast<unsigned>(point); }
constexpr unsigned kEngines = at(FaultPoint::kInstruction) | at(FaultPoint::kDescriptor);
constexpr unsigned kEventful =
    kEngines | at(FaultPoint::kHbm) | at(FaultPoint::kSram) | at(FaultPoint::kChip);
constexpr Field kFields[] = {
    {"at", ~0u},
    {"kind", ~0u},
    {"chip", kEventful},
    {"core", at(FaultPoint::kInstruction) | at(FaultPoint::kSram)},
    {"engine", kEngines},
    {"queue", at(FaultPoint::kDescriptor)},
    {"address", at(FaultPoint::kHbm)},
    {"bytes", at(FaultPoint::kHbm)},
    {"n", kEventful},
    {"count", at(FaultPoint::kHbm) | at(FaultPoint::kSram)},
    {"a", at(FaultPoint::kLink)},
    {"b", at(FaultPoint::kLink)},
    {"a_node", at(FaultPoint::kLink)},
    {"b_node", at(FaultPoint::kLink)},
};

template <size_t N>
int find_name(const std::array<const char*, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<int>(i);
  }
  return -1;
}

template <size_t N>
std::string list(const std::array<const char*, N>& names, unsigned mask) {
  std::string text;
  for (size_t i = 0; i < N; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += names[i];
  }
  return text;
}

int engine_number(std::string_view name) {
  for (unsigned engine = 0; engine <= NEURON_ENGINE_SP; ++engine) {
    const std::string known = isa::engine_name(engine);
    if (known.size() == name.size() && ::strncasecmp(known.data(), name.data(), name.size()) == 0) {
      return static_cast<int>(engine);
    }
  }
  return -1;
}

class LineReader {
 public:
  LineReader(const json::object& line, std::string& error) : line_(line), error_(error) {}

  bool read(FaultSpec& spec) {
    return read_point(spec) && know_fields(spec.at) && read_fields(spec) && check(spec);
  }

 private:
  bool refuse(const std::string& what) {
    error_ = what;
    return false;
  }
  static std::string shown(const json::value& value) {
    std::string text = json::serialize(value);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }

  bool read_point(FaultSpec& spec) {
    int found = -1;
    if (!read_name("at", kPoints, ~0u, found)) return false;
    spec.at = static_cast<FaultPoint>(found);
    if (!read_name("kind", kKinds, kAllowed[found], found)) return false;
    spec.kind = static_cast<FaultKind>(found);
    return true;
  }

  template <size_t N>
  bool read_name(const char* field, const std::array<const char*, N>& names, unsigned allowed,
                 int& found) {
    const json::value* value = line_.if_contains(field);
    const std::string known = list(names, allowed);
    if (value == nullptr) {
      return refuse(std::string("field \"") + field + "\" is missing; it is one of " + known);
    }
    const json::string* text = value->if_string();
    found = text == nullptr ? -1 : find_name(names, std::string_view(text->data(), text->size()));
    if (found < 0 || (allowed >> found & 1) == 0) {
      return refuse(std::string("field \"") + field + "\" is " + shown(*value) +
                    ", expected one of " + known);
    }
    return true;
  }

  bool know_fields(FaultPoint point) {
    for (const auto& entry : line_) {
      const std::string_view key(entry.key().data(), entry.key().size());
      bool known = false;
      std::string expected;
      for (const Field& field : kFields) {
        if ((field.points & at(point)) == 0) continue;
        known = known || key == field.name;
        expected += (expected.empty() ? "" : ", ") + std::string(field.name);
      }
      if (!known) {
        return refuse("field " + shown(json::string(entry.key())) + " is unknown for \"" +
                      kPoints[static_cast<size_t>(point)] + "\", expected " + expected);
      }
    }
    return true;
  }

  // Numbers are JSON numbers, or text with 0x for addresses.
  bool read_number(const char* field, uint64_t least, uint64_t most, uint64_t& number) {
    const json::value* value = line_.if_contains(field);
    if (value == nullptr) return true;
    bool good = false;
    uint64_t found = 0;
    if (value->is_uint64()) {
      found = value->get_uint64();
      good = true;
    } else if (value->is_int64()) {
      good = value->get_int64() >= 0;
      found = static_cast<uint64_t>(value->get_int64());
    } else if (const json::string* text = value->if_string()) {
      const bool hex = text->size() > 2 && (*text)[0] == '0' && ((*text)[1] | 32) == 'x';
      const char* end = text->data() + text->size();
      const auto parsed = std::from_chars(text->data() + (hex ? 2 : 0), end, found, hex ? 16 : 10);
      good = parsed.ec == std::errc() && parsed.ptr == end && !text->empty();
    }
    if (!good || found < least || found > most) {
      return refuse(std::string("field \"") + field + "\" is " + shown(*value) +
                    ", expected a number from " + std::to_string(least) + " to " +
                    std::to_string(most));
    }
    number = found;
    return true;
  }
  bool read_index(const char* field, unsigned most, int& number) {
    uint64_t found = 0;
    if (!read_number(field, 0, most, found)) return false;
    if (line_.contains(field)) number = static_cast<int>(found);
    return true;
  }
  bool read_engine(FaultSpec& spec) {
    const json::value* value = line_.if_contains("engine");
    if (value == nullptr) return true;
    if (spec.at == FaultPoint::kDescriptor) return read_index("engine", 255, spec.engine);
    if (const json::string* text = value->if_string()) {
      spec.engine = engine_number(std::string_view(text->data(), text->size()));
      if (spec.engine >= 0) return true;
      return refuse("field \"engine\" is " + shown(*value) +
                    ", expected PE, Activation, Pool, DVE, SP or a number from 0 to 4");
    }
    return read_index("engine", NEURON_ENGINE_SP, spec.engine);
  }

  bool read_fields(FaultSpec& spec) {
    constexpr uint64_t kMost = uint64_t{1} << 62;
    return read_index("chip", 63, spec.chip) && read_index("a", 63, spec.chip) &&
           read_index("b", 63, spec.peer) && read_index("a_node", 63, spec.node) &&
           read_index("b_node", 63, spec.peer_node) && read_index("core", 7, spec.core) &&
           read_engine(spec) && read_index("queue", 15, spec.queue) &&
           read_number("address", 0, kMost, spec.address) &&
           read_number("bytes", 1, kMost, spec.bytes) && read_number("n", 1, kMostEvents, spec.n) &&
           read_number("count", 1, kMostEvents, spec.count);
  }

  bool check(FaultSpec& spec) {
    if (spec.at == FaultPoint::kLink && (spec.chip < 0 || spec.peer < 0 ||
                                         (spec.chip == spec.peer && spec.node == spec.peer_node))) {
      return refuse(
          "a link needs its two ends, two different chips, in the fields \"a\" and \"b\"");
    }
    if (line_.contains("address") && spec.bytes == 0) spec.bytes = 64;  // one ECC line
    if (line_.contains("bytes") && !line_.contains("address")) {
      return refuse("field \"bytes\" needs the field \"address\"");
    }
    return true;
  }

  const json::object& line_;
  std::string& error_;
};

}  // namespace

std::string FaultSpec::text() const {
  json::object line;
  line["at"] = kPoints[static_cast<size_t>(at)];
  line["kind"] = kKinds[static_cast<size_t>(kind)];
  const auto index = [&](const char* name, int value) {
    if (value != kAny) line[name] = value;
  };
  index(at == FaultPoint::kLink ? "a" : "chip", chip);
  index("b", peer);
  index("a_node", node);
  index("b_node", peer_node);
  index("core", core);
  if (at == FaultPoint::kInstruction && engine != kAny) {
    line["engine"] = isa::engine_name(static_cast<unsigned>(engine));
  } else {
    index("engine", engine);
  }
  index("queue", queue);
  if (bytes != 0) {
    char address_text[24];
    std::snprintf(address_text, sizeof(address_text), "0x%llx",
                  static_cast<unsigned long long>(address));
    line["address"] = address_text;
    line["bytes"] = bytes;
  }
  if (at != FaultPoint::kLink) line["n"] = n;
  if (count != 1) line["count"] = count;
  return json::serialize(line);
}

const char* engine_label(unsigned engine) { return isa::engine_name(engine); }

std::vector<std::pair<FaultPoint, FaultKind>> known_faults() {
  static_assert(std::size(kAllowed) == kPoints.size());
  std::vector<std::pair<FaultPoint, FaultKind>> known;
  for (size_t point = 0; point < kPoints.size(); ++point) {
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      if ((kAllowed[point] >> kind & 1) != 0) {
        known.emplace_back(static_cast<FaultPoint>(point), static_cast<FaultKind>(kind));
      }
    }
  }
  return known;
}

bool parse_fault_plan(std::string_view text, std::vector<FaultSpec>& plan, std::string& error) {
  if (text.size() > kMostText) {
    error = "the fault plan has " + std::to_string(text.size()) + " bytes, at most " +
            std::to_string(kMostText) + " are read";
    return false;
  }
  std::vector<FaultSpec> found;
  unsigned number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    const auto where = [&] { return "line " + std::to_string(number) + " of the fault plan: "; };
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    json::error_code code;
    json::parse_options options;
    options.max_depth = 2;
    const json::value value = json::parse({line.data(), line.size()}, code, {}, options);
    if (code || !value.is_object()) {
      error = where() + (code ? "it is no JSON (" + code.message() + ")" : "it is no JSON object") +
              R"(; expected for example {"at": "dma.descriptor", "n": 17, "kind": "error"})";
      return false;
    }
    FaultSpec spec;
    std::string what;
    if (!LineReader(value.get_object(), what).read(spec)) {
      error = where() + what;
      return false;
    }
    found.push_back(spec);
  }
  plan.insert(plan.end(), found.begin(), found.end());
  return true;
}

bool read_fault_plan(const std::string& path, std::vector<FaultSpec>& plan, std::string& error) {
  std::string text(kMostText + 1, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0 && !file.eof()) {
    const int code = errno;
    error = "the fault plan " + path +
            " cannot be read: " + (code != 0 ? std::strerror(code) : "it is not a file");
    return false;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  std::string what;
  if (parse_fault_plan(text, plan, what)) return true;
  error = path + ": " + what;
  return false;
}

}  // namespace neuron::chip
