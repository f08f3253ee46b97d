// SPDX-License-Identifier: Apache-2.0
// What the emulated core gives for the rows of rows.tsv.
//
// Callers: the program model-times, one thread. Holds the times of executions, because several
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

inline constexpr uint32_t kLongTransfer = 32768;  // bytes of a row, at which DMA is fastest

class ModelTimes {
 public:
  // The rows of a chip, "trn1", "trn2" or "trn3", whose device this process has.
  explicit ModelTimes(const std::string& chip);

  std::vector<std::string> rows() const;
  struct Ours {
    double value = 0;  // in the unit of the row
    // It is about one more round of a program, a difference of two executions; otherwise it is
    // about whole executions, of which nothing is subtracted.
    bool of_rounds = false;
  };
  runtime::Result<Ours> measure(const std::string& row);

 private:
  // Of the last of two executions: the first one also points the rings at the tensors.
  struct Times {
    nrt_open_execution_report_t report{};
    // If it was profiled.
    double dma_active_us = 0;  // in which any DMA engine moves something
    double moved_bytes = 0;    // by DMA
  };
  enum class Profiled : bool { kWithout, kWith };
  // Throws runtime::Error.
  const Times& times(const std::string& program, const std::function<Neff()>& build,
                     Profiled profiled = Profiled::kWithout);
  double total_us(const std::string& program, const std::function<Neff()>& build);
  void add_programs_of_trn1();
  void add_programs_of_trn2();
  void add_programs_of_trn3();
  void add_mamba(const std::string& row, unsigned version, uint64_t channels, uint64_t positions);
  void add_mamba_share(const std::string& row);
  void add_attention(const std::string& row, uint8_t dtype, uint64_t size);
  void add_ratio(const std::string& row, Work of, Work to);
  void add_rate(const std::string& row, uint32_t bytes);
  void add_matmul(const std::string& row, const std::function<Neff()>& build, double times = 1);
  void add_shares(const std::string& row, const std::function<Neff()>& build);
  void add_nki_programs();
  void add_transfers_of_trn2();
  void add_later_ratio(const std::string& row, LaterWork of, LaterWork to, double times = 1);
  void add_elements_of_a_cycle(const std::string& row, LaterWork work, double gigahertz);
  void add_peak(const std::string& row, LaterWork product, double cores = 1);
  void add_current_limit();
  double of_round(Work work);
  double of_round(LaterWork work);
  double of_rounds(LaterWork work, uint32_t few, uint32_t many);
  double total_us(LaterWork work, uint32_t rounds);
  double nanoseconds_of_one(double few_us, double many_us, uint32_t rounds);
  double gigabytes_per_second(uint32_t bytes);

  uint8_t generation_;
  std::map<std::string, std::function<double()>> rows_;
  std::map<std::string, Times> known_;
  bool subtracted_ = false;  // by the row that is measured
};

// What a round of `exchange` takes on trn2 by a process whose logical cores are pairs.
runtime::Result<double> nanoseconds_of_exchange();

}  // namespace neuron::published

#endif
