// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/neuron_core.h"

#include <utility>

#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {

NeuronCore::NeuronCore(const chip::CoreConnections& connections, chip::RunnableListener* listener,
                       std::shared_ptr<StrictPair> pair)
    : group_(std::make_unique<ExecutionGroup>(connections, listener, std::move(pair))) {}

NeuronCore::~NeuronCore() = default;

bool NeuronCore::read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) {
  return group_->read(offset, out, access);
}

bool NeuronCore::write(uint64_t offset, std::span<const std::byte> in, const chip::Access& access) {
  return group_->write(offset, in, access);
}

std::byte* NeuronCore::direct(uint64_t offset, size_t length) {
  return group_->direct(offset, length);
}

bool NeuronCore::runnable() const { return group_->runnable(); }

chip::RunResult NeuronCore::run(std::chrono::steady_clock::time_point deadline, bool patient) {
  return group_->run(deadline, patient);
}

bool NeuronCore::deadlocked() const { return group_->deadlocked(); }

void NeuronCore::reset() { group_->reset(); }

void NeuronCore::reset_cc(unsigned k) { group_->reset_cc(k); }

void NeuronCore::disturb() { group_->disturb(); }

void NeuronCore::halt() { group_->halt(); }

bool NeuronCore::halted() const { return group_->halted(); }

std::string NeuronCore::describe() const { return group_->describe(); }

}  // namespace neuron::core
