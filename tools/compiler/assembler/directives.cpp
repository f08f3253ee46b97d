// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>

#include "driver/base/format.h"
#include "runtime/neff/npy.h"
#include "runtime/neff/npy_file.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/operand_parser.h"
#include "tools/compiler/assembler/source.h"

namespace neuron::assembler {

using base::format;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

// Keys that are flags or "key=value", separated by commas.
template <class Key>
void parse_keys(Cursor& cursor, const char* keys, const Key& parse) {
  while (cursor.ok() && !cursor.at_end()) {
    if (cursor.accept(",")) continue;
    const Token at = cursor.peek();
    const std::string key = cursor.name(format("one of the keys {}", keys));
    if (cursor.ok() && !parse(key)) cursor.expected_at(at, format("one of the keys {}", keys));
  }
}

std::string dashed(Cursor& cursor, const char* what) {
  std::string word = cursor.name(what);
  while (cursor.accept("-")) word += "-" + cursor.name(what);
  return word;
}

bool parse_yes(Cursor& cursor) {
  if (cursor.accept("yes")) return true;
  if (!cursor.accept("no")) cursor.expected("\"yes\" or \"no\"");
  return false;
}

bool parse_fabric(Cursor& cursor) {
  if (cursor.accept("alt")) return true;
  if (!cursor.accept("main")) cursor.expected("\"main\" or \"alt\"");
  return false;
}

}  // namespace

bool Directives::parse(std::string_view directive, Cursor& cursor) {
  if (directive == ".neff") {
    file_header(cursor);
  } else if (directive == ".target") {
    target(cursor);
  } else if (directive == ".subgraph") {
    subgraph(cursor);
  } else if (directive == ".sem") {
    semaphores(cursor);
  } else if (directive == ".var") {
    variable(cursor);
  } else if (directive == ".const") {
    constant(cursor);
  } else if (directive == ".input") {
    tensor(cursor, false);
  } else if (directive == ".output") {
    tensor(cursor, true);
  } else if (directive == ".queue") {
    queue(cursor);
  } else if (directive == ".collective") {
    collective(cursor);
  } else if (directive == ".operator") {
    custom_operator(cursor);
  } else if (directive == ".equ") {
    number_constant(cursor);
  } else {
    return false;
  }
  cursor.expect_end();
  return true;
}

uint32_t Directives::current_subgraph() {
  if (!have_subgraph_) {
    source_.model().subgraphs.emplace_back().name = "sg00";
    source_.assembly().files.emplace_back();
    have_subgraph_ = true;
  }
  return static_cast<uint32_t>(source_.model().subgraphs.size() - 1);
}

void Directives::file_header(Cursor& cursor) {
  tools::NeffOptions& options = source_.assembly().options;
  parse_keys(cursor, "name, build, version, features, cores, header, compress, uuid",
             [&](std::string_view key) {
               cursor.expect("=");
               if (key == "name") {
                 options.name = cursor.name("a name");
               } else if (key == "build") {
                 options.build_version = cursor.name("a name");
               } else if (key == "version") {
                 const Token version = cursor.word();
                 const size_t dot = version.text.find('.');
                 if (dot == std::string_view::npos ||
                     !parse_unsigned(version.text.substr(0, dot), options.version_major) ||
                     !parse_unsigned(version.text.substr(dot + 1), options.version_minor)) {
                   cursor.expected_at(version, "a version, as 2.1");
                 }
               } else if (key == "features") {
                 options.feature_bits = cursor.address("a mask of feature bits");
               } else if (key == "cores") {
                 options.cores = static_cast<uint32_t>(cursor.integer("a number of cores", 0, 64));
               } else if (key == "header") {
                 options.header_version =
                     static_cast<uint64_t>(cursor.integer("1 (SHA-256) or 2 (MD5)", 1, 2));
               } else if (key == "compress") {
                 options.compress = parse_yes(cursor);
               } else if (key == "uuid") {
                 const Token at = cursor.peek();
                 const std::string digits = cursor.string("32 hexadecimal digits in quotes");
                 std::array<uint8_t, 16> uuid{};
                 bool good = digits.size() == 32;
                 for (size_t i = 0; i < uuid.size() && good; ++i) {
                   const char* pair = digits.data() + 2 * i;
                   const auto [end, status] = std::from_chars(pair, pair + 2, uuid[i], 16);
                   good = status == std::errc() && end == pair + 2;
                 }
                 if (!good) cursor.expected_at(at, "32 hexadecimal digits in quotes");
                 options.uuid = uuid;
               } else {
                 return false;
               }
               return true;
             });
}

void Directives::target(Cursor& cursor) {
  const Token at = cursor.peek();
  neff::Model& model = source_.model();
  model.target = cursor.name("a target, as trn1");
  model.generation = neff::generation_of(model.target);
  if (cursor.ok() && model.generation == 0) cursor.expected_at(at, "trn1, inf2, trn2 or trn3");
  parse_keys(cursor, "lnc", [&](std::string_view key) {
    if (key != "lnc") return false;
    cursor.expect("=");
    model.lnc = static_cast<uint32_t>(cursor.integer("1 or 2", 1, 2));
    source_.assembly().options.lnc_size = model.lnc;
    return true;
  });
}

void Directives::subgraph(Cursor& cursor) {
  const Token at = cursor.peek();
  const std::string name = cursor.name("a subgraph, as sg00");
  for (const neff::Subgraph& other : source_.model().subgraphs) {
    if (other.name == name) cursor.expected_at(at, "a name that no other subgraph has");
  }
  if (name.empty() || name.find('/') != std::string::npos ||
      source_.model().subgraphs.size() > 63) {
    cursor.expected_at(at, "the name of a directory; a file has at most 64 subgraphs");
  }
  if (!cursor.ok()) return;
  source_.model().subgraphs.emplace_back().name = name;
  source_.assembly().files.emplace_back();
  have_subgraph_ = true;
}

void Directives::semaphores(Cursor& cursor) {
  neff::Subgraph& subgraph = source_.subgraph(current_subgraph());
  do {
    const Token at = cursor.peek();
    neff::Semaphore semaphore;
    semaphore.name = cursor.name("a semaphore");
    std::set<unsigned> used;
    for (const neff::Semaphore& other : subgraph.semaphores) {
      used.insert(other.number);
      if (cursor.ok() && other.name == semaphore.name) {
        return cursor.expected_at(at, "a name that no other semaphore has");
      }
    }
    const bool numbered = cursor.accept("=") || cursor.peek().kind == Token::kNumber;
    if (numbered) {
      const Token number = cursor.peek();
      semaphore.number = static_cast<uint8_t>(cursor.integer(
          "a semaphore of the program", NEURON_SEM_PAIR_FIRST, NEURON_SEM_PROGRAM_LAST));
      if (cursor.ok() && used.contains(semaphore.number)) {
        cursor.expected_at(number, "a number that no other semaphore has");
      }
    } else if (cursor.ok()) {
      unsigned free = NEURON_SEM_PROGRAM_FIRST;
      while (used.contains(free)) ++free;
      if (free > NEURON_SEM_PROGRAM_LAST) {
        return cursor.fail(at.column,
                           format("a program has {} semaphores, and all have names",
                                  NEURON_SEM_PROGRAM_LAST - NEURON_SEM_PROGRAM_FIRST + 1));
      }
      semaphore.number = static_cast<uint8_t>(free);
    }
    if (!cursor.ok()) return;
    subgraph.semaphores.push_back(std::move(semaphore));
  } while (cursor.accept(","));
}

// f32 [2, 3]
Directives::Shape Directives::parse_shape(Cursor& cursor) {
  Shape out;
  out.dtype = parse_dtype(cursor);
  const Token at = cursor.peek();
  uint64_t bytes = neff::dtype_bytes(out.dtype);
  for (uint64_t size : cursor.numbers("a size", 16, 1, UINT32_MAX)) {
    out.shape.push_back(static_cast<uint32_t>(size));
    if (__builtin_mul_overflow(bytes, size, &bytes)) bytes = kMostBytes + 1;
  }
  if (cursor.ok() && bytes > static_cast<uint64_t>(kMostBytes)) {
    cursor.expected_at(at, "at most 2^40 bytes");
  }
  out.bytes = bytes;
  return out;
}

bool Directives::tensor_key(Cursor& cursor, std::string_view key, neff::TensorInfo& info) {
  if (key == "timeseries") {
    info.timeseries = true;
    return true;
  }
  if (key != "format" && key != "name") return false;
  cursor.expect("=");
  (key == "format" ? info.format : info.name) = cursor.name("a name");
  return true;
}

void Directives::add_tensor(neff::TensorInfo info, const Reference& variable, bool output) {
  auto& list = output ? source_.model().outputs : source_.model().inputs;
  info.subgraph = variable.subgraph;
  Reference reference = variable;
  reference.variable = static_cast<uint32_t>(list.size()) * 2 + (output ? 1 : 0);
  list.push_back(std::move(info));
  source_.tensors.push_back(std::move(reference));
}

void Directives::tensor(Cursor& cursor, bool output) {
  neff::TensorInfo info;
  Reference variable{current_subgraph(), 0, cursor.line(), cursor.peek().column, {}};
  info.name = cursor.name("a tensor");
  variable.name = info.name;
  cursor.expect(":");
  const Shape shape = parse_shape(cursor);
  info.dtype = shape.dtype;
  info.shape = shape.shape;
  info.size = shape.bytes;
  parse_keys(cursor, "variable, format, timeseries", [&](std::string_view key) {
    if (key != "variable") return key != "name" && tensor_key(cursor, key, info);
    cursor.expect("=");
    variable.column = cursor.peek().column;
    variable.name = cursor.name("a variable");
    return true;
  });
  if (cursor.ok()) add_tensor(std::move(info), variable, output);
}

void Directives::variable(Cursor& cursor) {
  const uint32_t current = current_subgraph();
  neff::Subgraph& subgraph = source_.subgraph(current);
  const Token at = cursor.peek();
  neff::Variable variable;
  variable.name = cursor.name("a variable");
  if (cursor.ok() && variable_named(subgraph, variable.name) != subgraph.variables.size()) {
    return cursor.expected_at(at, "a name that no other variable has");
  }
  cursor.expect(":");
  variable.id = static_cast<uint32_t>(subgraph.variables.size());
  const bool shaped =
      cursor.peek().kind == Token::kName && cursor.peek_second().text == "[" && !cursor.is("list");
  neff::TensorInfo info;
  if (shaped) {
    const Shape shape = parse_shape(cursor);
    variable.size = shape.bytes;
    info.name = variable.name;
    info.dtype = shape.dtype;
    info.shape = shape.shape;
    info.size = shape.bytes;
  }
  const Token kind_at = cursor.peek();
  const auto kind = index_of(kVariableKinds, dashed(cursor, "a kind of variable"));
  if (cursor.ok() && !kind) return cursor.expected_at(kind_at, listed(kVariableKinds));
  if (!cursor.ok()) return;
  variable.kind = static_cast<neff::VariableKind>(*kind);
  if (variable.kind == neff::VariableKind::kPointer) variable.size = 8;
  const bool tensor = shaped && *kind < 2;
  variable_keys(cursor, variable, tensor ? &info : nullptr);
  const bool has_own_size = variable.kind != neff::VariableKind::kFile || variable.compressed;
  if (cursor.ok() && variable.size == 0 && has_own_size) {
    cursor.expected("size=BYTES, or a type and shape in front of the kind");
  }
  if (!cursor.ok()) return;
  if (tensor) {
    add_tensor(std::move(info), {current, 0, cursor.line(), at.column, variable.name}, *kind == 1);
  }
  if (variable.kind == neff::VariableKind::kFile) {
    source_.constant_files.push_back({current, static_cast<uint32_t>(subgraph.variables.size()),
                                      cursor.line(), at.column, variable.file_name});
    variable.file_name = subgraph.name + "/" + variable.file_name;
  }
  subgraph.variables.push_back(std::move(variable));
}

void Directives::variable_keys(Cursor& cursor, neff::Variable& variable, neff::TensorInfo* tensor) {
  const uint32_t current = current_subgraph();
  const auto index = static_cast<uint32_t>(source_.subgraph(current).variables.size());
  const auto refer = [&] {
    const Token at = cursor.peek();
    source_.references.push_back(
        {current, index, cursor.line(), at.column, cursor.name("a variable")});
  };
  if (variable.kind == neff::VariableKind::kFile) variable.file_name = variable.name + ".npy";
  parse_keys(cursor,
             "id, size, align, fabric, file, encoding, shared, backing, offset, to, list; of "
             "inputs and outputs "
             "with a shape also name, format, timeseries",
             [&](std::string_view key) {
               if (tensor != nullptr && tensor_key(cursor, key, *tensor)) return true;
               cursor.expect("=");
               if (key == "id") {
                 variable.id = static_cast<uint32_t>(cursor.integer("an id", 0, UINT32_MAX));
               } else if (key == "size") {
                 variable.size =
                     static_cast<uint64_t>(cursor.integer("a number of bytes", 1, kMostBytes));
               } else if (key == "align") {
                 variable.alignment =
                     static_cast<uint64_t>(cursor.integer("a number of bytes", 0, 1 << 30));
               } else if (key == "fabric") {
                 variable.alternate_fabric = parse_fabric(cursor);
               } else if (key == "file" && variable.kind == neff::VariableKind::kFile) {
                 variable.file_name = cursor.name("a file");
               } else if (key == "encoding" && variable.kind == neff::VariableKind::kFile) {
                 const Token encoding = cursor.peek();
                 const std::string name = cursor.name("plain or streams");
                 variable.compressed = name == "streams";
                 if (!variable.compressed && name != "plain") {
                   cursor.expected_at(encoding, "plain or streams");
                 }
               } else if (key == "shared" && variable.kind == neff::VariableKind::kTmpBuf) {
                 variable.shared = parse_yes(cursor);
               } else if (key == "backing") {
                 variable.backing_offset =
                     static_cast<uint64_t>(cursor.integer("a byte offset", 0, kMostBytes));
               } else if (key == "offset" && variable.kind == neff::VariableKind::kFile) {
                 source_.assembly().files[current].offsets[index] =
                     static_cast<uint64_t>(cursor.integer("a byte offset", 0, kMostBytes));
               } else if (key == "offset") {
                 variable.core_offset =
                     static_cast<uint64_t>(cursor.integer("a byte offset", 0, kMostBytes));
               } else if (key == "to" && variable.kind == neff::VariableKind::kPointer) {
                 refer();
               } else if (key == "list" && variable.kind == neff::VariableKind::kDgeTable) {
                 cursor.expect("[");
                 while (cursor.ok() && !cursor.is("]")) {
                   refer();
                   if (!cursor.accept(",")) break;
                 }
                 cursor.expect("]");
               } else {
                 return false;
               }
               return true;
             });
}

// .const NAME : f32 [2, 2] = 1, 2, 3, 4
void Directives::constant(Cursor& cursor) {
  const uint32_t current = current_subgraph();
  neff::Subgraph& subgraph = source_.subgraph(current);
  const Token at = cursor.peek();
  neff::Variable variable;
  variable.name = cursor.name("a variable");
  variable.kind = neff::VariableKind::kFile;
  variable.id = static_cast<uint32_t>(subgraph.variables.size());
  cursor.expect(":");
  const Token type_at = cursor.peek();
  const Shape shape = parse_shape(cursor);
  if (!cursor.ok()) return;
  if (variable_named(subgraph, variable.name) != subgraph.variables.size()) {
    return cursor.expected_at(at, "a name that no other variable has");
  }
  const uint32_t bytes = neff::dtype_bytes(shape.dtype);
  const bool real = shape.dtype == NEURON_DTYPE_F32;
  if (bytes > 4) return cursor.expected_at(type_at, "a type of at most 4 bytes");
  tools::NpyArray array;
  array.type = real ? "<f4" : bytes == 1 ? "|u1" : bytes == 2 ? "<u2" : "<u4";
  if (shape.dtype == NEURON_DTYPE_I32) array.type = "<i4";
  if (shape.dtype == NEURON_DTYPE_I16) array.type = "<i2";
  if (shape.dtype == NEURON_DTYPE_I8) array.type = "|i1";
  array.shape.assign(shape.shape.begin(), shape.shape.end());
  cursor.expect("=");
  const uint64_t wanted = shape.bytes / bytes;
  uint64_t given = 0;
  while (cursor.ok() && !cursor.at_end()) {
    if (cursor.accept(",")) continue;
    if (given == wanted) {
      return cursor.expected(format("the end: the shape has {} numbers", wanted));
    }
    const uint64_t limit = bytes == 4 ? UINT32_MAX : (1ull << (8 * bytes)) - 1;
    const uint32_t bits =
        real ? parse_real_bits(cursor)
             : static_cast<uint32_t>(cursor.integer("a number or the bits of one",
                                                    -static_cast<int64_t>(limit / 2) - 1,
                                                    static_cast<int64_t>(limit)));
    for (uint32_t b = 0; b < bytes; ++b) {
      array.data.push_back(static_cast<uint8_t>(bits >> (8 * b)));
    }
    ++given;
  }
  // A single number fills all elements.
  if (cursor.ok() && given == 1 && wanted <= (1u << 28)) {
    const std::vector<uint8_t> one = array.data;
    array.data.reserve(shape.bytes);
    while (given < wanted) {
      array.data.insert(array.data.end(), one.begin(), one.end());
      ++given;
    }
  }
  if (cursor.ok() && given != wanted) {
    return cursor.expected(format("{} numbers, or one for all; there are {}", wanted, given));
  }
  if (!cursor.ok()) return;
  variable.size = shape.bytes;
  variable.file_name = subgraph.name + "/" + variable.name + ".npy";
  source_.assembly().members[variable.file_name] = tools::write_npy(array);
  subgraph.variables.push_back(std::move(variable));
}

void Directives::queue(Cursor& cursor) {
  neff::Subgraph& subgraph = source_.subgraph(current_subgraph());
  const Token at = cursor.peek();
  neff::QueueSet queue;
  queue.name = cursor.name("a queue set");
  for (const neff::QueueSet& other : subgraph.queues) {
    if (cursor.ok() && other.name == queue.name) {
      return cursor.expected_at(at, "a name that no other queue set has");
    }
  }
  cursor.expect("=");
  const Token kind_at = cursor.peek();
  const auto kind = index_of(kQueueKinds, cursor.name("a kind of queue"));
  if (cursor.ok() && !kind) return cursor.expected_at(kind_at, listed(kQueueKinds));
  queue.kind = static_cast<neff::QueueKind>(kind.value_or(0));
  const auto semaphore = [&] {
    return static_cast<uint8_t>(cursor.integer("a semaphore of the program",
                                               NEURON_SEM_PROGRAM_FIRST, NEURON_SEM_PROGRAM_LAST));
  };
  parse_keys(cursor, "engines, owner, instances, semaphores, semaphore, fabric, ring",
             [&](std::string_view key) {
               cursor.expect("=");
               if (key == "engines") {
                 queue.num_queues =
                     static_cast<uint32_t>(cursor.integer("a number of DMA engines", 1, 16));
               } else if (key == "owner") {
                 const uint8_t engine = neff::engine_from_name(cursor.peek().text);
                 if (engine >= NEURON_CORE_ENGINES) {
                   cursor.expected("PE, Activation, Pool, DVE or SP");
                 }
                 cursor.next();
                 queue.owner = engine;
               } else if (key == "instances") {
                 cursor.expect("[");
                 while (cursor.ok() && !cursor.is("]")) {
                   queue.instances.push_back(cursor.name("a name"));
                   if (!cursor.accept(",")) break;
                 }
                 cursor.expect("]");
               } else if (key == "semaphores") {
                 cursor.expect("[");
                 while (cursor.ok() && !cursor.is("]")) {
                   queue.semaphore_set.push_back(semaphore());
                   if (!cursor.accept(",")) break;
                 }
                 cursor.expect("]");
               } else if (key == "semaphore") {
                 queue.semaphore = semaphore();
               } else if (key == "fabric") {
                 queue.alternate_fabric = parse_fabric(cursor);
               } else if (key == "ring") {
                 queue.ring_descriptors =
                     static_cast<uint32_t>(cursor.integer("a number of descriptors", 1, 1 << 24));
               } else {
                 return false;
               }
               return true;
             });
  if (cursor.ok()) subgraph.queues.push_back(std::move(queue));
}

void Directives::number_constant(Cursor& cursor) {
  const Token at = cursor.peek();
  if (at.kind != Token::kName) return cursor.expected("a name");
  cursor.next();
  cursor.accept("=");
  const uint64_t value = cursor.address("a number");
  if (cursor.ok() && !source_.constants.emplace(std::string(at.text), value).second) {
    cursor.expected_at(at, "a name that no other constant has");
  }
}

// Sets sizes of constants and resolves forward references.
void Directives::finish() {
  neff::Model& model = source_.model();
  resolve_constants();
  const auto resolve = [&](const Reference& reference) {
    const neff::Subgraph& subgraph = model.subgraphs[reference.subgraph];
    const uint32_t found = variable_named(subgraph, reference.name);
    if (found < subgraph.variables.size()) return found;
    source_.add(
        {reference.line, reference.column,
         format("found {}, expected a variable of {}", in_quotes(reference.name), subgraph.name)});
    return uint32_t{0};
  };
  for (const Reference& reference : source_.references) {
    const uint32_t target = resolve(reference);
    neff::Subgraph& subgraph = model.subgraphs[reference.subgraph];
    if (reference.variable >= subgraph.variables.size()) continue;  // The directive was refused
    neff::Variable& variable = subgraph.variables[reference.variable];
    if (variable.kind == neff::VariableKind::kPointer) variable.referenced = target;
    if (variable.kind == neff::VariableKind::kDgeTable) variable.list.push_back(target);
  }
  for (const Reference& reference : source_.tensors) {
    auto& list = reference.variable & 1 ? model.outputs : model.inputs;
    list[reference.variable / 2].variable = resolve(reference);
  }
}

void Directives::resolve_constants() {
  neff::Model& model = source_.model();
  auto& members = source_.assembly().members;
  for (const Reference& reference : source_.constant_files) {
    neff::Variable& variable = model.subgraphs[reference.subgraph].variables[reference.variable];
    auto member = members.find(variable.file_name);
    if (member == members.end() && source_.options.read) {
      auto contents = source_.options.read(reference.name);
      if (!contents) {
        source_.add({reference.line, reference.column, contents.error().sentence});
        continue;
      }
      member = members.emplace(variable.file_name, std::move(*contents)).first;
    }
    if (member == members.end()) {
      source_.add({reference.line, reference.column,
                   format("{} has no contents; expected a .member {} or a file of that name",
                          in_quotes(variable.name), in_quotes(variable.file_name))});
      continue;
    }
    uint64_t size = member->second.size();
    if (variable.file_name.ends_with(".npy")) {
      const auto array = neff::parse_npy(member->second);
      if (!array) {
        source_.add({reference.line, reference.column,
                     format("{}: {}", variable.file_name, array.error().sentence)});
        continue;
      }
      size = array->data.size();
    }
    if (const auto& offsets = source_.assembly().files[reference.subgraph].offsets;
        variable.compressed || offsets.contains(reference.variable)) {
      continue;  // Compressed, or one of several in the file: the loader checks size and place
    }
    if (variable.size == 0) variable.size = size;
    if (variable.size != size) {
      source_.add({reference.line, reference.column,
                   format("found a size of {}, expected {}: what {} holds", variable.size, size,
                          variable.file_name)});
    }
  }
}

}  // namespace neuron::assembler
