// SPDX-License-Identifier: Apache-2.0
//
// A folder of tables that is replaced as a whole.
//
// Tables are written into a hidden folder within it, and take their places in publish(), which
// removes those of an earlier profile: the two would be mixed. Whoever else publishes into the
// folder waits meanwhile, so what lies there in the end is of one profile. Without publish() the
// earlier tables stay. Other files stay always: the folder is one that the user has named. What a
// program that was killed has left goes with the next tables. Callers: the tables of a profile and
// of a session, one thread. Owns the hidden folder. Fails: NRT_INVALID for a folder that cannot be
// used, or one of whose tables is an input.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_TABLE_FOLDER_H
#define TOOLS_NEURON_PROFILE_OUTPUT_TABLE_FOLDER_H

#include <string>
#include <utility>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "runtime/base/error.h"

namespace neuron::profile {

class TableFolder {
 public:
  // Makes the folder if it is not there.
  static runtime::Result<TableFolder> open(const std::string& folder,
                                           const std::vector<std::string>& inputs);
  TableFolder(TableFolder&& other) noexcept
      : folder_(std::move(other.folder_)),
        hidden_(std::exchange(other.hidden_, {})),
        mine_(std::move(other.mine_)),
        made_(std::exchange(other.made_, false)) {}
  TableFolder& operator=(TableFolder&&) = delete;
  ~TableFolder();

  // Where the tables are to be written.
  const std::string& hidden() const { return hidden_; }
  runtime::Result<void> publish();

 private:
  explicit TableFolder(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_, hidden_;
  base::FileDescriptor mine_;  // of hidden_, locked: somebody still writes it
  bool made_ = false;          // the folder was not there before
};

}  // namespace neuron::profile

#endif
