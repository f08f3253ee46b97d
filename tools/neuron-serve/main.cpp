// SPDX-License-Identifier: Apache-2.0
// neuron-serve: an inference server. Exit status: 0 ended as asked, 1 it could not start (one
// sentence on standard error), 2 wrong usage.
#include <malloc.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "tools/execution/core_claim.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/neuron-serve/log.h"
#include "tools/neuron-serve/server.h"
#include "tools/neuron-serve/service_manager.h"

namespace {

using namespace neuron::serve;  // NOLINT: this file is the program

// A connection is a descriptor; the limit that processes start with is often below ours.
void raise_descriptor_limit(size_t connections) {
  rlimit limit = {};
  const rlim_t wanted = connections + 512;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    log("only " + std::to_string(limit.rlim_cur) +
        " descriptors are allowed, fewer than --max-connections needs (ulimit -n)");
  }
}

std::string summary(const ReloadReport& report) {
  if (!report.error.empty()) return "reload: " + report.error;
  std::string text = "reload:";
  for (const auto& [name, what] : report.models) text += " " + name + " " + what + ";";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto status = parse_options(argc, argv, options)) return *status;
  // What libnrt says of a call that failed is in this program's own sentence.
  neuron::execution::quiet_runtime("neuron-serve");
  // gRPC has as many of its own.
  raise_descriptor_limit(options.max_connections * (options.grpc_address.empty() ? 1 : 2));
  // Bodies that were large go back to the system, so that what is counted is what is resident.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // Whoever started us may not read what we say.
  std::signal(SIGPIPE, SIG_IGN);
  std::string error;
  const int passed = passed_socket(error);
  ModelHost* models = nullptr;
  ServiceManager manager;
  Server server(options, manager,
                [&](std::function<void(ReloadReport)> done) { models->reload(std::move(done)); });
  if (!error.empty() || !server.take_files(error) || !server.listen(passed, error)) {
    log(error);
    return 1;
  }
  // Cores that this server does not use stay free for other processes. No thread runs yet.
  if (!options.cores.empty()) {
    options.first_core =
        neuron::execution::claim_range(options.cores.front(), options.cores.back());
  }
  if (!server.listen_rpc(error)) {
    log(error);
    return 1;
  }
  bool failed = false;
  ModelHost host(options, {.deliver = [&](Jobs jobs) { server.deliver(std::move(jobs)); },
                           .publish = [&](auto catalog) { server.publish(std::move(catalog)); },
                           .unready = [&](const std::string& why) { server.unready(why); },
                           .retire = [&](auto retired) { server.retire(std::move(retired)); },
                           .started =
                               [&](const std::string& why) {
                                 server.post([&, why] {
                                   failed = !why.empty();
                                   if (failed) log(why);
                                   if (failed) return server.drain();
                                   // Who started us on port 0 reads the address from the first
                                   // line, and that of gRPC from the second.
                                   std::printf("%s\n", server.address().c_str());
                                   if (const std::string rpc = server.rpc_address(); !rpc.empty()) {
                                     std::printf("%s\n", rpc.c_str());
                                   }
                                   std::fflush(stdout);
                                   manager.ready();
                                 });
                               }});
  models = &host;
  host.start();
  const auto hang_up = [&] {
    std::string why;
    if (!server.take_files(why)) log("reload: what was there before stays: " + why);
    host.reload([](const ReloadReport& report) { log(summary(report)); });
  };
  server.run(hang_up, [&] { return host.alive(); });
  host.stop();
  return failed ? 1 : 0;
}
