// SPDX-License-Identifier: Apache-2.0
// An environment variable for the length of a scope. The destructor restores what was there before.
//
// Callers: one thread, while no other reads the environment. Waits for nothing.
#ifndef TESTS_SUPPORT_SETTING_H
#define TESTS_SUPPORT_SETTING_H

#include <cstdlib>
#include <optional>
#include <string>

namespace neuron::test {

class Setting {
 public:
  // Null removes the variable.
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  Setting(const char* name, const std::string& value) : Setting(name, value.c_str()) {}
  ~Setting() { set(old_ ? old_->c_str() : nullptr); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  // Another value for the rest of the scope.
  void set(const char* value) {
    value == nullptr ? ::unsetenv(name_.c_str()) : ::setenv(name_.c_str(), value, 1);
  }

 private:
  const std::string name_;
  std::optional<std::string> old_;
};

}  // namespace neuron::test

#endif
