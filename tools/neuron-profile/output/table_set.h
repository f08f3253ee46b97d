// SPDX-License-Identifier: Apache-2.0
//
// The tables of one profile in a folder: which of them have rows, and how many. Callers: the
// writers of tables. Values; one thread. Fails as the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_TABLE_SET_H
#define TOOLS_NEURON_PROFILE_OUTPUT_TABLE_SET_H

#include <string>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/parquet/table_writer.h"

namespace neuron::profile {

// Nanoseconds, rounded to the nearest; of any number, since a damaged file may have any.
inline int64_t ns(int64_t ps) {
  const int64_t rest = ps % 1000;
  return ps / 1000 + (rest >= 500 ? 1 : rest <= -500 ? -1 : 0);
}
// Times of tables count from here.
struct Origin {
  uint64_t first = 0;
  int64_t since(uint64_t time) const { return ns(static_cast<int64_t>(time - first)); }
};

class TableSet {
 public:
  // The folder exists.
  explicit TableSet(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  // Ends a table. One without rows is none of the set.
  runtime::Result<void> close(parquet::TableWriter& writer) {
    NEURON_CHECK(writer.close());
    if (writer.rows() != 0) names_.push_back(writer.table().name);
    rows_ += writer.rows();
    return {};
  }
  // A table that is small enough to be written at once: `fill` sets and ends its rows.
  template <class Fill>
  runtime::Result<void> write(const char* name, Fill&& fill) {
    const parquet::Table& table = parquet::table(name);
    parquet::TableWriter writer(table, folder_);
    NEURON_CHECK(fill(writer, table));
    return close(writer);
  }
  const std::vector<std::string>& names() const { return names_; }
  uint64_t rows() const { return rows_; }

 private:
  std::string folder_;
  std::vector<std::string> names_;
  uint64_t rows_ = 0;
};

// What is known of a key, while the writer of its texts keeps their numbers.
template <class Value>
class KnownTexts {
 public:
  template <class Make>
  const Value& of(uint64_t key, const parquet::TableWriter& writer, Make&& make) {
    if (epoch_ != writer.epoch()) {
      known_.clear();
      epoch_ = writer.epoch();
    }
    const auto [found, added] = known_.try_emplace(key);
    if (added) found->second = make();
    return found->second;
  }

 private:
  std::unordered_map<uint64_t, Value> known_;
  uint32_t epoch_ = 0;
};

// The first failure of several calls stays.
class FirstFailure {
 public:
  void keep(const runtime::Result<void>& result) {
    if (state_ && !result) state_ = result;
  }
  const runtime::Result<void>& state() const { return state_; }

 private:
  runtime::Result<void> state_;
};

}  // namespace neuron::profile

#endif
