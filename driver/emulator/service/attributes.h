// SPDX-License-Identifier: Apache-2.0
// The tree of attributes of one device: what a kernel driver shows in sysfs for it.
//
// Concepts: paths are relative to the device's folder; the files and what they say are those of the
// module (driver/core/attribute_rows.h has the names of its counters). A write to a counter sets it
// to 0, to anything else it does nothing. A device that nobody has opened has its identity and
// zeros. Callers: observer.h and the daemon's export of the tree, any thread; waits for nobody.
// Borrows the instance. Fails: negative errno and a sentence: -ENOENT, -EISDIR, -EAGAIN while the
// device is being reset.
#ifndef DRIVER_EMULATOR_SERVICE_ATTRIBUTES_H
#define DRIVER_EMULATOR_SERVICE_ATTRIBUTES_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::service {

class Device;
class Instance;

// One file of the tree.
struct Attribute {
  enum class Kind : uint8_t {
    kResult,  // id: counter of the datastore
    kResetRequests,
    kResetFailures,
    kDeviceCategory,  // id: category of memory
    kCoreCategory,
    kCoreHost,
    kCoreDevice,
    kText,  // id: see attributes.cpp
  };
  enum class Field : uint8_t { kTotal, kPresent, kPeak };
  std::string path;
  Kind kind;
  Field field;
  uint32_t core;
  uint32_t id;
  uint16_t mode;
};

class Attributes {
 public:
  // `device` is one of the instance.
  Attributes(Instance& instance, unsigned device);

  int read(std::string_view path, std::string& text) const;
  int write(std::string_view path, std::string_view text) const;
  // Names, a line each, folders with a '/' behind.
  int list(std::string_view folder, std::string& text) const;
  // "path value", a line each, of all below the folder, from the `first` file on.
  int tree(std::string_view folder, uint64_t first, size_t limit, std::string& text,
           uint64_t& next) const;

  // All files; the same for devices of the same shape, for as long as the process lives.
  const std::vector<Attribute>& files() const { return files_; }
  // Null: no such file.
  const Attribute* find(std::string_view path) const;
  bool is_folder(std::string_view path) const;

 private:
  int value(const Attribute& attribute, std::string& text) const;
  int number(const Attribute& attribute, uint64_t& out) const;
  int text_of(const Attribute& attribute, std::string& out) const;
  int errors_of(const Attribute& attribute, std::string& out) const;
  int missing(std::string_view path) const;

  Instance& instance_;
  const unsigned index_;
  const std::vector<Attribute>& files_;
};

}  // namespace neuron::service

#endif
