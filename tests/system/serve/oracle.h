// SPDX-License-Identifier: Apache-2.0
// What a server has to answer, and what is wrong with what it did answer.
//
// Concepts: libnrt itself, on a device of this process, computes the truth. A verdict compares an
// answer with it to the bit, and on a difference says both vectors and the batch, so that the cause
// can be looked for. Callers: one thread asks Truth; verdicts are any thread's. Owns a runtime.
// Fails: Truth throws std::runtime_error with a sentence, which fails the test: a truth that could
// not be computed must not equal an answer that did not come.
#ifndef TESTS_SYSTEM_SERVE_ORACLE_H
#define TESTS_SYSTEM_SERVE_ORACLE_H

#include <gtest/gtest.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <array>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "tests/support/files.h"
#include "tests/system/serve/http_client.h"

namespace neuron::serve_test {

using Row = std::array<float, 64>;
using Probabilities = std::array<float, 10>;

inline const std::string kDigits = test::built("neff/digits.neff");

// Pixels as digits have them, 0 to 16.
inline std::vector<Row> random_rows(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    for (float& pixel : row) pixel = static_cast<float>(random() % 17);
  }
  return rows;
}

// The bytes of vectors, as binary messages have them.
template <class Vector>
std::string binary(const std::vector<Vector>& rows) {
  return std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Vector));
}

inline std::string json(const std::vector<Row>& rows) {
  std::string text = "{\"inputs\":{\"x\":[";
  for (const Row& row : rows) {
    text += &row == &rows[0] ? "[" : ",[";
    for (size_t i = 0; i < row.size(); ++i) {
      text += (i != 0 ? "," : "") + std::to_string(static_cast<int>(row[i]));
    }
    text += "]";
  }
  return text + "]}}";
}

// Around the first element that differs, no more than a line of a log holds.
template <class Vector>
std::string shown(const Vector& vector, size_t different) {
  constexpr size_t kShown = 10;
  const size_t first = different < kShown ? 0 : different - kShown / 2;
  std::string text;
  for (size_t i = first; i < std::min(first + kShown, vector.size()); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &vector[i], sizeof(bits));
    text += base::format("{}{} ({:08x})", text.empty() ? "" : ", ", vector[i], bits);
  }
  return base::format("[{}..] {}", first, text);
}

// Empty if an answer has status 200 and exactly these vectors. Else a sentence: the row and element
// at which it first differs, both vectors, the batch that the row was in, and which of the vectors
// that may have been asked for meanwhile (`known`) it is instead.
template <class Vector>
std::string verdict(const Answer& answer, const std::vector<Vector>& truth,
                    const std::vector<Vector>& known = {}) {
  if (truth.empty()) return "there is no truth to compare with";
  if (answer.status != 200) {
    return base::format("status {}: {}", answer.status, answer.body.substr(0, 300));
  }
  const std::string batch =
      base::format("batch of {} rows, {} ps on the device", answer.header("X-Batch-Rows"),
                   answer.header("X-Device-Picoseconds"));
  if (answer.body.size() != truth.size() * sizeof(Vector)) {
    return base::format("{} bytes were answered, expected {} ({})", answer.body.size(),
                        truth.size() * sizeof(Vector), batch);
  }
  std::string sentence;
  for (size_t row = 0; row < truth.size(); ++row) {
    Vector found;
    std::memcpy(found.data(), answer.body.data() + row * sizeof(Vector), sizeof(Vector));
    if (std::memcmp(found.data(), truth[row].data(), sizeof(Vector)) == 0) continue;
    size_t at = 0, different = 0;
    for (size_t i = found.size(); i-- > 0;) {
      if (std::memcmp(&found[i], &truth[row][i], sizeof(found[i])) == 0) continue;
      at = i;
      ++different;
    }
    sentence += base::format(
        "row {} of {} differs from element {} on, in {} of {} elements ({}): answered {}; expected "
        "{}",
        row, truth.size(), at, different, found.size(), batch, shown(found, at),
        shown(truth[row], at));
    for (size_t other = 0; other < known.size(); ++other) {
      if (std::memcmp(known[other].data(), found.data(), sizeof(Vector)) == 0) {
        sentence += base::format("; this is the answer to row {} of those that are known", other);
      }
    }
    sentence += "\n";
  }
  return sentence;
}

// The answers of libnrt on a device of this process, row by row.
class Truth {
 public:
  // One for the process, for the digits model.
  static Truth& get() {
    static Truth truth(kDigits);
    return truth;
  }
  // Does not throw: of() says what went wrong.
  explicit Truth(const std::string& file) {
    const std::string neff = test::read_file(file);
    if (neff.empty()) {
      error_ = file + " cannot be read";
      return;
    }
    ::setenv("NEURON_EMULATOR", "trn1.2xlarge", 0);  // for the rest of the process
    nrt_tensor_info_array_t* info = nullptr;
    if (!done(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "initialising the runtime") ||
        !done(nrt_load(neff.data(), neff.size(), 0, -1, &model_), "loading " + file) ||
        !done(nrt_get_model_tensor_info(model_, &info), "asking for the tensors")) {
      return;
    }
    batch_ = info->tensor_array[0].shape[0];
    nrt_free_model_tensor_info(info);
    const auto on_device = NRT_TENSOR_PLACEMENT_DEVICE;
    (void)(done(nrt_allocate_tensor_set(&in_), "making a set") &&
           done(nrt_allocate_tensor_set(&out_), "making a set") &&
           done(nrt_tensor_allocate(on_device, 0, batch_ * sizeof(Row), "x", &x_), "allocating") &&
           done(nrt_tensor_allocate(on_device, 0, batch_ * sizeof(Probabilities), "y", &y_),
                "allocating") &&
           done(nrt_add_tensor_to_tensor_set(in_, "x", x_), "filling a set") &&
           done(nrt_add_tensor_to_tensor_set(out_, "probabilities", y_), "filling a set"));
  }

  // As many vectors as rows. Throws if there is no truth.
  std::vector<Probabilities> of(const std::vector<Row>& rows) {
    std::vector<Probabilities> all;
    for (size_t first = 0; error_.empty() && first < rows.size(); first += batch_) {
      const size_t count = std::min(batch_, rows.size() - first);
      std::vector<Row> x(batch_);
      std::copy_n(rows.begin() + static_cast<ptrdiff_t>(first), count, x.begin());
      std::vector<Probabilities> y(batch_);
      (void)(done(nrt_tensor_write(x_, x.data(), 0, batch_ * sizeof(Row)), "writing rows") &&
             done(nrt_execute(model_, in_, out_), "executing") &&
             done(nrt_tensor_read(y_, y.data(), 0, batch_ * sizeof(Probabilities)), "reading"));
      all.insert(all.end(), y.begin(), y.begin() + static_cast<ptrdiff_t>(count));
    }
    if (!error_.empty()) throw std::runtime_error("libnrt's own answer is not known: " + error_);
    if (all.empty()) throw std::runtime_error("no rows were given, so there is no answer to them");
    return all;
  }

 private:
  bool done(NRT_STATUS status, const std::string& what) {
    if (status != NRT_SUCCESS) {
      const char* cause = nrt_open_last_error();
      error_ = what + ": " + nrt_get_status_as_str(status) + ": " + (cause != nullptr ? cause : "");
    }
    return status == NRT_SUCCESS;
  }

  std::string error_;
  size_t batch_ = 1;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t *in_ = nullptr, *out_ = nullptr;
  nrt_tensor_t *x_ = nullptr, *y_ = nullptr;
};

}  // namespace neuron::serve_test

#endif
