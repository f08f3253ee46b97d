// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/operators/operator_jail.h"

namespace neuron::core {
namespace {

// What a program may allocate beside its tensors: its own text and data, heap and stack.
constexpr uint64_t kOwnMemory = 256 << 20;
constexpr size_t kStackBytes = 64 << 10;
// A process that has been killed ends in this time, unless the kernel itself holds it.
constexpr std::chrono::seconds kDying{5};
constexpr auto kProcessFile = static_cast<idtype_t>(3);  // P_PIDFD
// The C library of the program takes no code path that other hosts lack: its functions would round
// otherwise with fused operations.
constexpr const char* kTunables =
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512DQ,-AVX512BW,-AVX512CD,-AVX2,-AVX,"
    "-FMA,-FMA4";

// Blocks the signals of this thread, so that none of the host's handlers runs in a new process.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

void send_kill(int process_file) {
  (void)syscall(SYS_pidfd_send_signal, process_file, SIGKILL, nullptr, 0);
}

}  // namespace

// What the keeper works with, as long as it lives.
struct OperatorProcess::Keeper {
  OperatorJail jail;
  std::array<char, 16> core, cores;
  char name[16] = "operator", run[8] = "run";
  std::array<char*, 5> arguments;
  std::array<char*, 2> environment;
  alignas(64) std::array<std::byte, kStackBytes> stack;

  // The keeper has it from clone, as this process sees it through the same memory.
  int process_file() { return std::atomic_ref(jail.process_file).load(std::memory_order_relaxed); }
};

OperatorProcess::OperatorProcess() = default;

OperatorProcess::~OperatorProcess() {
  if (keeper_file_) {
    kill();
    wait_for_end(base::Deadline::after(kDying));
  }
  if (keeper_file_ || !operator_ended(base::Deadline::after(kDying))) {
    // The kernel holds one of them: it may still use this memory, so that stays.
    (void)keeper_.release();
    return;
  }
  if (keeper_ && keeper_->process_file() >= 0) close(keeper_->process_file());
}

// A keeper that is ended while it makes the operator's process leaves it behind, on its own stack.
bool OperatorProcess::operator_ended(base::Deadline deadline) const {
  const int process = keeper_ ? keeper_->process_file() : -1;
  if (process < 0) return true;
  send_kill(process);
  // bounded: by the deadline.
  do {
    pollfd end{process, POLLIN, 0};
    if (poll(&end, 1, std::clamp(deadline.remaining_ms(), 0, 10)) > 0) {
      // A host to which orphans come is its parent now.
      siginfo_t info{};
      (void)waitid(kProcessFile, static_cast<id_t>(process), &info, WEXITED | WNOHANG | __WALL);
      return true;
    }
  } while (!deadline.expired());
  return false;
}

void OperatorProcess::start(const OperatorStart& start) {
  keeper_ = std::make_unique<Keeper>();
  Keeper& keeper = *keeper_;
  std::snprintf(keeper.core.data(), keeper.core.size(), "%u", start.core);
  std::snprintf(keeper.cores.data(), keeper.cores.size(), "%u", start.cores);
  keeper.arguments = {keeper.name, keeper.run, keeper.core.data(), keeper.cores.data(), nullptr};
  keeper.environment = {const_cast<char*>(kTunables), nullptr};
  OperatorJail& jail = keeper.jail;
  jail.input_file = start.input_file;
  jail.result_file = start.result_file;
  jail.image_file = start.image_file;
  jail.parent = getpid();
  jail.memory_bytes = kOwnMemory + start.tensor_bytes;
  jail.processor_seconds = static_cast<uint64_t>(start.patience.count()) + 1;
  jail.arguments = keeper.arguments.data();
  jail.environment = keeper.environment.data();
  jail.prepare();
  int file = -1;
  const SignalsBlocked blocked;
  // No signal tells of its end, and no wait finds it that does not ask for such processes.
  error_ = start_keeper(jail, keeper.stack, file);
  if (error_ != 0) return;
  keeper_file_.reset(file);
}

void OperatorProcess::kill() const {
  // Once the operator's process has ended the keeper does, too. Before there is one the keeper is
  // ended, and a process that it has just made ends with it.
  const int process = keeper_->process_file();
  send_kill(process >= 0 ? process : keeper_file_.get());
}

// True once the keeper has ended: it is gone then.
bool OperatorProcess::ended() {
  if (!keeper_file_) return true;
  siginfo_t info{};
  const int done = waitid(kProcessFile, static_cast<id_t>(keeper_file_.get()), &info,
                          WEXITED | WNOHANG | __WALL);
  if (done != 0 && errno == EINTR) return false;
  if (done == 0 && info.si_pid == 0) return false;
  // If somebody else has waited for it, it is gone as well.
  keeper_file_.reset();
  return true;
}

void OperatorProcess::wait_for_end(base::Deadline deadline) {
  // bounded: by the deadline.
  while (!ended() && !deadline.expired()) {
    pollfd end{keeper_file_.get(), POLLIN, 0};
    poll(&end, 1, std::clamp(deadline.remaining_ms(), 0, 10));
  }
}

OperatorProcess::End OperatorProcess::wait(base::Deadline deadline, int& value) {
  // bounded: by the deadline, at which the process is killed.
  while (!ended()) {
    if (deadline.expired()) return End::kTime;
    base::Abandonment::look();
    pollfd end{keeper_file_.get(), POLLIN, 0};
    poll(&end, 1, std::clamp(deadline.remaining_ms(), 0, 1));
  }
  value = error_ != 0 ? error_ : keeper_->jail.error;
  if (value != 0 || keeper_->process_file() < 0 || keeper_->jail.status == OperatorJail::kUnknown) {
    if (value == 0) value = ECHILD;  // the keeper was ended by somebody
    return End::kNotStarted;
  }
  const int status = keeper_->jail.status;
  value = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  return WIFEXITED(status) ? End::kExit : End::kSignal;
}

}  // namespace neuron::core
