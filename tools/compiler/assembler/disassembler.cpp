// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/disassembler.h"

#include <algorithm>
#include <set>

#include "driver/base/format.h"
#include "runtime/neff/npy.h"
#include "runtime/neff/text.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/names.h"
#include "tools/compiler/assembler/program_printer.h"

namespace neuron::assembler {

using base::format;
using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kBase64Columns = 100;
constexpr size_t kMostText = 1 << 24;
constexpr const char* kEnd = "END";

bool same(neff::Bytes a, neff::Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// True if .member can give the contents as text lines: printable, and no line equals the end mark.
bool fits_lines(std::string text) {
  if (text.empty() || !neff::is_utf8(text)) return false;
  if (text.back() != '\n') text += '\n';
  if (text == format("{}\n", kEnd) || text.starts_with(format("{}\n", kEnd)) ||
      text.find(format("\n{}\n", kEnd)) != std::string_view::npos) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t';
  });
}

class Printer {
 public:
  Printer(neff::Bytes file, const neff::Container& container, const DisassembleOptions& options)
      : file_(file), container_(container), options_(options) {}

  Result<Disassembly> run();

 private:
  Result<void> read();
  std::string print() const;
  std::string header() const;
  std::string member(const neff::Member& member) const;
  Result<void> compare(const std::string& text, Disassembly& out);
  Result<void> save_constants();
  void remark(const std::string& name);

  neff::Bytes file_;
  const neff::Container& container_;
  const DisassembleOptions& options_;
  neff::Model model_;
  std::vector<SubgraphFiles> files_;
  std::set<std::string> written_;    // Members that directives stand for
  std::set<std::string> constants_;  // Members of variables
  std::map<std::string, std::string> saved_;
  Remarks remarks_;
  bool uuid_ = false;
};

// Type and shape of a constant, for the reader.
void Printer::remark(const std::string& name) {
  constants_.insert(name);
  if (!name.ends_with(".npy")) return;
  const auto array = neff::parse_npy(container_.find(name)->bytes);
  if (!array) return;
  std::string shape;
  for (uint64_t size : array->shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  }
  remarks_[name] = format("{} [{}]", base::escaped(array->type), shape);
}

Result<void> Printer::read() {
  NEURON_TRY(assembly, read_assembly(container_));
  model_ = std::move(assembly.model);
  files_ = std::move(assembly.files);
  for (const neff::Subgraph& subgraph : model_.subgraphs) {
    for (const neff::Variable& variable : subgraph.variables) {
      if (variable.kind == neff::VariableKind::kFile) remark(variable.file_name);
    }
  }
  for (const neff::Member& each : container_.members()) {
    if (!assembly.members.contains(each.name)) written_.insert(each.name);
  }
  return {};
}

std::string Printer::header() const {
  const neff::Header& header = container_.header();
  const tools::NeffOptions usual;
  std::string text =
      format("# {}: {} members, {} bytes{}; uuid {}\n", neff::printable(header.name),
             container_.members().size(), file_.size(), container_.compressed() ? ", gzip" : "",
             neff::hexadecimal(header.uuid));
  text +=
      format(".neff name={}, build={}", in_quotes(header.name), in_quotes(header.build_version));
  if (header.version_major != usual.version_major || header.version_minor != usual.version_minor) {
    text += format(", version={}.{}", header.version_major, header.version_minor);
  }
  if (header.feature_bits != usual.feature_bits) {
    text += format(", features={:#x}", header.feature_bits);
  }
  if (header.num_tpb != model_.subgraphs.size()) text += format(", cores={}", header.num_tpb);
  if (header.pkg_version != usual.header_version) {
    text += format(", header={}", header.pkg_version);
  }
  if (!container_.compressed()) text += ", compress=no";
  if (uuid_) text += ", uuid=" + in_quotes(neff::hexadecimal(header.uuid));
  text += "\n.target " + spelled(model_.target);
  if (model_.lnc != 1) text += format(", lnc={}", model_.lnc);
  return text + "\n";
}

std::string Printer::member(const neff::Member& member) const {
  const std::string name = in_quotes(member.name);
  if (const auto saved = saved_.find(member.name); saved != saved_.end()) {
    return format(".member {} from {}\n", name, in_quotes(saved->second));
  }
  const std::string contents(member.bytes.begin(), member.bytes.end());
  if (member.bytes.size() < kMostText && fits_lines(contents)) {
    const bool open = contents.back() != '\n';
    return format(".member {} text {}<<{}\n", name, open ? "open " : "", kEnd) + contents +
           (open ? "\n" : "") + kEnd + "\n";
  }
  const std::string encoded = base64(member.bytes);
  std::string text =
      format(".member {} base64 <<{}  # {} bytes\n", name, kEnd, member.bytes.size());
  for (size_t at = 0; at < encoded.size(); at += kBase64Columns) {
    text += encoded.substr(at, kBase64Columns) + "\n";
  }
  return text + kEnd + "\n";
}

std::string Printer::print() const {
  std::string text = header();
  const bool together = tensors_follow_variables(model_);
  for (uint32_t s = 0; s < model_.subgraphs.size(); ++s) {
    const neff::Subgraph& subgraph = model_.subgraphs[s];
    if (model_.subgraphs.size() > 1 || subgraph.name != "sg00") {
      text += "\n.subgraph " + spelled(subgraph.name) + "\n";
    }
    text += declarations_text(model_, s, files_[s], together, remarks_);
    if (!together) text += tensors_text(model_, s);
    for (size_t e = 0; e < subgraph.engines.size(); ++e) {
      if (!files_[s].engines[e].used) continue;
      text +=
          engine_text(subgraph, subgraph.engines[e], files_[s].engines[e], model_.generation, "");
    }
    for (size_t i = 0; i < subgraph.collectives.size(); ++i) {
      text += engine_text(subgraph, subgraph.collectives[i].program, files_[s].collectives[i],
                          model_.generation, format(", stream={}", subgraph.collectives[i].stream));
    }
  }
  text += "\n";
  for (const neff::Member& each : container_.members()) {
    if (!written_.contains(each.name)) text += member(each);
  }
  return text;
}

Result<void> Printer::save_constants() {
  if (!options_.save) return {};
  for (const std::string& name : constants_) {
    NEURON_TRY(path, options_.save(name, container_.find(name)->bytes));
    saved_[name] = path;
  }
  return {};
}

// Assembles the text and compares. Members that differ are printed byte by byte the next time.
Result<void> Printer::compare(const std::string& text, Disassembly& out) {
  AssembleOptions options;
  options.check = false;
  options.read = [this](const std::string& file) -> Result<std::vector<uint8_t>> {
    for (const auto& [name, path] : saved_) {
      if (path != file) continue;
      const neff::Bytes bytes = container_.find(name)->bytes;
      return std::vector<uint8_t>(bytes.begin(), bytes.end());
    }
    return fail(NRT_INVALID, "{} is not part of the file", file);
  };
  Assembled assembled = assemble(text, options);
  if (!assembled.ok()) {
    return fail(NRT_FAILURE, "the text of this file cannot be read back: {}",
                render(assembled.errors[0], "text", text));
  }
  NEURON_TRY(members, all_members(assembled.assembly));
  for (const neff::Member& each : container_.members()) {
    const auto made = members.find(each.name);
    if (made != members.end() && same(made->second, each.bytes)) continue;
    if (written_.erase(each.name)) out.verbatim.push_back(each.name);
  }
  NEURON_TRY(file, tools::write_neff(members, assembled.assembly.options));
  out.same_file = same(file, file_);
  NEURON_TRY(again, neff::Container::open(file));
  uuid_ = uuid_ || again.header().uuid != container_.header().uuid;
  return {};
}

Result<Disassembly> Printer::run() {
  NEURON_CHECK(read());
  NEURON_CHECK(save_constants());
  Disassembly out;
  out.text = print();
  NEURON_CHECK(compare(out.text, out));
  if (!out.verbatim.empty() || uuid_) {
    out.text = print();
    NEURON_CHECK(compare(out.text, out));
  }
  std::string notes;
  for (const std::string& name : out.verbatim) {
    notes += format("# {} has what no directive says; it is given as it is, below\n",
                    base::escaped(name));
  }
  if (!out.same_file) {
    notes += "# the file was packed by another tool: its members come back, not its bytes\n";
  }
  out.text.insert(0, notes);
  return out;
}

}  // namespace

Result<Disassembly> disassemble(neff::Bytes file, const DisassembleOptions& options) {
  NEURON_TRY(container, neff::Container::open(file));
  return Printer(file, container, options).run();
}

}  // namespace neuron::assembler
