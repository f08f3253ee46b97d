// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_jail.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>

#include "hw/custom_operator.h"

// What runs between clone() and execveat() keeps no shadow of memory: it is another process.
#define NEURON_IN_JAIL __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

namespace neuron::core {
namespace {

// What a program with a static C library needs to begin, to compute and to end.
constexpr uint32_t kAllowed[] = {
    SYS_exit,
    SYS_exit_group,
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_arch_prctl,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_futex,
    SYS_getpid,
    SYS_gettid,
};
// What it tries, and does without.
struct Refused {
  uint32_t call;
  uint32_t error;
};
constexpr Refused kRefused[] = {
    {SYS_readlink, ENOENT},      {SYS_readlinkat, ENOENT}, {SYS_getrandom, ENOSYS},
    {SYS_prlimit64, ENOSYS},     {SYS_uname, ENOSYS},      {SYS_ioctl, ENOTTY},
    {SYS_fstat, EBADF},          {SYS_newfstatat, EBADF},  {SYS_write, EBADF},
    {SYS_writev, EBADF},         {SYS_lseek, EBADF},       {SYS_close, EBADF},
    {SYS_clock_gettime, ENOSYS}, {SYS_madvise, ENOSYS},
};

constexpr uint32_t low_of(size_t argument) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument);
}

class FilterWriter {
 public:
  explicit FilterWriter(OperatorJail& jail) : jail_(jail) { jail_.step_count = 0; }

  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, 0, 0, action); }
  // Skips so many steps if the loaded word is `value`, or if it is another.
  void compare(uint32_t value, uint8_t skip_if_equal, uint8_t skip_if_not) {
    add(BPF_JMP | BPF_JEQ | BPF_K, skip_if_equal, skip_if_not, value);
  }
  unsigned count() const { return jail_.step_count; }

 private:
  void add(unsigned code, uint8_t yes, uint8_t no, uint32_t value) {
    jail_.steps[jail_.step_count++] = {static_cast<uint16_t>(code), yes, no, value};
  }
  OperatorJail& jail_;
};

// Inlined: where two processes share a stack, the first to return from a function would give its
// place on the stack away.
__attribute__((no_sanitize("address", "thread", "undefined"), always_inline)) inline long call(
    long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}

template <class T>
long address_of(const T* object) {
  return reinterpret_cast<long>(object);
}

// As the kernel has it.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};

NEURON_IN_JAIL long reset_signals() {
  KernelAction standard;
  standard.handler = SIG_DFL;
  standard.flags = 0;
  standard.restorer = nullptr;
  standard.mask = 0;
  for (long signal = 1; signal <= 64; ++signal) {
    // SIGKILL and SIGSTOP refuse.
    call(SYS_rt_sigaction, signal, address_of(&standard), 0, sizeof(standard.mask));
  }
  return 0;
}

// At most `value`: where the host's process has less, as after `ulimit -c 0`, that stays. Nobody
// but the owner of CAP_SYS_RESOURCE may raise a limit again.
NEURON_IN_JAIL long limit(int resource, uint64_t value) {
  rlimit64 wanted;
  const long error = call(SYS_prlimit64, 0, resource, 0, address_of(&wanted));
  if (error != 0) return error;
  if (wanted.rlim_max > value) wanted.rlim_max = value;
  wanted.rlim_cur = wanted.rlim_max;
  return call(SYS_prlimit64, 0, resource, address_of(&wanted), 0);
}

NEURON_IN_JAIL long limit_all(const OperatorJail& jail) {
  constexpr uint64_t kStack = 1 << 20;
  long error = limit(RLIMIT_AS, jail.memory_bytes);
  if (error == 0) error = limit(RLIMIT_CPU, jail.processor_seconds);
  if (error == 0) error = limit(RLIMIT_STACK, kStack);
  if (error == 0) error = limit(RLIMIT_NOFILE, NEURON_OPERATOR_IMAGE_FILE + 1);
  if (error == 0) error = limit(RLIMIT_NPROC, 0);
  if (error == 0) error = limit(RLIMIT_FSIZE, 0);
  // With 0 a program of the host that takes core dumps would still be started; a host that has 0
  // wants that.
  if (error == 0) error = limit(RLIMIT_CORE, 1);
  if (error == 0) error = limit(RLIMIT_MEMLOCK, 0);
  if (error == 0) error = limit(RLIMIT_MSGQUEUE, 0);
  return error;
}

NEURON_IN_JAIL long keep_files(const OperatorJail& jail) {
  long error = call(SYS_dup3, jail.input_file, NEURON_OPERATOR_INPUT_FILE, 0);
  if (error >= 0) error = call(SYS_dup3, jail.result_file, NEURON_OPERATOR_RESULT_FILE, 0);
  if (error >= 0) error = call(SYS_dup3, jail.image_file, NEURON_OPERATOR_IMAGE_FILE, O_CLOEXEC);
  if (error >= 0) error = call(SYS_close_range, NEURON_OPERATOR_IMAGE_FILE + 1, ~0u, 0);
  if (error >= 0) error = call(SYS_close_range, 0, NEURON_OPERATOR_INPUT_FILE - 1, 0);
  return error;
}

NEURON_IN_JAIL long close_doors(OperatorJail& jail) {
  long error = call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (error != 0) return error;
  jail.steps[jail.process_step].k = static_cast<uint32_t>(call(SYS_getpid));
  sock_fprog program;
  program.len = static_cast<unsigned short>(jail.step_count);
  program.filter = jail.steps;
  return call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, address_of(&program));
}

[[noreturn]] NEURON_IN_JAIL void enter_jail(OperatorJail& jail) {
  reset_signals();
  long error = call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (error >= 0 && call(SYS_getppid) != jail.keeper) error = -ESRCH;
  // Signals of the terminal are for the host's process.
  if (error >= 0) error = call(SYS_setsid);
  // Where the system forbids it, addresses that an operator prints differ between runs.
  call(SYS_personality, ADDR_NO_RANDOMIZE);
  if (error >= 0) error = keep_files(jail);
  if (error >= 0) error = limit_all(jail);
  if (error >= 0) {
    const uint64_t none = 0;
    error = call(SYS_rt_sigprocmask, SIG_SETMASK, address_of(&none), 0, sizeof(none));
  }
  if (error >= 0) error = close_doors(jail);
  if (error >= 0) {
    error = call(SYS_execveat, NEURON_OPERATOR_IMAGE_FILE, address_of(jail.no_path),
                 address_of(jail.arguments), address_of(jail.environment), AT_EMPTY_PATH);
  }
  jail.error = static_cast<int>(-error);
  // bounded: the process has ended.
  for (;;) call(SYS_exit_group, 127);
}

// Returns when the operator's process has ended, or could not be made.
NEURON_IN_JAIL void keep_operator(OperatorJail& jail) {
  // Where the host ignores the ends of its children, the keeper would not learn of its one either.
  KernelAction standard;
  standard.handler = SIG_DFL;
  standard.flags = 0;
  standard.restorer = nullptr;
  standard.mask = 0;
  call(SYS_rt_sigaction, SIGCHLD, address_of(&standard), 0, sizeof(standard.mask));
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (call(SYS_getppid) != jail.parent) return;  // it was too late for that
  jail.keeper = static_cast<int>(call(SYS_getpid));
  // The keeper goes on when the program has begun. Until then both use one stack: the new process
  // the part below this frame, which it never leaves.
  const long process = call(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, 0,
                            address_of(&jail.process_file));
  if (process == 0) enter_jail(jail);
  if (process < 0) {
    jail.error = static_cast<int>(-process);
    return;
  }
  long ended;
  do {
    ended = call(SYS_wait4, process, address_of(&jail.status), __WALL, 0);
  } while (ended == -EINTR);
  if (ended < 0) jail.error = static_cast<int>(-ended);
}

}  // namespace

void OperatorJail::prepare() {
  FilterWriter filter(*this);
  filter.load(offsetof(seccomp_data, arch));
  filter.compare(AUDIT_ARCH_X86_64, 1, 0);
  filter.answer(SECCOMP_RET_KILL_PROCESS);  // calls of another architecture have other numbers
  filter.load(offsetof(seccomp_data, nr));
  for (const uint32_t number : kAllowed) {
    filter.compare(number, 0, 1);
    filter.answer(SECCOMP_RET_ALLOW);
  }
  for (const Refused& refused : kRefused) {
    filter.compare(refused.call, 0, 1);
    filter.answer(SECCOMP_RET_ERRNO | (refused.error & SECCOMP_RET_DATA));
  }
  // The one execution of the operator's program. The address of its empty path is this process's
  // secret, so the program cannot execute another one later: not this file, which is closed then,
  // nor one by its path.
  const auto path = reinterpret_cast<uint64_t>(no_path);
  filter.compare(SYS_execveat, 0, 10);
  filter.load(low_of(0));
  filter.compare(NEURON_OPERATOR_IMAGE_FILE, 0, 6);
  filter.load(low_of(1));
  filter.compare(static_cast<uint32_t>(path), 0, 4);
  filter.load(low_of(1) + 4);
  filter.compare(static_cast<uint32_t>(path >> 32), 0, 2);
  filter.load(low_of(4));
  filter.compare(AT_EMPTY_PATH, 1, 0);
  // At once: who may go on after a wrong address can try them all.
  filter.answer(SECCOMP_RET_KILL_PROCESS);
  filter.answer(SECCOMP_RET_ALLOW);
  // A signal to itself: abort(). close_doors() writes the number of the process.
  filter.compare(SYS_tgkill, 0, 3);
  filter.load(low_of(0));
  process_step = filter.count();
  filter.compare(0, 0, 1);
  filter.answer(SECCOMP_RET_ALLOW);
  filter.answer(SECCOMP_RET_TRAP);
}

// Not by the C library's clone, which sanitizers replace.
NEURON_IN_JAIL int start_keeper(OperatorJail& jail, std::span<std::byte> stack, int& file) {
  constexpr long kFlags = CLONE_VM | CLONE_FILES | CLONE_PIDFD;
  auto* top = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(stack.data() + stack.size()) &
                                          ~uintptr_t{63});
  *--top = reinterpret_cast<uint64_t>(keep_operator);
  *--top = reinterpret_cast<uint64_t>(&jail);
  long result;
  register long child_id __asm__("r10") = 0;
  register long storage __asm__("r8") = 0;
  // The keeper begins on its own stack, with the two words that were put there, and never comes
  // back.
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "pop %%rdi\n\t"
      "pop %%rax\n\t"
      "call *%%rax\n\t"
      "mov %[exit], %%eax\n\t"
      "xor %%edi, %%edi\n\t"
      "syscall\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(long{SYS_clone}), "D"(kFlags), "S"(top), "d"(&file), "r"(child_id),
        "r"(storage), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory");
  return result < 0 ? static_cast<int>(-result) : 0;
}

}  // namespace neuron::core
