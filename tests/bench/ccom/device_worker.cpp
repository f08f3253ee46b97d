// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/device_worker.h"

#include <ccom/ccom.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/compiler/program_builder/program.h"

namespace neuron::bench {
namespace {

using neuron::builder::Engine;
using neuron::builder::Program;

// An all-reduce between copies, since a collective has no tensors of the caller as its operands.
std::vector<uint8_t> program(uint64_t elements) {
  Program program("all_reduce");
  const auto x = program.input("x", NEURON_DTYPE_F32, {elements});
  const auto y = program.output("y", NEURON_DTYPE_F32, {elements});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {elements});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {elements});
  program.dma(Engine::kSp, from.all(), x.all());
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, to, from, {});
  program.dma(Engine::kSp, y.all(), to.all());
  const auto neff = program.build();
  return neff ? std::vector<uint8_t>(neff->begin(), neff->end()) : std::vector<uint8_t>{};
}

class DeviceWorker {
 public:
  DeviceWorker(board& orders, const DeviceWork& work)
      : orders_(orders), work_(work), input_(orders.most), output_(orders.most) {}
  ~DeviceWorker() { unload(); }
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

  void run() {
    if (!join()) return;
    uint32_t last = 0, meetings = 0;
    __atomic_add_fetch(&orders_.ready, 1, __ATOMIC_ACQ_REL);
    while (board_wait(&orders_, &last) != BOARD_END) {
      board_prepare(&orders_, work_.rank, input_.data(), output_.data());
      if (!load() || !good(nrt_tensor_write(x_, input_.data(), 0, orders_.bytes)) ||
          !good(nrt_tensor_write(y_, output_.data(), 0, orders_.bytes))) {
        return;
      }
      board_meet(&orders_, work_.ranks, &meetings);
      const double begin = board_now();
      for (uint32_t i = 0; i < orders_.inner; ++i) {
        if (!good(nrt_execute(model_, inputs_, outputs_))) return;
      }
      orders_.seconds[work_.rank] = board_now() - begin;
      board_meet(&orders_, work_.ranks, &meetings);  // before reads take a slower rank's processor
      if (!good(nrt_tensor_read(y_, output_.data(), 0, orders_.bytes))) return;
      if (board_wrong(&orders_, work_.rank, work_.ranks, 0, output_.data()) >= 0) {
        std::fprintf(stderr, "rank %u: a result of the device is wrong\n", work_.rank);
        orders_.failed = 1;
        return;
      }
      __atomic_add_fetch(&orders_.finished, 1, __ATOMIC_ACQ_REL);
    }
    unload();
    nrt_close();
  }

 private:
  bool good(NRT_STATUS status) {
    if (status == NRT_SUCCESS) return true;
    std::fprintf(stderr, "rank %u: %s\n", work_.rank, nrt_open_last_error());
    orders_.failed = 1;
    return false;
  }

  bool join() {
    setenv("NEURON_EMULATOR", work_.emulator.c_str(), 1);
    setenv("NEURON_RT_VISIBLE_CORES", std::to_string(work_.core).c_str(), 1);
    setenv("NEURON_RT_ROOT_COMM_ID", work_.root.c_str(), 1);
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    return good(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  }

  // The model and the tensors of the order's size; all ranks load together.
  bool load() {
    if (bytes_ == orders_.bytes) return true;
    unload();
    const auto neff = program(orders_.bytes / sizeof(float));
    bytes_ = orders_.bytes;
    return good(nrt_load_collectives(neff.data(), neff.size(), 0, 1, work_.rank, work_.ranks,
                                     &model_)) &&
           good(nrt_allocate_tensor_set(&inputs_)) && good(nrt_allocate_tensor_set(&outputs_)) &&
           tensor_of("x", inputs_, x_) && tensor_of("y", outputs_, y_);
  }

  bool tensor_of(const char* name, nrt_tensor_set_t* set, nrt_tensor_t*& tensor) {
    return good(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes_, name, &tensor)) &&
           good(nrt_add_tensor_to_tensor_set(set, name, tensor));
  }

  void unload() {
    if (model_ == nullptr) return;
    nrt_unload(model_);
    nrt_destroy_tensor_set(&inputs_);
    nrt_destroy_tensor_set(&outputs_);
    nrt_tensor_free(&x_);
    nrt_tensor_free(&y_);
    model_ = nullptr;
  }

  board& orders_;
  const DeviceWork& work_;
  std::vector<std::byte> input_, output_;
  uint64_t bytes_ = 0;  // of the model's tensors
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  nrt_tensor_t* x_ = nullptr;
  nrt_tensor_t* y_ = nullptr;
};

}  // namespace

void run_device_worker(board& orders, const DeviceWork& work) { DeviceWorker(orders, work).run(); }

}  // namespace neuron::bench
