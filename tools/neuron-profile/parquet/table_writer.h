// SPDX-License-Identifier: Apache-2.0
//
// Writes one table as Parquet files, row by row, in memory that does not grow with the rows.
//
// Concepts: a row is begun by set(), field by field, and ended by end_row(). A field that was not
// set is null, or 0 or empty where every row must have it. kRowsOfGroup rows are written together,
// column by column: numbers plainly, texts through a dictionary of the group. A field of type
// kTexts, a list, has one text or is null. Nothing is compressed. With more than kGroupsOfFile
// groups the table goes on in NAME_1.parquet, NAME_2.parquet ... Callers: the tables of a profile,
// one thread. Owns the files. Fails: NRT_INVALID for a file that cannot be made, NRT_RESOURCE for
// one that cannot be written; the first failure stays.
#ifndef TOOLS_NEURON_PROFILE_PARQUET_TABLE_WRITER_H
#define TOOLS_NEURON_PROFILE_PARQUET_TABLE_WRITER_H

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/parquet/schema.h"
#include "tools/neuron-profile/parquet/thrift.h"
#include "tools/neuron-profile/sink/sink.h"

namespace neuron::profile::parquet {

class TableWriter {
 public:
  static constexpr uint32_t kRowsOfGroup = 65'536;
  static constexpr size_t kGroupsOfFile = 1024;

  // Files of this table in a folder that exists.
  TableWriter(const Table& table, std::string folder);

  // A number for a text that is set often; it is good for this writer while epoch() stays: behind a
  // group with very many texts all are forgotten.
  uint32_t known(std::string_view text);
  uint32_t epoch() const { return epoch_; }

  // The type must be the field's.
  void set(size_t field, int64_t value);
  void set_real(size_t field, double value);
  void set_truth(size_t field, bool value);
  void set_text(size_t field, std::string_view text) { set_known(field, known(text)); }
  void set_known(size_t field, uint32_t text);
  runtime::Result<void> end_row();
  // Writes the rest. A table without rows has no file.
  runtime::Result<void> close();
  uint64_t rows() const { return rows_; }
  const Table& table() const { return table_; }

 private:
  // Numbers as they stand in the file. A std::string would call its library for each of them.
  class Numbers {
   public:
    template <class Number>
    void put(Number number) {
      if (used_ + sizeof(number) > bytes_.size()) bytes_.resize(bytes_.size() * 2 + kFirst);
      std::memcpy(bytes_.data() + used_, &number, sizeof(number));
      used_ += sizeof(number);
    }
    std::string_view bytes() const { return {bytes_.data(), used_}; }
    void clear() { used_ = 0; }

   private:
    static constexpr size_t kFirst = 1024;
    std::vector<char> bytes_;
    size_t used_ = 0;
  };
  // Rows of one field in the present group. Behind it the memory is kept for the next one.
  struct Column {
    Type type = Type::kInt64;  // of the field, beside what each value touches
    uint32_t rows = 0;
    uint32_t run = 0;     // rows of the run that is not ended yet
    bool present = true;  // whether these have a value
    Numbers plain;
    std::vector<uint32_t> texts;  // places in `dictionary`
    std::vector<uint32_t> dictionary;
    std::vector<bool> truths;
    // Ended runs of rows that have a value, and have none, in turn; the first one has values.
    std::vector<uint32_t> runs;

    void note(bool has_value, uint32_t count) {
      if (has_value != present) {
        runs.push_back(run);
        run = 0;
        present = has_value;
      }
      run += count;
      rows += count;
    }
    void clear();
  };
  // Finds a text without making a string of it.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Chunk {
    uint64_t data = 0, dictionary = 0, bytes = 0;
    uint32_t values = 0;
  };
  struct Group {
    std::vector<Chunk> chunks;
    uint32_t rows = 0;
  };

  // The rows since the last one that has a value of the field have none.
  void reach(Column& column, size_t field) {
    if (column.rows != group_rows_) pass_over(column, field, group_rows_ - column.rows);
  }
  void pass_over(Column& column, size_t field, uint32_t missing);
  void put_default(Column& column, Type type);
  runtime::Result<void> write_group();
  void forget_texts();
  Chunk write_column(size_t field);
  std::string levels_of(const Column& column, uint8_t present) const;
  std::string indices_of(const Column& column) const;
  void write_page(const Thrift& header, const std::string& bytes);
  runtime::Result<void> finish_file();
  std::string footer() const;

  const Table& table_;
  const std::string folder_;
  std::optional<Sink> file_;
  uint64_t at_ = 0;    // bytes of the file
  size_t number_ = 0;  // of the file
  std::vector<Column> columns_;
  std::vector<Group> groups_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> numbers_;
  uint32_t epoch_ = 0;
  // Of each column: place of a text in the dictionary of the present group, or 0; else 1 more.
  std::vector<std::vector<uint32_t>> places_;
  uint32_t group_rows_ = 0;
  uint64_t rows_ = 0;
  uint64_t file_rows_ = 0;
};

}  // namespace neuron::profile::parquet

#endif
