// SPDX-License-Identifier: Apache-2.0
//
// What tests of collectives share: ranks as threads, a model that is one collective, and one rank
// of it. Callers: tests of this folder.
#ifndef TESTS_SYSTEM_API_COLLECTIVES_SUPPORT_H
#define TESTS_SYSTEM_API_COLLECTIVES_SUPPORT_H

#include <ccom/ccom.h>
#include <nrt/nrt_async.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {

using builder::CollectiveOptions;
using builder::Engine;
using builder::Program;

class Collectives : public RuntimeTest {
 protected:
  Collectives() : instance_("NEURON_EMULATOR", "trn1.32xlarge") {}

  // All ranks at once, a thread each.
  static void on_ranks(uint32_t ranks, const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) threads.emplace_back(work, r);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  Setting instance_;
};

// x goes through a collective to y, `times` times; both are copied, because collectives have
// temporaries.
inline Bytes through(const std::string& name, ccom_operation_t operation, uint64_t in, uint64_t out,
                     const CollectiveOptions& options, unsigned times = 1) {
  Program program(name);
  const auto x = program.input("x", NEURON_DTYPE_F32, {in});
  const auto y = program.output("y", NEURON_DTYPE_F32, {out});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {in});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {out});
  program.dma(Engine::kSp, from.all(), x.all());
  for (unsigned n = 0; n < times; ++n) {
    program.collective(Engine::kPool, operation, to, from, options);
  }
  program.dma(Engine::kSp, y.all(), to.all());
  return bytes_of(program.build());
}

inline float value_of(uint32_t rank, uint64_t element) {
  return static_cast<float>(rank + 1) * 0.3F + static_cast<float>(element % 977) * 1.7F;
}

// One rank's model with its tensors.
class RankModel {
 public:
  RankModel(const Bytes& neff, uint32_t rank, uint32_t ranks) : rank_(rank) {
    status = nrt_load_collectives(neff.data(), neff.size(), static_cast<int>(rank), 1, rank, ranks,
                                  &model_);
    if (status != NRT_SUCCESS) {
      sentence = nrt_open_last_error();
      return;
    }
    nrt_allocate_tensor_set(&inputs_);
    nrt_allocate_tensor_set(&outputs_);
    nrt_tensor_info_array_t* info = nullptr;
    if (nrt_get_model_tensor_info(model_, &info) != NRT_SUCCESS) return;
    for (uint64_t i = 0; i < info->tensor_count; ++i) {
      const nrt_tensor_info_t& entry = info->tensor_array[i];
      nrt_tensor_t*& tensor = entry.usage == NRT_TENSOR_USAGE_INPUT ? x_ : y_;
      tensor = make_tensor(entry.size, static_cast<int>(rank));
      nrt_add_tensor_to_tensor_set(entry.usage == NRT_TENSOR_USAGE_INPUT ? inputs_ : outputs_,
                                   entry.name, tensor);
    }
    nrt_free_model_tensor_info(info);
  }
  ~RankModel() {
    nrt_destroy_tensor_set(&inputs_);
    nrt_destroy_tensor_set(&outputs_);
    nrt_tensor_free(&x_);
    nrt_tensor_free(&y_);
    if (model_ != nullptr) nrt_unload(model_);
  }

  std::vector<float> run() {
    write_inputs();
    status = nrt_execute(model_, inputs_, outputs_);
    if (status != NRT_SUCCESS) sentence = nrt_open_last_error();
    return outputs();
  }
  // `result` receives the status of the execution.
  nrta_seq_t schedule(NRT_STATUS& result) {
    write_inputs();
    nrta_seq_t request = 0;
    status = nrta_execute_schedule(model_, inputs_, outputs_, 0, &result, &request);
    EXPECT_EQ(status, NRT_SUCCESS) << nrt_open_last_error();
    return request;
  }
  std::vector<float> outputs() const {
    std::vector<float> values(nrt_tensor_get_size(y_) / sizeof(float));
    EXPECT_EQ(nrt_tensor_read(y_, values.data(), 0, values.size() * sizeof(float)), NRT_SUCCESS);
    return values;
  }

  // Model time of the last execution.
  uint64_t device_ps() const {
    nrt_open_execution_report_t report{};
    report.size = sizeof(report);
    EXPECT_EQ(nrt_open_get_execution_report(model_, &report), NRT_SUCCESS);
    return report.device_ps;
  }

  nrt_model_t* handle() const { return model_; }

  NRT_STATUS status = NRT_SUCCESS;
  std::string sentence;

 private:
  void write_inputs() {
    std::vector<float> values(nrt_tensor_get_size(x_) / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank_, i);
    EXPECT_EQ(nrt_tensor_write(x_, values.data(), 0, values.size() * sizeof(float)), NRT_SUCCESS);
  }

  uint32_t rank_;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  nrt_tensor_t* x_ = nullptr;
  nrt_tensor_t* y_ = nullptr;
};

inline void expect_sums(const std::vector<float>& found, uint32_t ranks) {
  size_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    float sum = value_of(0, i);
    for (uint32_t r = 1; r < ranks; ++r) sum += value_of(r, i);
    wrong += found[i] == sum ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0U) << "of " << found.size();
}

inline void put(nrt_tensor_t* tensor, uint32_t rank, uint64_t first, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = value_of(rank, first + i);
  EXPECT_EQ(nrt_tensor_write(tensor, values.data(), 0, count * 4), NRT_SUCCESS);
}
inline std::vector<float> get(nrt_tensor_t* tensor) {
  std::vector<float> values(nrt_tensor_get_size(tensor) / 4);
  EXPECT_EQ(nrt_tensor_read(tensor, values.data(), 0, values.size() * 4), NRT_SUCCESS);
  return values;
}

// A collective that the host starts, on tensors of one rank of a job of `ranks`.
inline void run_on_host(uint32_t rank, std::vector<uint32_t> group, nrt_cc_op_type_t operation,
                        std::vector<nrt_tensor_t*> from, std::vector<nrt_tensor_t*> to,
                        uint32_t ranks = 4) {
  const auto place = std::find(group.begin(), group.end(), rank) - group.begin();
  nrt_cc_comm_t comm{};
  comm.replica_group = group.data();
  comm.rank = static_cast<uint32_t>(place);
  comm.rank_n = static_cast<uint32_t>(group.size());
  comm.ctx_device_id = rank;
  comm.ctx_device_count = ranks;
  comm.vnc = rank;
  nrt_tensor_list_t inputs{from.data(), from.size()}, outputs{to.data(), to.size()};
  nrt_cc_context_t* context = nullptr;
  ASSERT_EQ(
      nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, operation, &context),
      NRT_SUCCESS)
      << nrt_open_last_error();
  NRT_STATUS status = NRT_FAILURE;
  nrta_seq_t sequence = 0;
  ASSERT_EQ(nrta_cc_schedule(&context, 0, &status, &sequence), NRT_SUCCESS)
      << nrt_open_last_error();
  EXPECT_EQ(context, nullptr);
  bool done = false;
  for (int i = 0; i < 20000 && !done; ++i) {
    ASSERT_EQ(nrta_is_completed(sequence, &done), NRT_SUCCESS);
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(status, NRT_SUCCESS);
}

}  // namespace neuron::test

#endif
