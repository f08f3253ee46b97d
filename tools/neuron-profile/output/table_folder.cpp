// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/table_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tools/neuron-profile/parquet/schema.h"
#include "tools/neuron-profile/sink/sink.h"

namespace neuron::profile {
namespace {

namespace fs = std::filesystem;
using runtime::fail;
using runtime::Result;

constexpr std::string_view kHidden = ".tables-";

// NAME.parquet or NAME_NUMBER.parquet of a table.
bool is_of_tables(const fs::path& file) {
  if (file.extension() != ".parquet") return false;
  std::string name = file.stem().string();
  const size_t letters = name.find_last_not_of("0123456789");
  if (letters != std::string::npos && letters + 1 < name.size() && name[letters] == '_') {
    name.resize(letters);
  }
  const auto& tables = parquet::tables();
  return std::any_of(tables.begin(), tables.end(),
                     [&](const parquet::Table& table) { return table.name == name; });
}

// Locks a folder until the descriptor is closed. No descriptor: it is not there, or, without
// waiting, somebody else has it. Whoever waits on a file system without locks goes on without one.
base::FileDescriptor locked(const std::string& folder, bool wait) {
  base::FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return descriptor;
  int done = 0;
  // bounded: it ends when nobody else publishes here.
  do {
    done = ::flock(descriptor.get(), LOCK_EX | (wait ? 0 : LOCK_NB));
  } while (done != 0 && errno == EINTR);
  return done == 0 || wait ? std::move(descriptor) : base::FileDescriptor();
}

std::vector<fs::path> files_of(const std::string& folder, bool (*wanted)(const fs::path&),
                               std::error_code& error) {
  std::vector<fs::path> found;
  fs::directory_iterator entry(folder, error);
  // bounded: each turn passes an entry of the folder.
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (wanted(entry->path())) found.push_back(entry->path());
  }
  return found;
}

// Of programs that were killed: nobody has them locked.
void remove_left_over(const std::string& folder) {
  std::error_code ignored;
  const auto hidden = [](const fs::path& path) {
    return path.filename().string().starts_with(kHidden);
  };
  for (const fs::path& path : files_of(folder, hidden, ignored)) {
    const base::FileDescriptor lock = locked(path.string(), false);
    if (lock.get() >= 0) fs::remove_all(path, ignored);
  }
}

}  // namespace

Result<TableFolder> TableFolder::open(const std::string& folder,
                                      const std::vector<std::string>& inputs) {
  NEURON_CHECK(refuse_inputs(folder, inputs));
  const auto failure = [&](const std::string& reason) {
    return fail(NRT_INVALID, "the folder '{}' for tables cannot be made: {}", folder, reason);
  };
  TableFolder tables(folder);
  std::error_code error;
  tables.made_ = fs::create_directories(folder, error);
  if (error) return failure(error.message());
  for (const fs::path& old : files_of(folder, is_of_tables, error)) {
    NEURON_CHECK(refuse_inputs(old.string(), inputs));
  }
  // So that nobody takes the new folder for one that was left over before it is locked, too.
  const base::FileDescriptor lock = locked(folder, true);
  if (lock.get() < 0) return failure(std::error_code(errno, std::generic_category()).message());
  remove_left_over(folder);
  std::string hidden = folder + "/" + std::string(kHidden) + "XXXXXX";
  if (::mkdtemp(hidden.data()) == nullptr) {
    return failure(std::error_code(errno, std::generic_category()).message());
  }
  tables.hidden_ = hidden;
  tables.mine_ = locked(hidden, false);
  return tables;
}

TableFolder::~TableFolder() {
  std::error_code ignored;
  if (!hidden_.empty()) fs::remove_all(hidden_, ignored);
  // Only an empty one goes.
  if (made_) ::rmdir(folder_.c_str());
}

Result<void> TableFolder::publish() {
  const base::FileDescriptor lock = locked(folder_, true);
  std::error_code error;
  if (lock.get() < 0) error = {errno, std::generic_category()};
  std::vector<fs::path> old, fresh;
  if (!error) old = files_of(folder_, is_of_tables, error);
  if (!error) fresh = files_of(hidden_, is_of_tables, error);
  for (const fs::path& file : old) {
    const auto same = [&](const fs::path& one) { return one.filename() == file.filename(); };
    if (!error && std::none_of(fresh.begin(), fresh.end(), same)) fs::remove(file, error);
  }
  for (const fs::path& file : fresh) {
    if (!error) fs::rename(file, fs::path(folder_) / file.filename(), error);
  }
  if (!error) {
    made_ = false;
    return {};
  }
  return fail(NRT_INVALID, "the tables of an earlier profile in '{}' cannot be replaced: {}",
              folder_, error.message());
}

}  // namespace neuron::profile
