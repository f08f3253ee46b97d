// SPDX-License-Identifier: Apache-2.0
// neuron-emulatord: the devices of one emulated host, shared by many processes.
//
// One thread runs the event loop; servers have threads of their own for what takes time. Exit
// status: 0 after SIGTERM or SIGINT, 1 if the daemon cannot start, 2 for wrong usage.
#include <fcntl.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/ultra_server.h"
#include "driver/emulator/transport/control/control_server.h"
#include "driver/emulator/transport/control/daemon.h"
#include "driver/emulator/transport/shared/attribute_mount.h"
#include "driver/emulator/transport/shared/listener.h"
#include "driver/emulator/transport/shared/pod_link.h"
#include "driver/emulator/transport/shared/shared_server.h"
#include "driver/emulator/transport/vfio_user/vfio_user_daemon.h"

namespace {

using neuron::transport::AttributeMount;
using neuron::transport::ControlServer;
using neuron::transport::Daemon;
using neuron::transport::Listener;
using neuron::transport::PodLink;
using neuron::transport::SharedServer;

constexpr int kWrongUsage = 2;

struct Options {
  std::string profile = "trn1.2xlarge";
  std::string socket_path;
  std::string attribute_folder;
  std::string pod_folder;
  unsigned pod_node = 0;
  bool ultra_server = false;
  neuron::service::MemoryLimits memory;
  bool custom_operators = false;
  neuron::transport::VfioUserArguments machine;
};

int complain(const std::string& sentence) {
  std::fprintf(stderr, "neuron-emulatord: %s\n", sentence.c_str());
  return 1;
}

// "8GiB" becomes a number. Without a sign -5 would be read as a very large one, and 0 as no limit.
std::string read_bytes(std::string& text) {
  const std::string given = text;
  const bool digits = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (digits && CLI::AsSizeValue(false)(text).empty() && text != "0") return {};
  return "found '" + given + "', expected a number of bytes above 0 (8589934592, 8GiB)";
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--profile", options.profile,
                 "instance type to emulate, for example trn1.2xlarge or inf2.xlarge")
      ->capture_default_str();
  app.add_option("--socket", options.socket_path,
                 "where clients find the device: they set NEURON_EMULATOR=unix:PATH. Not needed "
                 "when systemd passes the socket");
  app.add_option("--sysfs", options.attribute_folder,
                 "an empty folder to show the devices' attributes in, as the kernel's driver shows "
                 "them in /sys/class/neuron_device; with --ultraserver in node0, node1 and so on");
  auto* pod = app.add_option("--pod", options.pod_folder,
                             "be a node of an UltraServer, with the daemons that name the same "
                             "folder; they find each other by sockets in it");
  auto* node = app.add_option("--pod-node", options.pod_node,
                              "which node of the UltraServer this is, from 0 on");
  app.add_flag(
         "--ultraserver", options.ultra_server,
         "serve all nodes of the profile's UltraServer, whose chips reach each other: the first "
         "at the socket PATH-0, the next at PATH-1, and so on")
      ->excludes(pod);
  pod->needs(node);
  node->needs(pod);
  app.add_option("--memory-limit", options.memory.all,
                 "bytes that all devices together may use (8589934592, 8GiB); without it, what the "
                 "host has")
      ->transform(CLI::Validator(read_bytes, "BYTES"));
  app.add_option(
         "--user-memory-limit", options.memory.each_user,
         "bytes that all processes of one user together may use of them, however many these "
         "are; without it, a user may take all that nobody has")
      ->transform(CLI::Validator(read_bytes, "BYTES"));
  app.add_flag("--custom-operators", options.custom_operators,
               "run custom C++ operators, which are code for this host that NEFFs of clients "
               "carry, in processes without rights; as NEURON_EMULATOR_CUSTOM_OPERATORS=1");
  app.add_option("--vfio-user", options.machine.folder,
                 "serve the chips to virtual machines instead, as PCI functions behind the sockets "
                 "nd0.sock, nd1.sock, ... in this folder");
  app.add_option("--functions", options.machine.functions,
                 "with --vfio-user: number of functions; without it, the chips of the profile");
  app.add_option("--revision", options.machine.revision,
                 "with --vfio-user: PCI revision: 240 tells drivers of an emulator, 255 of a "
                 "simulator with its registers in BAR 2");
  app.add_option("--map-level", options.machine.map_level,
                 "with --vfio-user: 0 traps every access, 1 maps the HBM into the guest, 2 also "
                 "configuration pages of DMA engines")
      ->check(CLI::Range(0u, 2u))
      ->capture_default_str();
  app.add_option(
      "--hbm-bytes", options.machine.hbm_bytes_each,
      "with --vfio-user, trn2 or trn3, and revision 255: bytes of each HBM stack, a power of two; "
      "without it, the chip's");
  app.add_flag("--statistics", options.machine.statistics,
               "with --vfio-user: print counts of register accesses at the end");
}

// Options that would be left without effect by another, or by its absence; empty: there are none.
std::string contradiction(const CLI::App& app) {
  const bool machine = app.count("--vfio-user") != 0;
  if (machine) {
    for (const char* option : {"--socket", "--sysfs", "--pod", "--ultraserver", "--memory-limit",
                               "--user-memory-limit"}) {
      if (app.count(option) != 0) {
        return std::string(option) +
               " and --vfio-user exclude each other: chips are served to processes or to virtual "
               "machines; start a daemon for each";
      }
    }
    return {};
  }
  if (app.count("--ultraserver") != 0 && app.count("--socket") == 0) {
    return "--ultraserver needs --socket PATH: the nodes are served at PATH-0, PATH-1, and so on";
  }
  for (const char* option :
       {"--functions", "--revision", "--map-level", "--hbm-bytes", "--statistics"}) {
    if (app.count(option) != 0) {
      return std::string(option) + " needs --vfio-user: it is about functions of virtual machines";
    }
  }
  return {};
}

// Sockets that systemd has passed, -1: none. The one whose unit names it "control" is that; without
// names the second is.
struct Passed {
  int device = -1;
  int control = -1;
};

Passed passed_sockets() {
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(1, &names);
  Passed passed;
  for (int i = 0; i < count; ++i) {
    const bool named =
        names != nullptr && names[i] != nullptr && std::string(names[i]) == "control";
    int& place = named || passed.device >= 0 ? passed.control : passed.device;
    if (place < 0) place = SD_LISTEN_FDS_START + i;
    if (names != nullptr) std::free(names[i]);
  }
  std::free(names);
  return passed;
}

// Every server of one instance, in the order in which they start; they stop in the other order.
struct Servers {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<SharedServer> shared;
  std::unique_ptr<Listener> control_listener;
  std::unique_ptr<ControlServer> control;
  std::unique_ptr<PodLink> pod;

  // The control channel is beside the device unless systemd has made it.
  bool start_control(const Daemon& daemon, int passed, std::string& error) {
    constexpr const char* kWhat = "control channel";
    control_listener =
        passed >= 0
            ? Listener::adopt(passed, kWhat, error)
            : Listener::open(neuron::transport::control_path(daemon.socket_path), kWhat, error);
    if (!control_listener) return false;
    control = ControlServer::start(
        daemon, control_listener->release(), [this] { return shared->connections(); }, error);
    return control != nullptr;
  }
  // `path`: where the device is served, unless systemd has passed the socket.
  bool start(const Options& options, const std::string& path, const Passed& passed, Daemon& daemon,
             std::string& error) {
    listener = passed.device >= 0 ? Listener::adopt(passed.device, "shared device", error)
                                  : Listener::open(path, "shared device", error);
    if (!listener) return false;
    daemon.socket_path = listener->path();
    shared = SharedServer::start(daemon, listener->fd(), error);
    if (shared == nullptr || !start_control(daemon, passed.control, error)) return false;
    if (options.pod_folder.empty()) return true;
    pod = PodLink::join(daemon, options.pod_folder, options.pod_node, error);
    return pod != nullptr;
  }
};

// The instances of the daemon: one, or all nodes of an UltraServer.
struct Instances {
  std::unique_ptr<neuron::service::Instance> alone;
  std::unique_ptr<neuron::service::UltraServer> nodes;

  bool create(const Options& options) {
    int error = 0;
    if (options.ultra_server) {
      nodes = neuron::service::UltraServer::create(options.profile, options.memory,
                                                   neuron::core::create_chip, error);
      return nodes != nullptr;
    }
    alone = neuron::service::Instance::create(options.profile, options.memory,
                                              neuron::core::create_chip, error);
    return alone != nullptr;
  }
  unsigned count() const { return nodes ? nodes->nodes() : 1; }
  neuron::service::Instance& operator[](unsigned number) {
    return nodes ? nodes->node(number) : *alone;
  }
};

// The daemon and the servers of one instance.
struct Served {
  Daemon daemon;
  Servers servers;
};

int run(const Options& options) {
  Instances instances;
  if (!instances.create(options)) return complain(neuron::service::last_error());
  // Handlers never block, and nobody else runs the loop.
  boost::asio::io_context io(1);
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& failure, int) {
    if (!failure) io.stop();
  });
  const Passed passed = instances.nodes ? Passed{} : passed_sockets();
  std::vector<std::unique_ptr<Served>> served;
  for (unsigned i = 0; i < instances.count(); ++i) {
    const std::string path =
        instances.nodes ? options.socket_path + "-" + std::to_string(i) : options.socket_path;
    served.push_back(std::make_unique<Served>(
        Served{{io, instances[i], options.profile, {}, instances.count()}, {}}));
    std::string sentence;
    if (!served.back()->servers.start(options, path, passed, served.back()->daemon, sentence)) {
      return complain(sentence);
    }
  }
  std::unique_ptr<AttributeMount> attributes;
  if (!options.attribute_folder.empty()) {
    std::vector<neuron::service::Instance*> shown;
    for (unsigned i = 0; i < instances.count(); ++i) shown.push_back(&instances[i]);
    std::string sentence;
    attributes = AttributeMount::mount(std::move(shown), options.attribute_folder, sentence);
    if (attributes == nullptr) return complain(sentence);
  }
  sd_notifyf(0, "READY=1\nSTATUS=%u devices of %s at %s",
             instances.count() * instances[0].device_count(), options.profile.c_str(),
             served[0]->daemon.socket_path.c_str());
  io.run();
  sd_notify(0, "STOPPING=1");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Of a file that may not grow, a client's or standard output, the write says so.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app{"Emulated Neuron devices that many processes share.", "neuron-emulatord"};
  Options options;
  add_options(app, options);
  app.set_version_flag("--version", "neuron-emulatord " NEURON_PROJECT_VERSION,
                       "print the version and exit");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("neuron-emulatord: ") + error.what() +
           "\nneuron-emulatord --help says what there is.\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kWrongUsage;
    if (std::cout.flush()) return 0;
    std::fprintf(stderr, "neuron-emulatord: cannot write to standard output: %s\n",
                 std::strerror(errno));
    return 1;
  }
  if (const std::string wrong = contradiction(app); !wrong.empty()) {
    std::fprintf(stderr, "neuron-emulatord: %s\n", wrong.c_str());
    return kWrongUsage;
  }
  if (options.machine.folder.empty() && options.socket_path.empty() && sd_listen_fds(0) <= 0) {
    std::fprintf(stderr,
                 "neuron-emulatord: --socket PATH is missing, and systemd has passed no socket\n");
    return kWrongUsage;
  }
  // Cores read it when they are made; there is one thread still.
  if (options.custom_operators) ::setenv("NEURON_EMULATOR_CUSTOM_OPERATORS", "1", 1);
  // Started without standard streams: what is printed must not land in a client's socket.
  int spare = 0;
  do {
    spare = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (spare >= 0 && spare < 3);
  if (spare >= 0) ::close(spare);
  // A client that is gone is told by the result of a call, and by no signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (!options.machine.folder.empty()) {
      return neuron::transport::run_vfio_user(options.profile, options.machine);
    }
    return run(options);
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
