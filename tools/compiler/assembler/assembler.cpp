// SPDX-License-Identifier: Apache-2.0
// The first pass: parses the directives of the file and keeps the lines of engines for the second
// pass.
#include "tools/compiler/assembler/assembler.h"

#include "driver/base/format.h"
#include "runtime/neff/model_reader.h"
#include "runtime/neff/text.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/source.h"

namespace neuron::assembler {

using base::format;

namespace {

class FirstPass {
 public:
  FirstPass(Source& source, std::string_view text)
      : source_(source), directives_(source), text_(text) {}

  void run();

 private:
  bool next_line(std::string_view& line);
  void read_line(std::string_view line);
  // Remembers where the directive of this line declares what readers of the file may complain of.
  void note_place(std::string_view directive, const Token& named);
  void engine(Cursor& cursor);
  void member(Cursor& cursor);
  std::vector<uint8_t> inline_contents(Cursor& cursor, bool base64);

  Source& source_;
  Directives directives_;
  std::string_view text_;
  uint32_t number_ = 0;
  bool checked_ = true;
  // Index into programs; the subgraph's own lines stand before the first .engine.
  size_t program_ = SIZE_MAX;
};

bool FirstPass::next_line(std::string_view& line) {
  if (text_.empty()) return false;
  const size_t end = text_.find('\n');
  line = text_.substr(0, end);
  text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  ++number_;
  return true;
}

void FirstPass::run() {
  std::string_view line;
  while (!source_.full() && next_line(line)) read_line(line);
}

void FirstPass::read_line(std::string_view line) {
  Cursor cursor(line, number_, &source_.constants);
  if (cursor.at_end()) return;
  const std::string directive(cursor.peek().kind == Token::kName ? cursor.peek().text : "");
  // "name:" is a label, whatever the name is.
  const bool label = cursor.peek_second().text == ":";
  if (!label && directive.starts_with(".")) {
    Cursor arguments = cursor;
    arguments.next();
    bool known = true;
    if (directive == ".engine") {
      engine(arguments);
    } else if (directive == ".member") {
      member(arguments);
    } else if (directive == ".check") {
      checked_ = arguments.accept("on");
      if (!checked_) arguments.expect("off");
      arguments.expect_end();
    } else {
      if (directive == ".subgraph") program_ = SIZE_MAX;
      const Token named = arguments.peek();
      known = directives_.parse(directive, arguments);
      if (known && arguments.ok()) note_place(directive, named);
    }
    source_.add(arguments);
    if (known) return;
  }
  if (program_ == SIZE_MAX) {
    cursor.expected("a directive, as .var or .engine; instructions stand below an .engine");
    return source_.add(cursor);
  }
  source_.programs[program_].lines.push_back({number_, line, checked_});
}

void FirstPass::note_place(std::string_view directive, const Token& named) {
  const Place place{number_, named.column};
  const neff::Model& model = source_.model();
  if (model.subgraphs.empty()) return;
  const neff::Subgraph& subgraph = model.subgraphs.back();
  source_.places.try_emplace(subgraph.name + "/", place);
  const std::string definition = subgraph.name + "/def.json: ";
  if (directive == ".var" || directive == ".const") {
    source_.places[format("{}var.{}", definition, subgraph.variables.back().name)] = place;
  } else if (directive == ".queue") {
    source_.places[format("{}dma_queue.{}", definition, subgraph.queues.back().name)] = place;
  } else if (directive == ".sem") {
    source_.places[format("{}semaphore.{}", definition, subgraph.semaphores.back().name)] = place;
  } else if (directive == ".collective") {
    const size_t last = subgraph.operations.size() - 1;
    source_.places[format("{}collectives[{}]", definition, last)] = place;
  }
  // A variable with a shape is a tensor of the model, too.
  for (const bool output : {false, true}) {
    const auto& list = output ? model.outputs : model.inputs;
    if (list.empty()) continue;
    source_.places.try_emplace(
        format("neff.json: {} \"{}\"", output ? "output" : "input", list.back().name), place);
  }
}

// .engine PE, bin="PE.bin", json=none
void FirstPass::engine(Cursor& cursor) {
  const Token at = cursor.peek();
  const uint8_t engine = neff::engine_from_name(at.text);
  if (engine > NEURON_ENGINE_CC) return cursor.expected("PE, Activation, Pool, DVE, SP or CC");
  cursor.next();
  ProgramText text;
  text.subgraph = directives_.current_subgraph();
  text.engine = engine;
  neff::Subgraph& subgraph = source_.subgraph(text.subgraph);
  SubgraphFiles& files = source_.assembly().files[text.subgraph];
  std::string stem = neff::engine_name(engine);
  if (engine == NEURON_ENGINE_CC) {
    if (subgraph.collectives.size() == 64) {
      return cursor.expected_at(at, "at most 64 collective cores");
    }
    text.collective = static_cast<uint32_t>(subgraph.collectives.size());
    stem += std::to_string(text.collective);
    subgraph.collectives.emplace_back();
    files.collectives.emplace_back();
  } else if (files.engines[engine].used) {
    return cursor.expected_at(at, "an engine that this subgraph does not have yet");
  }
  neff::EngineProgram& program = source_.program_of(text);
  program.engine = engine;
  program.generation = static_cast<uint8_t>(source_.model().generation);
  EngineFiles& names = source_.files_of(text);
  names = {true, stem + ".bin", stem + ".json"};
  while (cursor.ok() && !cursor.at_end()) {
    if (cursor.accept(",")) continue;
    const Token key_at = cursor.peek();
    const std::string key = cursor.name("bin, json, generation or stream");
    cursor.expect("=");
    if (key == "bin") {
      names.bin = cursor.name("a file");
    } else if (key == "json") {
      const bool none = cursor.accept("none");
      names.json = none ? std::string() : cursor.name("a file, or none");
    } else if (key == "generation") {
      program.generation = static_cast<uint8_t>(cursor.integer("a generation", 0, 255));
    } else if (key == "stream" && engine == NEURON_ENGINE_CC) {
      subgraph.collectives[text.collective].stream =
          static_cast<uint32_t>(cursor.integer("a stream", 0, UINT32_MAX));
    } else {
      cursor.expected_at(key_at, "bin, json, generation, or stream of a CC engine");
    }
  }
  for (const std::string& file : {names.bin, names.json}) {
    if (!file.empty()) {
      source_.places[format("{}/{}", subgraph.name, file)] = {cursor.line(), at.column};
    }
  }
  text.place = {cursor.line(), at.column};
  program_ = source_.programs.size();
  source_.programs.push_back(std::move(text));
}

// .member "sg00/w.npy" from "file" | text [open] <<END | base64 <<END
void FirstPass::member(Cursor& cursor) {
  const Token at = cursor.peek();
  const std::string name = cursor.name("the name of a member");
  std::vector<uint8_t> contents;
  if (cursor.accept("from")) {
    const Token file_at = cursor.peek();
    const std::string file = cursor.string("a file name in quotes");
    cursor.expect_end();
    if (!cursor.ok()) return;
    if (!source_.options.read) return cursor.expected_at(file_at, "contents, with text or base64");
    auto bytes = source_.options.read(file);
    if (!bytes) return cursor.fail(file_at.column, bytes.error().sentence);
    contents = std::move(*bytes);
  } else {
    const bool base64 = cursor.accept("base64");
    if (!base64 && !cursor.accept("text")) {
      return cursor.expected("from \"FILE\", text <<END, text open <<END or base64 <<END");
    }
    // The last line of "open" text has no end.
    const bool open = !base64 && cursor.accept("open");
    contents = inline_contents(cursor, base64);
    if (open && !contents.empty()) contents.pop_back();
  }
  if (cursor.ok() && !source_.assembly().members.emplace(name, std::move(contents)).second) {
    cursor.expected_at(at, "a name that no other member has");
  }
}

std::vector<uint8_t> FirstPass::inline_contents(Cursor& cursor, bool base64) {
  cursor.expect("<<");
  const std::string end = cursor.name("a word that ends the contents, as END");
  cursor.expect_end();
  if (!cursor.ok()) return {};
  const uint32_t first = number_;
  std::string text;
  std::string_view line;
  bool closed = false;
  while (next_line(line)) {
    closed = line == end;
    if (closed) break;
    text += line;
    if (!base64) text += '\n';
  }
  if (!closed) {
    cursor.fail(1, format("found the end of the text, expected a line {} that ends the contents "
                          "which begin in line {}",
                          in_quotes(end), first));
    return {};
  }
  if (!base64) return tools::bytes_of(text);
  auto bytes = from_base64(text);
  if (!bytes) cursor.fail(1, "the contents are not base64");
  return bytes ? std::move(*bytes) : std::vector<uint8_t>();
}

// Position of the first byte that is no UTF-8.
Place first_bad_byte(std::string_view text) {
  Place place;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    while (length < 4 && at + length < text.size() && (text[at + length] & 0xC0) == 0x80) ++length;
    if (!neff::is_utf8(text.substr(at, length))) return place;
    if (text[at] == '\n') {
      place = {place.line + 1, 1};
    } else {
      place.column += static_cast<uint32_t>(length);
    }
    at += length;
  }
  return place;
}

// Checks of the whole file, by those who read it.
void check_whole(Source& source) {
  const auto members = all_members(source.assembly());
  if (!members) return source.add_of_reader(members.error().sentence);
  tools::NeffOptions quick = source.assembly().options;
  quick.compress = false;
  const auto file = tools::write_neff(*members, quick);
  if (!file) return source.add_of_reader(file.error().sentence);
  const auto container = neff::Container::open(*file);
  if (!container) return source.add_of_reader(container.error().sentence);
  if (const auto model = neff::load_model(*container, {}); !model) {
    source.add_of_reader(model.error().sentence);
  }
}

}  // namespace

void Source::add_of_reader(const std::string& sentence) {
  Place found;
  size_t longest = 0;
  for (const auto& [beginning, place] : places) {
    if (beginning.size() <= longest || !sentence.starts_with(beginning)) continue;
    // "dma[1]" is no beginning of "dma[10]", nor "var.x" of "var.xy".
    const char next = sentence.size() > beginning.size() ? sentence[beginning.size()] : ':';
    const char last = beginning.back();
    if (last != '/' && last != ']' && next != ':' && next != '.' && next != ',') continue;
    longest = beginning.size();
    found = place;
  }
  add({found.line, found.column, sentence});
}

Assembled assemble(std::string_view text, const AssembleOptions& options) {
  Source source{options, {}, {}, {}, {}, {}, {}, {}};
  source.model().target = "trn1";
  if (!neff::is_utf8(text)) {
    const Place bad = first_bad_byte(text);
    source.add({bad.line, bad.column, "the text is not UTF-8; is this a program of neuron-as?"});
    return std::move(source.result);
  }
  FirstPass pass(source, text);
  pass.run();
  if (!source.result.ok()) return std::move(source.result);
  Directives(source).finish();
  if (source.programs.empty()) {
    source.add({1, 1, "the text names no engine; expected at least one .engine with instructions"});
  }
  if (!source.result.ok()) return std::move(source.result);
  for (const ProgramText& program : source.programs) assemble_engine(source, program);
  if (source.result.ok() && options.check) check_whole(source);
  return std::move(source.result);
}

}  // namespace neuron::assembler
