// SPDX-License-Identifier: Apache-2.0
// .collective all_reduce f32 [4096] add : x + 0x40 -> sbuf + 0x100 [128, 64], semaphore=reduced
#include <algorithm>
#include <set>

#include "driver/base/format.h"
#include "runtime/neff/collective_json.h"
#include "runtime/neff/collective_place.h"
#include "runtime/neff/collective_reader.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"
#include "tools/compiler/assembler/source.h"

namespace neuron::assembler {

using base::format;

namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 40;
constexpr const char* kCollectiveKeys =
    "stream, semaphore, add, algorithm, root, groups, pairs, counts, displacements, "
    "receive_displacements";

// The number whose name is `word`, of those below `count`.
template <class Value, class Name>
std::optional<Value> named(std::string_view word, unsigned count, Name name) {
  for (unsigned i = 0; i < count; ++i) {
    if (word == name(static_cast<Value>(i))) return static_cast<Value>(i);
  }
  return std::nullopt;
}

template <class Value, class Name>
std::string all_names(unsigned count, Name name) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::string(name(static_cast<Value>(i)));
  }
  return text;
}

class Parser {
 public:
  Parser(Cursor& cursor, const neff::Subgraph& subgraph, uint32_t generation)
      : cursor_(cursor), subgraph_(subgraph), generation_(generation) {}

  neff::Collective parse();

 private:
  struct Side {
    Token at;
    uint32_t variable = neff::kNoTarget;
    uint64_t offset = 0;
    neff::RowsOfSbuf rows;
  };

  template <class Value, class Name>
  Value word(const char* what, unsigned count, Name name) {
    const Token at = cursor_.peek();
    const std::string text = cursor_.name(what);
    const auto value = named<Value>(text, count, name);
    if (cursor_.ok() && !value) cursor_.expected_at(at, all_names<Value>(count, name));
    return value.value_or(Value{});
  }
  void element_type();
  Side side();
  bool key(std::string_view name);
  uint8_t semaphore();
  // [[0, 1], [2, 3]]
  std::vector<std::vector<uint64_t>> lists(const char* what, uint64_t most);
  void groups();
  void pairs();
  void check_places(const Side& input, const Side& output);

  Cursor& cursor_;
  const neff::Subgraph& subgraph_;
  const uint32_t generation_;
  neff::Collective c_;
};

neff::Collective Parser::parse() {
  c_.operation =
      word<ccom_operation_t>("an operation, as all_reduce", CCOM_OPERATION_COUNT,
                             [](ccom_operation_t o) { return neff::collective_name(o); });
  c_.input = c_.output = neff::kNoTarget;
  const bool moves = c_.operation != CCOM_BARRIER;
  const bool lengths = c_.operation > CCOM_BARRIER;
  Side input, output;
  if (cursor_.ok() && moves) {
    element_type();
    if (!lengths) {
      const Token at = cursor_.peek();
      const auto count = cursor_.numbers("a number of elements", 1, 1, kMostElements);
      if (cursor_.ok() && count.empty()) cursor_.expected_at(at, "a number of elements, as [4096]");
      if (!count.empty()) c_.count = count[0];
    }
    if (cursor_.ok() && !cursor_.is(":")) {
      const Token at = cursor_.peek();
      c_.reduction = word<ccom_reduction_t>(
          "a reduction, as add, or \":\"", CCOM_REDUCTION_COUNT,
          [](ccom_reduction_t r) { return neff::collective_reduction_name(r); });
      if (cursor_.ok() && !tools::reduces(c_.operation)) {
        cursor_.expected_at(
            at, format("\":\"; {} reduces nothing", neff::collective_name(c_.operation)));
      }
    }
    cursor_.expect(":");
    input = side();
    cursor_.expect("->");
    output = side();
    c_.input = input.variable;
    c_.output = output.variable;
    c_.input_offset = input.offset;
    c_.output_offset = output.offset;
    c_.input_rows = input.rows;
    c_.output_rows = output.rows;
  }
  while (cursor_.ok() && !cursor_.at_end()) {
    if (cursor_.accept(",")) continue;
    const Token at = cursor_.peek();
    const std::string name = cursor_.name(format("one of the keys {}", kCollectiveKeys));
    cursor_.expect("=");
    if (cursor_.ok() && !key(name)) {
      cursor_.expected_at(at, format("one of the keys {}", kCollectiveKeys));
    }
  }
  if (cursor_.ok() && lengths && c_.counts.empty()) {
    cursor_.expected("counts=[...], one for each rank of the group");
  }
  // Only the loader checks variable lengths: it derives the lists that the text omits from the
  // others.
  if (cursor_.ok() && moves && !lengths) check_places(input, output);
  return std::move(c_);
}

void Parser::element_type() {
  const Token at = cursor_.peek();
  const uint8_t dtype = parse_dtype(cursor_);
  const auto name = [](ccom_type_t type) { return neff::collective_type_name(type); };
  const auto type = named<ccom_type_t>(neff::dtype_name(dtype), CCOM_TYPE_COUNT, name);
  if (cursor_.ok() && !type) cursor_.expected_at(at, all_names<ccom_type_t>(CCOM_TYPE_COUNT, name));
  c_.type = type.value_or(CCOM_UINT8);
}

Parser::Side Parser::side() {
  Side side;
  side.at = cursor_.peek();
  const std::string name = cursor_.name("a variable");
  side.variable = variable_named(subgraph_, name);
  if (!cursor_.ok()) return side;
  if (side.variable == subgraph_.variables.size()) {
    cursor_.expected_at(side.at,
                        format("a variable of {}; name it with .var before", subgraph_.name));
    return side;
  }
  const neff::Variable& variable = subgraph_.variables[side.variable];
  if (cursor_.accept("+")) {
    side.offset = static_cast<uint64_t>(
        cursor_.integer("a byte offset", 0, static_cast<int64_t>(kMostElements)));
  }
  if (variable.kind == neff::VariableKind::kTmpBuf) return side;
  if (variable.kind != neff::VariableKind::kStateBuffer) {
    cursor_.expected_at(side.at, "a tmp-buf or a state-buffer, whose addresses do not change");
    return side;
  }
  const Token at = cursor_.peek();
  const auto shape =
      cursor_.numbers("a number of partitions, then bytes of a row", 2, 1, kMostElements);
  if (cursor_.ok() && (shape.size() != 2 || shape[0] > NEURON_PARTITIONS ||
                       shape[1] > NEURON_SBUF_PARTITION_STRIDE)) {
    cursor_.expected_at(at, "up to 128 partitions and the bytes of a row, as [128, 512]");
  }
  if (!cursor_.ok()) return side;
  side.rows = {static_cast<uint32_t>(shape[1]), static_cast<uint32_t>(shape[0]),
               variable.core_offset + side.offset};
  return side;
}

uint8_t Parser::semaphore() {
  const Token at = cursor_.peek();
  if (at.kind == Token::kNumber) {
    return static_cast<uint8_t>(cursor_.integer("a semaphore of the program",
                                                NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST));
  }
  const std::string name = cursor_.name("a semaphore");
  for (const neff::Semaphore& semaphore : subgraph_.semaphores) {
    if (semaphore.name == name) return semaphore.number;
  }
  cursor_.expected_at(at, "a semaphore; name it with .sem before");
  return 0;
}

std::vector<std::vector<uint64_t>> Parser::lists(const char* what, uint64_t most) {
  std::vector<std::vector<uint64_t>> all;
  cursor_.expect("[");
  while (cursor_.ok() && !cursor_.is("]")) {
    all.push_back(cursor_.numbers(what, neff::kMostRanks, 0, most));
    if (all.size() > neff::kMostRanks) cursor_.expected(format("at most {}", neff::kMostRanks));
    if (!cursor_.accept(",")) break;
  }
  cursor_.expect("]");
  return all;
}

void Parser::groups() {
  const Token at = cursor_.peek();
  std::set<uint64_t> seen;
  for (const auto& list : lists("a rank", UINT32_MAX)) {
    c_.groups.emplace_back(list.begin(), list.end());
    const bool good = std::all_of(list.begin(), list.end(),
                                  [&](uint64_t rank) { return seen.insert(rank).second; });
    if (cursor_.ok() && (!good || list.empty() || list.size() != c_.groups[0].size())) {
      cursor_.expected_at(at, "groups that are equally large, with each rank in at most one");
    }
  }
}

void Parser::pairs() {
  const Token at = cursor_.peek();
  for (const auto& list : lists("a rank", neff::kMostRanks - 1)) {
    if (cursor_.ok() && list.size() != 2) {
      cursor_.expected_at(at, "pairs of ranks, from and to, as [[0, 1], [1, 0]]");
    }
    if (!cursor_.ok()) return;
    c_.pairs.push_back({static_cast<uint32_t>(list[0]), static_cast<uint32_t>(list[1])});
  }
}

bool Parser::key(std::string_view name) {
  const auto number = [&](const char* what, int64_t least, int64_t most) {
    return static_cast<uint32_t>(cursor_.integer(what, least, most));
  };
  const auto numbers = [&](std::vector<uint64_t>& values) {
    values = cursor_.numbers("a number of elements", neff::kMostCounts, 0, kMostElements);
    return true;
  };
  if (name == "stream") {
    c_.stream = number("a stream", 0, CCOM_MAX_STREAMS - 1);
  } else if (name == "semaphore") {
    c_.semaphore = semaphore();
  } else if (name == "add") {
    c_.semaphore_add = static_cast<uint16_t>(number("what the semaphore gets", 1, UINT16_MAX));
  } else if (name == "algorithm") {
    c_.algorithm = word<ccom_algorithm_t>(
        "an algorithm, as ring", CCOM_ALGORITHM_COUNT,
        [](ccom_algorithm_t a) { return neff::collective_algorithm_name(a); });
  } else if (name == "root") {
    c_.root = number("a rank of the group", 0, neff::kMostRanks - 1);
  } else if (name == "groups") {
    groups();
  } else if (name == "pairs") {
    pairs();
  } else if (name == "counts") {
    return numbers(c_.counts);
  } else if (name == "displacements") {
    return numbers(c_.displacements);
  } else if (name == "receive_displacements") {
    return numbers(c_.receive_displacements);
  } else {
    return false;
  }
  return true;
}

// Checks as the loader does; without groups for one rank, because the number of ranks is not known.
void Parser::check_places(const Side& input, const Side& output) {
  const auto bytes = neff::collective_bytes(c_, c_.groups.empty() ? 1 : c_.groups[0].size());
  const auto place = [&](const Side& side, uint64_t used) {
    const neff::Variable& variable = subgraph_.variables[side.variable];
    return neff::CollectivePlace{variable.name, variable.size, side.offset, side.rows, used};
  };
  const auto from = place(input, bytes.input), to = place(output, bytes.output);
  const uint64_t element = neff::collective_type_bytes(c_.type);
  if (const auto problem = neff::check_place(from, element, generation_)) {
    cursor_.fail(input.at.column, *problem);
  } else if (const auto other = neff::check_place(to, element, generation_)) {
    cursor_.fail(output.at.column, *other);
  } else if (const auto both = neff::check_apart(from, to)) {
    cursor_.fail(output.at.column, *both);
  }
}

}  // namespace

void Directives::collective(Cursor& cursor) {
  neff::Subgraph& subgraph = source_.subgraph(current_subgraph());
  const Token at = cursor.peek();
  neff::Collective collective = Parser(cursor, subgraph, source_.model().generation).parse();
  if (cursor.ok() && subgraph.operations.size() == neff::kMostCollectives) {
    cursor.expected_at(at, format("at most {} collectives", neff::kMostCollectives));
  }
  if (cursor.ok()) subgraph.operations.push_back(std::move(collective));
}

}  // namespace neuron::assembler
