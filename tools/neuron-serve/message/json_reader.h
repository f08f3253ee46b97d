// SPDX-License-Identifier: Apache-2.0
//
// Reads requests in JSON in one pass: objects, names, and lists of numbers straight into the bytes
// of tensors, without a document in between.
// Callers: readers of messages, which derive from it. Thread-safe: no. Borrows the text.
// Fails: every function returns false and leaves the sentence, the field and the byte in error().
#ifndef TOOLS_NEURON_SERVE_MESSAGE_JSON_READER_H
#define TOOLS_NEURON_SERVE_MESSAGE_JSON_READER_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

struct JsonError {
  std::string message;
  std::string field;  // "inputs.x"; "" for the whole
  size_t offset = 0;
};

class JsonReader {
 protected:
  static constexpr size_t kDeepest = 8;

  explicit JsonReader(std::string_view text) : text_(text) {}

  bool fail(std::string message);
  std::string found() const;
  void skip_space();
  bool take(char wanted, const char* where);
  bool next_is(char wanted);
  // A string; its escapes are undone.
  bool take_string(std::string& value);
  // "name": of an object; names have no escapes.
  bool take_name(std::string_view& name);
  bool take_whole(uint64_t& number);
  bool take_bool(bool& value);
  // The rest of the text has nothing but space.
  bool take_end();
  // Any value, which is checked for its brackets and strings only.
  bool skip_value();
  // {"name": value, ...}; `value` reads what stands behind the colon.
  bool take_object(const char* what, const std::function<bool(std::string_view)>& value);
  // [element, ...]
  bool take_array(const char* what, const std::function<bool()>& element);

  // Numbers of a type, in lists in lists; `extents` gets the length of each depth.
  bool take_numbers(const TensorSpec& spec, size_t most_bytes, std::vector<size_t>& extents,
                    std::string& bytes);
  // The input with this name, or what there is instead.
  bool find_input(const ModelSpec& model, std::string_view name, size_t& index);

  static std::string join(const std::vector<size_t>& extents);

  const std::string_view text_;
  size_t at_ = 0;
  std::string field_;
  std::optional<JsonError> error_;

 private:
  bool take_list(const TensorSpec& spec, size_t most_bytes, size_t depth, size_t* extents,
                 std::string& bytes);
  bool take_element(const TensorSpec& spec, std::string& bytes);
};

}  // namespace neuron::serve

#endif
