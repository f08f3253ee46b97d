// SPDX-License-Identifier: Apache-2.0
// Kernel functions that do what an operator may not do.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <torch/torch.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

// What element 0 asks for.
enum Deed {
  kNothing,
  kLoop,
  kWildWrite,
  kWriteInput,
  kFork,
  kThread,
  kAllocate,
  kSignalHost,
  kSignalSelf,
  kExit,
  kOpen,
  kSocket,
  kExecute,
  kBeyond,
  kThrow,
  kAssert,
  kStackOverflow,
  kPtrace,
  kTruncate,
  kDivide,
  kSilentLoop,
  kTcmBeyond,
  kWrongType,
  kDoubleFree,
};

static int deeper(volatile char* above, int depth) {
  volatile char block[4096];
  block[0] = above[0];
  return depth == 0 ? block[0] : deeper(block, depth + 1) + block[0];
}

static volatile int zero = 0;

torch::Tensor deed_compute(const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::zeros(t_in.sizes(), torch::kInt);
  auto in = t_in.accessor<int32_t, 1>();
  auto out = t_out.accessor<int32_t, 1>();
  switch (in[0]) {
    case kLoop:
      for (volatile uint64_t i = 0;; i = i + 1) {
      }
    case kSilentLoop:
      // Whoever refuses to be ended by the processor's time.
      signal(SIGXCPU, SIG_IGN);
      for (volatile uint64_t i = 0;; i = i + 1) {
      }
    case kWildWrite:
      *(volatile int*)0x7000deadbee0 = 1;
      break;
    case kWriteInput:
      *const_cast<int32_t*>(&in[0]) = 7;
      break;
    case kFork:
      if (fork() == 0) {
        for (;;) {
        }
      }
      break;
    case kThread:
      syscall(SYS_clone, 0x50f00L, malloc(65536), 0, 0, 0);  // as pthread_create does
      break;
    case kAllocate: {
      std::vector<char> large(size_t{1} << 30, 1);
      out[0] = large[large.size() / 2];
      break;
    }
    case kSignalHost:
      kill(in[2], SIGTERM);  // the process of the host that runs this operator, as it is told
      break;
    case kSignalSelf:
      raise(SIGTERM);
      break;
    case kExit:
      _exit(0);
    case kOpen:
      out[0] = open("/etc/passwd", O_RDONLY);
      break;
    case kSocket:
      out[0] = socket(AF_UNIX, SOCK_STREAM, 0);
      break;
    case kExecute:
      execl("/bin/true", "true", (char*)nullptr);
      break;
    case kBeyond:
      out[t_in.numel()] = 1;
      break;
    case kThrow:
      throw std::runtime_error("a reason");
    case kAssert:
      assert(in[0] == 0);
      break;
    case kStackOverflow: {
      volatile char top = 1;
      out[0] = deeper(&top, 1);
      break;
    }
    case kPtrace:
      syscall(SYS_ptrace, 0, 0, 0, 0);
      break;
    case kTruncate:
      out[0] = ftruncate(4, 0);
      break;
    case kDivide:
      out[0] = 7 / zero;
      break;
    case kTcmBeyond: {
      int32_t* buffer = (int32_t*)torch::neuron::tcm_malloc(64);
      t_in.tcm_accessor().tensor_to_tcm<int32_t>(buffer, 0, t_in.numel() + 1);
      break;
    }
    case kWrongType:
      out[0] = (int)t_in.accessor<float, 1>()[0];
      break;
    case kDoubleFree: {
      void* block = torch::neuron::tcm_malloc(64);
      torch::neuron::tcm_free(block);
      torch::neuron::tcm_free(block);
      break;
    }
    default:
      break;
  }
  for (int64_t i = 0; i < t_in.numel(); ++i) out[i] = in[i] + 1;
  return t_out;
}
