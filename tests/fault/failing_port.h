// SPDX-License-Identifier: Apache-2.0
// A port to the embedded device whose nth call fails: what a driver does to a process that runs out
// of luck.
//
// Callers: tests of this folder, which install it with set_port before nrt_init. Counts calls of
// every device of the port; thread-safe. The failing call is not passed on, except unmap and the
// release of memory, whose loss would be the driver's leak and not the runtime's.
#ifndef TESTS_FAULT_FAILING_PORT_H
#define TESTS_FAULT_FAILING_PORT_H

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "driver/ndl/port_backends.h"

namespace neuron::test {

// Shared between the test and the devices of one port.
struct FailurePlan {
  std::atomic<long> calls{0};
  std::atomic<long> failing{0};  // number of the call that fails, from 1; 0 = none
  int error = -EIO;
  unsigned long failed_request = 0;  // ioctl number of the failing call, 0 for another kind
  // Whether this call is to fail.
  bool next(unsigned long request = 0) {
    const bool fail = ++calls == failing;
    if (fail) failed_request = request;
    return fail;
  }
};

class FailingDevice : public ndl::DevicePort {
 public:
  FailingDevice(std::unique_ptr<ndl::DevicePort> real, FailurePlan& plan)
      : real_(std::move(real)), plan_(plan) {}
  int ioctl(unsigned long request, void* argument) override {
    const bool fail = plan_.next(request);
    constexpr unsigned kMemFree = 22;
    if (fail && (request & 0xFF) != kMemFree) return plan_.error;
    const int result = real_->ioctl(request, argument);
    return fail ? plan_.error : result;
  }
  int map(size_t length, int protection, uint64_t offset, void** address) override {
    return plan_.next() ? plan_.error : real_->map(length, protection, offset, address);
  }
  int unmap(void* address, size_t length) override {
    const bool fail = plan_.next();
    const int result = real_->unmap(address, length);
    return fail ? plan_.error : result;
  }
  int read_register(uint64_t offset, uint32_t* value) override {
    return plan_.next() ? plan_.error : real_->read_register(offset, value);
  }
  int write_register(uint64_t offset, uint32_t value, bool run_inline) override {
    return plan_.next() ? plan_.error : real_->write_register(offset, value, run_inline);
  }
  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) override {
    return plan_.next() ? plan_.error : real_->wait(core, word, old, deadline_ns);
  }
  std::string describe(unsigned core) override { return real_->describe(core); }

 private:
  std::unique_ptr<ndl::DevicePort> real_;
  FailurePlan& plan_;
};

class FailingPort : public ndl::Port {
 public:
  FailingPort(std::unique_ptr<ndl::Port> real, FailurePlan& plan)
      : real_(std::move(real)), plan_(plan) {}
  int devices(int* indexes, int capacity) override {
    return plan_.next() ? plan_.error : real_->devices(indexes, capacity);
  }
  int open(int index, int flags, std::unique_ptr<ndl::DevicePort>& device) override {
    if (plan_.next()) return plan_.error;
    std::unique_ptr<ndl::DevicePort> real;
    const int result = real_->open(index, flags, real);
    if (result == 0) device = std::make_unique<FailingDevice>(std::move(real), plan_);
    return result;
  }
  std::string name() const override { return real_->name(); }
  std::string driver_version() const override { return real_->driver_version(); }

 private:
  std::unique_ptr<ndl::Port> real_;
  FailurePlan& plan_;
};

}  // namespace neuron::test

#endif
