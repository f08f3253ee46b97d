// SPDX-License-Identifier: Apache-2.0
//
// Files with secrets: the server takes none that others could read or change.
// Callers: at the start and at each reload. Thread-safe: no state. Fails: nothing, and `error` has
// a sentence that says which permissions are wrong and how to set them right.
#ifndef TOOLS_NEURON_SERVE_PRIVATE_FILE_H
#define TOOLS_NEURON_SERVE_PRIVATE_FILE_H

#include <sys/stat.h>

#include <optional>
#include <string>

namespace neuron::serve {

// The file must be the server's own or root's. Nobody else may write it; the group of a file of
// root may read it, as /etc has it for services. At most a megabyte.
std::optional<std::string> read_private_file(const std::string& path, std::string& error);

// The rule above for a file of these properties and a server that runs as `user`: what is wrong
// with it, or "". Does not look at the file.
std::string distrust(const std::string& path, const struct stat& status, uid_t user);

}  // namespace neuron::serve

#endif
