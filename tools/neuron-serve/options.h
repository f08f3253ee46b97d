// SPDX-License-Identifier: Apache-2.0
//
// What the command line, the environment (NEURON_SERVE_*) and a configuration file say.
// Callers: main(), once. Thread-safe: values, read-only after parsing. Fails: prints a sentence and
// gives the status to exit with. An argument wins over the environment, and that over the file.
#ifndef TOOLS_NEURON_SERVE_OPTIONS_H
#define TOOLS_NEURON_SERVE_OPTIONS_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neuron::serve {

struct Options {
  std::string address = "127.0.0.1";
  uint16_t port = 8000;      // 0: any, which is printed
  std::string grpc_address;  // "": nothing listens for gRPC
  uint16_t grpc_port = 0;
  std::string models;  // folder of the models
  std::string only;    // file in it that is served; "": all models
  std::string cache;   // folder of compiled models; "": the user's
  std::chrono::microseconds compile_timeout{1'800'000'000};  // of one model
  std::vector<uint32_t> cores;       // virtual cores of this process; empty: all
  uint32_t first_core = 0;           // of these: the one that the runtime counts as 0
  uint32_t replicas = 1;             // of each model, on different cores
  std::vector<std::string> batched;  // models whose rows are independent of each other
  std::chrono::microseconds latency_budget{5'000};
  size_t queue_limit = 0;  // rows that may wait for a model; 0: eight batches
  std::chrono::microseconds request_timeout{1'000'000};
  std::chrono::microseconds client_timeout{10'000'000};
  std::chrono::microseconds idle_timeout{60'000'000};
  std::chrono::microseconds drain_timeout{10'000'000};
  size_t max_body = size_t{8} << 20;
  size_t max_header = size_t{8} << 10;
  size_t max_connections = 1024;
  size_t max_held = size_t{256} << 20;  // bytes of requests and answers at a time
  std::vector<std::string> hosts;       // names of this server besides localhost and addresses
  std::string token_file;               // "": anybody may ask
  std::string tls_certificate, tls_key;
  std::string control;     // path of the control socket; "": there is none
  std::string access_log;  // "-": standard error; "": there is none
};

// Fills `options`; the status to exit with at once, or nothing if the program is to go on.
std::optional<int> parse_options(int argc, char** argv, Options& options);

// "5ms", "250us", "1s"; a bare number is milliseconds. False: it is none, or above an hour.
bool parse_duration(const std::string& text, std::chrono::microseconds& duration);

// "0,2-3" in ascending order; false: it is no such list.
bool parse_cores(const std::string& text, std::vector<uint32_t>& cores);

// "127.0.0.1:8000", "[::1]:8000", ":8000" (all addresses), "8000" (loopback).
bool parse_listen(const std::string& text, std::string& address, uint16_t& port);

}  // namespace neuron::serve

#endif
