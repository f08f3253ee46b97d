// SPDX-License-Identifier: Apache-2.0
// One benchmark: ours and a named peer, measured in turns within one call, reported as a line of
// JSON.
//
// Callers: main.cpp. One thread. `ours` and `peer` run one round each and return what `unit` says
// (seconds per operation, bytes per second, ...); rounds alternate and the medians are compared. A
// benchmark that cannot run says why in `error` and fails the program.
#ifndef TESTS_BENCH_RATIO_H
#define TESTS_BENCH_RATIO_H

#include <functional>
#include <string>
#include <vector>

namespace neuron::bench {

struct Ratio {
  std::string name;
  std::string peer_name;
  std::string unit;
  double goal = 0;
  bool smaller_is_better = false;  // goal is an upper bound
  int rounds = 9;
  std::function<double()> ours = {};
  std::function<double()> peer = {};
  std::string error = {};
};

// Seconds on the steady clock.
double now_seconds();

std::vector<Ratio> host();  // what this host itself takes
Ratio launch();
std::vector<Ratio> hbm_copy();
Ratio neff_load();
std::vector<Ratio> tensor_write();
std::vector<Ratio> matmul_f32();
Ratio async_launch();
Ratio overlap();
std::vector<Ratio> overlap_collective();  // and what two processors allow
Ratio two_cores();
std::vector<Ratio> matmul_bf16();
Ratio matmul_double_row();
Ratio matmul_mxfp8();
Ratio softmax();
Ratio layernorm();
Ratio gelu();
Ratio attention();
std::vector<Ratio> strict();            // one for each kernel
std::vector<Ratio> freed_after_kill();  // one for each kind of work
Ratio launch_shared();
Ratio launch_shared_cold();
Ratio copy_shared();
Ratio copy_shared_descriptors();
Ratio clients();
Ratio clients_fairness();
Ratio probe();
Ratio serve();
Ratio serve_p99();
Ratio serve_overload();
Ratio serve_ordinary();
std::vector<Ratio> trace_idle();
std::vector<Ratio> trace_on();
std::vector<Ratio> view();
std::vector<Ratio> builder_operations();
std::vector<Ratio> file_to_hbm();
std::vector<Ratio> init();
Ratio threads();
Ratio monitor();
std::vector<Ratio> nki_trace();
Ratio nki_run();
std::vector<Ratio> nki_values();
Ratio ls();
// What `strict` starts twice: executes when told to on stdin.
int strict_worker();
// What `init` starts: prints the milliseconds of nrt_init and nrt_close.
int init_worker();

}  // namespace neuron::bench

#endif
