// SPDX-License-Identifier: Apache-2.0
// An empty NEFF through nrt_execute against an empty kernel through PoCL, enqueue to finish.
#include <CL/cl.h>

#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr int kLaunches = 2000;

class EmptyKernel {
 public:
  EmptyKernel() {
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr) != CL_SUCCESS) {
      error_ = "no OpenCL CPU device; install pocl-opencl-icd";
      return;
    }
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    queue_ = clCreateCommandQueue(context, device, 0, nullptr);
    const char* source = "__kernel void nothing() {}";
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
    if (clBuildProgram(program, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) {
      error_ = "PoCL does not build the empty kernel";
      return;
    }
    kernel_ = clCreateKernel(program, "nothing", nullptr);
  }
  bool launch() {
    const size_t one = 1;
    return clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &one, &one, 0, nullptr, nullptr) ==
               CL_SUCCESS &&
           clFinish(queue_) == CL_SUCCESS;
  }
  const std::string& error() const { return error_; }

 private:
  cl_command_queue queue_ = nullptr;
  cl_kernel kernel_ = nullptr;
  std::string error_;
};

}  // namespace

Ratio launch() {
  Ratio ratio{
      .name = "launch", .peer_name = "PoCL empty kernel", .unit = "us per launch", .goal = 0.05};
  ratio.smaller_is_better = true;
  auto ours = std::make_shared<Session>("empty.neff");
  auto peer = std::make_shared<EmptyKernel>();
  ratio.error = !ours->error().empty() ? ours->error() : peer->error();
  ratio.ours = [ours] {
    const double start = now_seconds();
    for (int i = 0; i < kLaunches; ++i) {
      if (ours->execute() != NRT_SUCCESS) return -1.0;
    }
    return (now_seconds() - start) / kLaunches * 1e6;
  };
  ratio.peer = [peer] {
    const double start = now_seconds();
    for (int i = 0; i < kLaunches; ++i) {
      if (!peer->launch()) return -1.0;
    }
    return (now_seconds() - start) / kLaunches * 1e6;
  };
  return ratio;
}

}  // namespace neuron::bench
