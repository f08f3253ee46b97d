// SPDX-License-Identifier: Apache-2.0
// What the emulated core gives for the rows of rows.tsv.
//
// Callers: the program model-times, one thread. Holds the reports of executions, because several
// rows may be about one of them. Fails: measure() returns a sentence.
#ifndef TESTS_SYSTEM_PUBLISHED_MODEL_TIMES_H
#define TESTS_SYSTEM_PUBLISHED_MODEL_TIMES_H

#include <nrt/nrt_open.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tests/system/published/later_programs.h"
#include "tests/system/published/programs.h"

namespace neuron::published {

class ModelTimes {
 public:
  // The rows of a chip, "trn1", "trn2" or "trn3", whose device this process has.
  explicit ModelTimes(const std::string& chip);

  std::vector<std::string> rows() const;
  // In the unit of the row, nothing subtracted.
  runtime::Result<double> measure(const std::string& row);

 private:
  using Report = nrt_open_execution_report_t;
  // The last of two executions: the first one also points the rings at the tensors. Throws
  // runtime::Error.
  const Report& report(const std::string& program, const std::function<Neff()>& build);
  void add_programs_of_trn1();
  void add_programs_of_trn2();
  void add_programs_of_trn3();
  void add_mamba(const std::string& row, unsigned version, uint64_t channels, uint64_t positions);
  void add_attention(const std::string& row, uint8_t dtype, uint64_t size);
  void add_ratio(const std::string& row, Work of, Work to);
  void add_later_ratio(const std::string& row, LaterWork of, LaterWork to, double times = 1);
  void add_elements_of_a_cycle(const std::string& row, LaterWork work);
  void add_peak(const std::string& row, LaterWork product);
  void add_matmul(const std::string& row, const std::function<Neff()>& build, double times = 1);
  void add_shares(const std::string& row, const std::function<Neff()>& build);
  void add_nki_programs();
  void add_rate(const std::string& row, uint32_t bytes);
  double of_round(Work work);
  double of_round(LaterWork work, uint8_t generation);
  double of_round(LaterWork work) { return of_round(work, generation_); }
  double gigabytes_per_second(uint32_t bytes);

  std::map<std::string, std::function<double()>> rows_;
  std::map<std::string, Report> reports_;
  uint8_t generation_ = 2;
};

}  // namespace neuron::published

#endif
