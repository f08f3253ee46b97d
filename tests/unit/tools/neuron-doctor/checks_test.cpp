// SPDX-License-Identifier: Apache-2.0
// What neuron-doctor finds on hosts that are made up.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "runtime/base/environment_table.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tools/common/exit_status.h"
#include "tools/neuron-doctor/checks/check.h"
#include "tools/neuron-doctor/checks/variables.h"

namespace neuron::doctor {
namespace {

namespace fs = std::filesystem;

// A folder with dev and sys, as a host might have them.
class MadeUpHost : public ::testing::Test {
 protected:
  MadeUpHost() {
    host_.places.devices = root_ + "/dev";
    host_.places.sys = root_ + "/sys";
    fs::create_directories(host_.places.devices);
    fs::create_directories(host_.places.sys + "/bus/pci/devices");
  }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    test::write_file(path, text);
  }
  void add_function(const std::string& device = "0x7164", bool claimed = true) {
    const std::string folder = host_.places.sys + "/bus/pci/devices/0000:00:1e.0/";
    put(folder + "vendor", "0x1d0f\n");
    put(folder + "device", device + "\n");
    if (claimed) fs::create_directories(folder + "driver");
  }
  void add_module() { put(host_.places.sys + "/module/neuron/version", "2.24.7.0\n"); }
  void add_device() {
    telemetry::Device device;
    device.state = telemetry::DeviceState::kReady;
    device.cores = {{.physical_core = 0, .logical_core = 0},
                    {.physical_core = 1, .logical_core = 1}};
    host_.snapshot.devices.push_back(device);
  }
  static const Check* find(const Checks& checks, const std::string& id) {
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const Check& check) { return check.id == id; });
    return found == checks.end() ? nullptr : &*found;
  }
  Check driver_check(const std::string& id) {
    Checks checks;
    check_driver(host_, checks);
    const Check* found = find(checks, id);
    EXPECT_NE(found, nullptr) << id;
    return found ? *found : Check{};
  }

  const test::Folder folder_;
  const std::string root_ = folder_.path();
  Host host_;
};

TEST_F(MadeUpHost, WithoutHardwareHasOneFailureThatNamesTheEmulator) {
  Checks checks;
  check_driver(host_, checks);
  EXPECT_EQ(count(checks, Verdict::kFail), 1u);
  EXPECT_NE(find(checks, "driver.pci")->action.find("NEURON_EMULATOR"), std::string::npos);
  EXPECT_EQ(look_for_devices(host_.places).obstacle, Obstacle::kNoHardware);
}

TEST_F(MadeUpHost, CountsItsFunctionsAndDeviceFiles) {
  EXPECT_EQ(driver_check("driver.pci").found, "0 PCI functions of Neuron devices");
  EXPECT_EQ(driver_check("driver.pci").expected, "at least one");
  add_function();
  EXPECT_EQ(driver_check("driver.pci").found, "1 PCI function of Neuron devices");
  EXPECT_EQ(driver_check("driver.pci").verdict, Verdict::kPass);
  put(host_.places.sys + "/bus/pci/devices/0000:00:1f.0/vendor", "0x1d0f\n");
  put(host_.places.sys + "/bus/pci/devices/0000:00:1f.0/device", "0x7164\n");
  put(host_.places.sys + "/bus/pci/devices/0000:00:20.0/vendor", "0x8086\n");
  put(host_.places.sys + "/bus/pci/devices/0000:00:20.0/device", "0x7164\n");
  EXPECT_EQ(driver_check("driver.pci").found, "2 PCI functions of Neuron devices")
      << "one is of another vendor";
  EXPECT_EQ(driver_check("driver.nodes").found.substr(0, 14), "0 device files");
}

TEST_F(MadeUpHost, WithDeviceFilesAndNoFunctionsIsTakenForAContainer) {
  put(host_.places.devices + "/neuron0", "");
  const Check pci = driver_check("driver.pci");
  EXPECT_EQ(pci.verdict, Verdict::kSkip);
  EXPECT_EQ(pci.found,
            "0 PCI functions of Neuron devices; this is a container or a machine that does not "
            "show them");
}

TEST_F(MadeUpHost, WithAChipAndNoModuleSaysHowToLoadIt) {
  add_function();
  const Check module = driver_check("driver.module");
  EXPECT_EQ(module.verdict, Verdict::kFail);
  EXPECT_NE(module.action.find("modprobe neuron"), std::string::npos);
  EXPECT_EQ(look_for_devices(host_.places).obstacle, Obstacle::kNoModule);
}

TEST_F(MadeUpHost, WithAModuleAndNoDeviceFilesThinksOfContainers) {
  add_function();
  add_module();
  const Check nodes = driver_check("driver.nodes");
  EXPECT_EQ(nodes.verdict, Verdict::kFail);
  EXPECT_NE(nodes.action.find("--device"), std::string::npos);
}

TEST_F(MadeUpHost, WithAModuleThatIsOlderThanItsChipNamesBoth) {
  add_function("0x7564", false);
  add_module();
  const Access access = look_for_devices(host_.places);
  EXPECT_EQ(access.obstacle, Obstacle::kNoNodes);
  EXPECT_EQ(access.found,
            "the module neuron 2.24.7.0 is loaded, but it has not taken PCI function 0000:00:1e.0 "
            "(Trainium3, 0x7564)");
  EXPECT_NE(access.action.find("from 2.25 on"), std::string::npos);
}

TEST_F(MadeUpHost, WithAModuleThatKnowsTheChipAndHasNotTakenItAsksTheKernelsLog) {
  add_function("0x7364", false);
  add_module();
  const Access access = look_for_devices(host_.places);
  EXPECT_NE(access.found.find("(Trainium2, 0x7364)"), std::string::npos);
  EXPECT_EQ(access.action, "look at dmesg for why the probe failed");
}

TEST_F(MadeUpHost, CountsDeviceFilesInTheOrderOfTheirNumbers) {
  for (const char* name : {"neuron10", "neuron2", "neuron", "neuronx", "null"}) {
    put(host_.places.devices + "/" + name, "");
  }
  EXPECT_EQ(device_files(host_.places),
            (std::vector<std::string>{host_.places.devices + "/neuron2",
                                      host_.places.devices + "/neuron10"}));
}

TEST_F(MadeUpHost, WithOneDeviceFileOfTwoFunctionsWarns) {
  add_function();
  put(host_.places.sys + "/bus/pci/devices/0000:00:1f.0/vendor", "0x1d0f\n");
  put(host_.places.sys + "/bus/pci/devices/0000:00:1f.0/device", "0x7164\n");
  put(host_.places.devices + "/neuron0", "");
  add_module();
  EXPECT_EQ(driver_check("driver.nodes").verdict, Verdict::kWarn);
}

TEST_F(MadeUpHost, NamesTheGroupThatMayOpenADevice) {
  const std::string file = host_.places.devices + "/neuron0";
  put(file, "");
  chmod(file.c_str(), 0460);
  if (geteuid() == 0) {
    // Root may open anything: ask as somebody else, in a child, so that this process stays root.
    chmod(root_.c_str(), 0755);
    ASSERT_EQ(chown(file.c_str(), 0, 1), 0);
    auto child = test::Child::forked([&] {
      if (setgid(65534) != 0 || setuid(65534) != 0) return 9;
      const Access access = look_for_devices(host_.places);
      return access.obstacle == Obstacle::kNoPermission &&
                     access.action.find("usermod -aG " + group_name(1)) != std::string::npos
                 ? 0
                 : 1;
    });
    EXPECT_EQ(child.wait(), 0);
  } else {
    chmod(file.c_str(), 0060);
    EXPECT_EQ(look_for_devices(host_.places).obstacle, Obstacle::kNoPermission);
  }
  EXPECT_EQ(exit_status(Obstacle::kNoPermission), tools::kNoPermission);
}

TEST_F(MadeUpHost, TellsASocketThatIsNotThereFromOneThatNobodyServes) {
  host_.places.emulator = "unix:" + root_ + "/socket";
  EXPECT_NE(look_for_devices(host_.places).found.find("there is no such socket"),
            std::string::npos);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (root_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  const int server = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_NE(look_for_devices(host_.places).found.find("is gone"), std::string::npos);
  ASSERT_EQ(listen(server, 1), 0);
  EXPECT_EQ(look_for_devices(host_.places).obstacle, Obstacle::kNone);
  close(server);
}

// A path of a socket ends with a zero within 108 bytes.
TEST_F(MadeUpHost, RefusesANameThatNoSocketCanHave) {
  const auto access_of = [&](const std::string& path) {
    host_.places.emulator = "unix:" + path;
    const Access access = look_for_devices(host_.places);
    EXPECT_EQ(access.obstacle, Obstacle::kNoDaemon) << path;
    return access.found + "; " + access.action;
  };
  for (const size_t length : {0, 108, 200}) {
    const std::string path(length, 'x');
    EXPECT_EQ(access_of(path), "NEURON_EMULATOR names no socket: \"unix:" + path +
                                   "\"; set NEURON_EMULATOR=unix:PATH, at most 107 characters");
  }
  EXPECT_NE(access_of(std::string(107, 'x')).find("there is no such socket"), std::string::npos);
}

TEST_F(MadeUpHost, KnowsNothingOfMemoryThatTheKernelDoesNotTell) {
  host_.proc = root_ + "/proc";
  const auto of = [&](const char* text) {
    put(host_.proc + "/meminfo", text);
    Checks checks;
    check_limits(host_, checks);
    const Check* found = find(checks, "memory.available");
    EXPECT_NE(found, nullptr);
    return found ? *found : Check{};
  };
  EXPECT_EQ(of("MemTotal: 33554432 kB\n").verdict, Verdict::kSkip);
  EXPECT_EQ(of("MemTotal: 33554432 kB\n").found, "not known");
  EXPECT_EQ(of("MemAvailable: 33554432 kB\n").verdict, Verdict::kPass);
  EXPECT_EQ(of("MemAvailable: 33554432 kB\n").found, "32.0 GiB available");
  EXPECT_EQ(of("MemTotal: 33554432 kB\nMemAvailable: 1 kB\n").verdict, Verdict::kWarn);
}

TEST_F(MadeUpHost, SaysWhoHoldsTheCoresAndWarnsWhenNoneIsFree) {
  add_device();
  telemetry::Process process;
  process.pid = 4242;
  process.command = "python3 serve.py";
  process.devices = {0};
  process.cores.resize(2);
  process.cores[1].logical_core = process.cores[1].physical_core = 1;
  host_.snapshot.processes.push_back(process);
  Checks checks;
  check_devices(host_, checks);
  const Check* cores = find(checks, "cores.free");
  ASSERT_NE(cores, nullptr);
  EXPECT_EQ(cores->verdict, Verdict::kWarn);
  EXPECT_NE(cores->found.find("0 of 2 cores are free; pid 4242 (python3 serve.py) holds 2 cores"),
            std::string::npos)
      << cores->found;
}

TEST_F(MadeUpHost, FailsForADeviceThatIsOffAndWarnsOfAPlantedFault) {
  add_device();
  host_.snapshot.devices[0].state = telemetry::DeviceState::kOff;
  host_.snapshot.devices[0].faults = {"hbm uncorrectable"};
  Checks checks;
  check_devices(host_, checks);
  EXPECT_EQ(count(checks, Verdict::kFail), 1u);
  EXPECT_EQ(find(checks, "devices.health"), nullptr);
  const Check* health = find(checks, "device.0.health");
  ASSERT_NE(health, nullptr);
  EXPECT_NE(health->found.find("does not answer"), std::string::npos);
}

TEST_F(MadeUpHost, WarnsOfADriverThatIsOlderThanWhatIsTested) {
  add_device();
  for (const auto& [version, verdict] :
       {std::pair{"2.9.3", Verdict::kWarn}, {"2.24.7.0", Verdict::kPass}, {"", Verdict::kWarn}}) {
    host_.snapshot.versions.driver = version;
    EXPECT_EQ(driver_version(host_).verdict, verdict) << version;
  }
}

TEST(Variables, FindWhatAMisspeltOneWasMeantToBe) {
  EXPECT_TRUE(is_known_variable("NEURON_RT_VISIBLE_CORES"));
  EXPECT_TRUE(is_known_variable("NEURON_SERVE_LISTEN"));
  EXPECT_FALSE(is_known_variable("NEURON_SERVE_LISTN"));
  EXPECT_EQ(similar_variable("NEURON_SERVE_LISTN"), "NEURON_SERVE_LISTEN");
  EXPECT_FALSE(is_known_variable("NEURON_RT_VISIBLE_COERS"));
  EXPECT_EQ(similar_variable("NEURON_RT_VISIBLE_COERS"), "NEURON_RT_VISIBLE_CORES");
  EXPECT_EQ(similar_variable("NEURON_RT_COMPLETELY_DIFFERENT"), "");
  EXPECT_FALSE(is_ours("PATH"));
}

// A variable that a part of this project reads is not one "that nothing here reads".
TEST(Variables, AreKnownIfAnySourceReadsThem) {
  std::set<std::string> read;
  const std::regex call(
      R"re((?:getenv\(|environ\.get\(|environ\[)"((?:NEURON|CCOM)_[A-Z0-9_]+)"|)re"
      R"re("(NEURON_(?:SERVE|NKI)_[A-Z0-9_]+)")re");
  for (const char* folder : {"tools", "ccom", "runtime", "driver"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source(folder))) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h" && extension != ".py") continue;
      const std::string text = test::read_file(entry.path());
      for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
        read.insert((*it)[1].matched ? (*it)[1] : (*it)[2]);
      }
    }
  }
  EXPECT_TRUE(read.contains("NEURON_NKI_CACHE") && read.contains("NEURON_SERVE_LISTEN") &&
              read.contains("CCOM_ALGORITHM"));
  for (const runtime::EnvironmentVariable& variable : runtime::environment_table()) {
    read.insert(std::string(variable.name));
  }
  for (const std::string& name : read) EXPECT_TRUE(is_known_variable(name)) << name;
}

TEST_F(MadeUpHost, TellsOfAVariableThatNobodyReads) {
  host_.environment = {{"NEURON_RT_LOG_LEVL", "INFO"}, {"HOME", "/"}};
  Checks checks;
  check_environment(host_, checks);
  const Check* variable = find(checks, "environment.variable");
  ASSERT_NE(variable, nullptr);
  EXPECT_EQ(variable->verdict, Verdict::kWarn);
  EXPECT_EQ(variable->expected, "NEURON_RT_LOG_LEVEL");
}

TEST(Report, ExplainsWhatIsWrongBelowItsLine) {
  const Checks checks = {{"a.good", "a", Verdict::kPass, "all is well", {}, {}},
                         {"b.bad", "b", Verdict::kFail, "broken", "whole", "mend it"}};
  EXPECT_EQ(text_of(checks, true, {}),
            "FAIL  b.bad   broken\n"
            "              expected: whole\n"
            "              do: mend it\n"
            "\n1 failed, 0 warnings, 1 passed, 0 skipped\n");
  EXPECT_NE(text_of(checks, false, {}).find("PASS  a.good  all is well\n"), std::string::npos);
}

}  // namespace
}  // namespace neuron::doctor
