// SPDX-License-Identifier: Apache-2.0
//
// Numbers of fields, types and encodings are those of the format's published definition
// (parquet.thrift of Apache Parquet).
#include "tools/neuron-profile/parquet/table_writer.h"

#include <bit>
#include <cstring>

namespace neuron::profile::parquet {
namespace {

using runtime::Result;

constexpr std::string_view kMagic = "PAR1";
constexpr int kDataPage = 0, kDictionaryPage = 2;
constexpr int kPlain = 0, kRunLength = 3, kByDictionary = 8;
constexpr int kUncompressed = 0;
constexpr int kRequired = 0, kOptional = 1, kRepeated = 2;
constexpr int kUtf8 = 0, kList = 3;  // kinds of contents
// What a list without a list is, and what one with a text: nothing, and all of optional list,
// repeated element and optional text.
constexpr uint8_t kOfList = 3;
constexpr size_t kMostTexts = 1u << 16;  // that are kept from one group to the next

int physical(Type type) {
  switch (type) {
    case Type::kBoolean:
      return 0;
    case Type::kInt32:
      return 1;
    case Type::kInt64:
      return 2;
    case Type::kFloat:
      return 4;
    case Type::kDouble:
      return 5;
    case Type::kText:
    case Type::kTexts:
      return 6;
  }
  return 2;
}

template <class Number>
void append(std::string& to, Number value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  to.append(bytes, sizeof(value));
}

void varint(std::string& to, uint64_t value) {
  while (value >= 128) {
    to += static_cast<char>(value | 128);
    value >>= 7;
  }
  to += static_cast<char>(value);
}

}  // namespace

TableWriter::TableWriter(const Table& table, std::string folder)
    : table_(table),
      folder_(std::move(folder)),
      columns_(table.fields.size()),
      places_(table.fields.size()) {
  for (size_t field = 0; field < columns_.size(); ++field) {
    columns_[field].type = table.fields[field].type;
  }
}

uint32_t TableWriter::known(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto number = static_cast<uint32_t>(texts_.size());
  numbers_.emplace(text, number);
  texts_.emplace_back(text);
  return number;
}

void TableWriter::Column::clear() {
  rows = run = 0;
  present = true;
  plain.clear();
  texts.clear();
  dictionary.clear();
  truths.clear();
  runs.clear();
}

void TableWriter::put_default(Column& column, Type type) {
  switch (type) {
    case Type::kBoolean:
      column.truths.push_back(false);
      break;
    case Type::kInt32:
    case Type::kFloat:
      column.plain.put(uint32_t{0});
      break;
    case Type::kInt64:
    case Type::kDouble:
      column.plain.put(uint64_t{0});
      break;
    case Type::kText:
    case Type::kTexts:
      break;  // by the caller, as it needs the dictionary
  }
}

void TableWriter::pass_over(Column& column, size_t field, uint32_t missing) {
  const Field& of = table_.fields[field];
  if (!of.required) return column.note(false, missing);
  for (uint32_t n = 0; n < missing; ++n) {
    if (of.type != Type::kText) {
      put_default(column, of.type);
      column.note(true, 1);
      continue;
    }
    const uint32_t empty = known("");
    auto& places = places_[field];
    if (places.size() <= empty) places.resize(empty + 1);
    if (places[empty] == 0) {
      column.dictionary.push_back(empty);
      places[empty] = static_cast<uint32_t>(column.dictionary.size());
    }
    column.texts.push_back(places[empty] - 1);
    column.note(true, 1);
  }
}

void TableWriter::set(size_t field, int64_t value) {
  Column& column = columns_[field];
  reach(column, field);
  if (column.type == Type::kInt32) {
    column.plain.put(static_cast<int32_t>(value));
  } else {
    column.plain.put(value);
  }
  column.note(true, 1);
}

void TableWriter::set_real(size_t field, double value) {
  Column& column = columns_[field];
  reach(column, field);
  if (column.type == Type::kFloat) {
    column.plain.put(static_cast<float>(value));
  } else {
    column.plain.put(value);
  }
  column.note(true, 1);
}

void TableWriter::set_truth(size_t field, bool value) {
  Column& column = columns_[field];
  reach(column, field);
  column.truths.push_back(value);
  column.note(true, 1);
}

void TableWriter::set_known(size_t field, uint32_t text) {
  Column& column = columns_[field];
  reach(column, field);
  auto& places = places_[field];
  if (places.size() <= text) places.resize(texts_.size());
  if (places[text] == 0) {
    column.dictionary.push_back(text);
    places[text] = static_cast<uint32_t>(column.dictionary.size());
  }
  column.texts.push_back(places[text] - 1);
  column.note(true, 1);
}

Result<void> TableWriter::end_row() {
  ++group_rows_;
  ++rows_;
  if (group_rows_ < kRowsOfGroup) return {};
  return write_group();
}

Result<void> TableWriter::close() {
  if (group_rows_ != 0) NEURON_CHECK(write_group());
  return file_ ? finish_file() : Result<void>();
}

// `present`: the level of a row with a value; it takes a byte.
std::string TableWriter::levels_of(const Column& column, uint8_t present) const {
  std::string runs;
  const auto add = [&](uint32_t rows, bool has_value) {
    if (rows == 0) return;
    varint(runs, uint64_t{rows} << 1);
    runs += has_value ? static_cast<char>(present) : '\0';
  };
  for (size_t n = 0; n < column.runs.size(); ++n) add(column.runs[n], n % 2 == 0);
  add(column.run, column.present);
  std::string out;
  append(out, static_cast<uint32_t>(runs.size()));
  return out + runs;
}

// One run of numbers that are packed bit by bit, lowest first, in groups of eight.
std::string TableWriter::indices_of(const Column& column) const {
  const auto most = static_cast<uint32_t>(column.dictionary.size() - 1);
  const unsigned width = std::max(1u, static_cast<unsigned>(std::bit_width(most)));
  std::string out(1, static_cast<char>(width));
  const size_t groups = (column.texts.size() + 7) / 8;
  varint(out, uint64_t{groups} << 1 | 1);
  size_t at = out.size();
  out.resize(at + groups * width);
  uint64_t waiting = 0;
  unsigned bits = 0;
  for (size_t n = 0; n < groups * 8; ++n) {
    const uint64_t value = n < column.texts.size() ? column.texts[n] : 0;
    waiting |= value << bits;
    bits += width;
    while (bits >= 8) {
      out[at++] = static_cast<char>(waiting);
      waiting >>= 8;
      bits -= 8;
    }
  }
  return out;
}

void TableWriter::write_page(const Thrift& header, const std::string& bytes) {
  file_->write(header.bytes());
  file_->write(bytes);
  at_ += header.bytes().size() + bytes.size();
}

TableWriter::Chunk TableWriter::write_column(size_t field) {
  Column& column = columns_[field];
  reach(column, field);
  const Field& of = table_.fields[field];
  const bool list = of.type == Type::kTexts;
  const bool by_dictionary = !column.dictionary.empty();
  Chunk chunk;
  const uint64_t begin = at_;
  if (by_dictionary) {
    std::string words;
    for (const uint32_t text : column.dictionary) {
      append(words, static_cast<uint32_t>(texts_[text].size()));
      words += texts_[text];
      places_[field][text] = 0;
    }
    Thrift header;
    header.begin_element();
    header.number(1, kDictionaryPage);
    header.number(2, static_cast<int64_t>(words.size()));
    header.number(3, static_cast<int64_t>(words.size()));
    header.begin_struct(7);
    header.number(1, static_cast<int64_t>(column.dictionary.size()));
    header.number(2, kPlain);
    header.end();
    header.end();
    chunk.dictionary = at_;
    write_page(header, words);
  }
  std::string page;
  if (list) {
    // No row repeats a list's element.
    std::string once;
    varint(once, uint64_t{column.rows} << 1);
    once += '\0';
    append(page, static_cast<uint32_t>(once.size()));
    page += once;
  }
  if (!of.required) page += levels_of(column, list ? kOfList : 1);
  if (by_dictionary) {
    page += indices_of(column);
  } else if (of.type == Type::kBoolean) {
    std::string bits((column.truths.size() + 7) / 8, '\0');
    for (size_t n = 0; n < column.truths.size(); ++n) {
      if (column.truths[n]) bits[n / 8] = static_cast<char>(bits[n / 8] | 1 << n % 8);
    }
    page += bits;
  } else {
    page += column.plain.bytes();
  }
  Thrift header;
  header.begin_element();
  header.number(1, kDataPage);
  header.number(2, static_cast<int64_t>(page.size()));
  header.number(3, static_cast<int64_t>(page.size()));
  header.begin_struct(5);
  header.number(1, column.rows);
  header.number(2, by_dictionary ? kByDictionary : kPlain);
  header.number(3, kRunLength);
  header.number(4, kRunLength);
  header.end();
  header.end();
  chunk.data = at_;
  chunk.values = column.rows;
  write_page(header, page);
  chunk.bytes = at_ - begin;
  column.clear();
  return chunk;
}

Result<void> TableWriter::write_group() {
  if (!file_) {
    const std::string name =
        folder_ + "/" + table_.name + (number_ == 0 ? "" : "_" + std::to_string(number_));
    NEURON_TRY(file, Sink::open(name + ".parquet"));
    file_.emplace(std::move(file));
    file_->write(kMagic);
    at_ = kMagic.size();
  }
  Group group;
  for (size_t field = 0; field < columns_.size(); ++field) {
    group.chunks.push_back(write_column(field));
  }
  group.rows = group_rows_;
  file_rows_ += group_rows_;
  group_rows_ = 0;
  groups_.push_back(std::move(group));
  if (texts_.size() > kMostTexts) forget_texts();
  return groups_.size() < kGroupsOfFile ? Result<void>() : finish_file();
}

void TableWriter::forget_texts() {
  texts_.clear();
  numbers_.clear();
  places_.assign(table_.fields.size(), {});
  ++epoch_;
}

std::string TableWriter::footer() const {
  Thrift out;
  out.begin_element();
  out.number(1, 1);
  size_t elements = table_.fields.size() + 1;
  for (const Field& field : table_.fields) elements += field.type == Type::kTexts ? 2 : 0;
  out.begin_list(2, elements, Thrift::kStruct);
  out.begin_element();
  out.text(4, "schema");
  out.number(5, static_cast<int64_t>(table_.fields.size()));
  out.end();
  const auto group = [&](const std::string& name, int repetition, bool list) {
    out.begin_element();
    out.number(3, repetition);
    out.text(4, name);
    out.number(5, 1);
    if (list) out.number(6, kList);
    out.end();
  };
  for (const Field& field : table_.fields) {
    const bool list = field.type == Type::kTexts;
    if (list) {
      group(field.name, kOptional, true);
      group("list", kRepeated, false);
    }
    out.begin_element();
    out.number(1, physical(field.type));
    out.number(3, field.required ? kRequired : kOptional);
    out.text(4, list ? "element" : field.name);
    if (list || field.type == Type::kText) out.number(6, kUtf8);
    out.end();
  }
  out.number(3, static_cast<int64_t>(file_rows_), Thrift::kInt64);
  out.begin_list(4, groups_.size(), Thrift::kStruct);
  for (const Group& rows : groups_) {
    out.begin_element();
    out.begin_list(1, rows.chunks.size(), Thrift::kStruct);
    uint64_t bytes = 0;
    for (size_t n = 0; n < rows.chunks.size(); ++n) {
      const Chunk& chunk = rows.chunks[n];
      bytes += chunk.bytes;
      out.begin_element();
      out.number(2, 0, Thrift::kInt64);
      out.begin_struct(3);
      out.number(1, physical(table_.fields[n].type));
      out.begin_list(2, 3, Thrift::kInt32);
      for (const int encoding : {kPlain, kRunLength, kByDictionary}) out.zigzag(encoding);
      const bool list = table_.fields[n].type == Type::kTexts;
      out.begin_list(3, list ? 3 : 1, Thrift::kBinary);
      out.plain_text(table_.fields[n].name);
      if (list) {
        out.plain_text("list");
        out.plain_text("element");
      }
      out.number(4, kUncompressed);
      out.number(5, chunk.values, Thrift::kInt64);
      out.number(6, static_cast<int64_t>(chunk.bytes), Thrift::kInt64);
      out.number(7, static_cast<int64_t>(chunk.bytes), Thrift::kInt64);
      out.number(9, static_cast<int64_t>(chunk.data), Thrift::kInt64);
      if (chunk.dictionary != 0) {
        out.number(11, static_cast<int64_t>(chunk.dictionary), Thrift::kInt64);
      }
      out.end();
      out.end();
    }
    out.number(2, static_cast<int64_t>(bytes), Thrift::kInt64);
    out.number(3, rows.rows, Thrift::kInt64);
    out.end();
  }
  out.text(6, "neuron-profile");
  out.end();
  return out.bytes();
}

Result<void> TableWriter::finish_file() {
  const std::string end = footer();
  file_->write(end);
  std::string length;
  append(length, static_cast<uint32_t>(end.size()));
  file_->write(length);
  file_->write(kMagic);
  NEURON_CHECK(file_->close());
  file_.reset();
  groups_.clear();
  file_rows_ = 0;
  ++number_;
  return {};
}

}  // namespace neuron::profile::parquet
