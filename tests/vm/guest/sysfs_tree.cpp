// SPDX-License-Identifier: Apache-2.0
// What tools read under /sys/class/neuron_device: names, modes, counters.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/vm/guest/device.h"
#include "uapi/neuron_datastore.h"

namespace neuron::guest {
namespace {

constexpr char kClass[] = "/sys/class/neuron_device/";

std::string read_file(const std::string& path) {
  char text[4096];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Failure{path + " cannot be opened"};
  const ssize_t length = read(fd, text, sizeof(text));
  close(fd);
  if (length < 0) throw Failure{path + " cannot be read: " + std::strerror(errno)};
  return {text, static_cast<size_t>(length)};
}
std::string of_device(const std::string& path) { return read_file(kClass + ("neuron0/" + path)); }
uint64_t number(const std::string& path) {
  return std::strtoull(of_device(path).c_str(), nullptr, 10);
}
void write_device(const std::string& path, const char* text) {
  const int fd = open((kClass + ("neuron0/" + path)).c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT(fd >= 0);
  EXPECT_EQ(write(fd, text, std::strlen(text)), std::strlen(text));
  close(fd);
}
unsigned mode(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat((kClass + ("neuron0/" + path)).c_str(), &status), 0);
  return status.st_mode & 0777;
}
unsigned folders_in(const std::string& path) {
  DIR* folder = opendir((kClass + ("neuron0/" + path)).c_str());
  EXPECT(folder != nullptr);
  unsigned count = 0;
  while (const dirent* entry = readdir(folder)) {
    count += entry->d_type == DT_DIR && entry->d_name[0] != '.';
  }
  closedir(folder);
  return count;
}

CASE("a device says what it is") {
  const Device device;
  // The names of an Inferentia2 are not checked: it has the architecture of a Trainium1.
  const uint32_t architecture = device.chip().architecture;
  const std::string number_of_type = std::to_string(architecture - 1) + "\n";
  const bool trainium = architecture > 2;
  EXPECT(of_device("info/architecture/arch_type").substr(0, 3) == "NDv");
  EXPECT(architecture != 3 || of_device("info/architecture/arch_type") == "NDv3\n");
  EXPECT(architecture != 4 || of_device("info/architecture/arch_type") == "NDv4\n");
  EXPECT(!trainium || of_device("info/architecture/instance_type") == "Trn" + number_of_type);
  EXPECT(!trainium || of_device("info/architecture/device_name") == "Trainium" + number_of_type);
  EXPECT(of_device("neuron_core0/info/architecture/arch_type") ==
         "NCv" + std::to_string(architecture) + "\n");
  EXPECT_EQ(number("core_count"), device.chip().cores);
  EXPECT(of_device("core_count").back() != '\n');
  EXPECT_EQ(mode("core_count") & 0400, 0400);
  EXPECT_EQ(mode("reset"), 0600);
  EXPECT_EQ(number("reset"), 1);
  const std::string serial = of_device("info/serial_number");
  EXPECT(serial == "\n" || serial.size() == 17);
  write_device("info/architecture/arch_type", "nothing");
  EXPECT(of_device("info/architecture/arch_type").substr(0, 3) == "NDv");
}

CASE("neighbours are those that the call tells") {
  const Device device;
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  std::string wanted;
  for (uint32_t i = 0; i < info.connected_device_count; ++i) {
    wanted += (i != 0 ? ", " : "") + std::to_string(info.connected_devices[i]);
  }
  EXPECT(of_device("connected_devices") == wanted + "\n");
}

CASE("every core has its counters") {
  const Device device;
  for (uint32_t core = 0; core < device.chip().cores; ++core) {
    const std::string top = "neuron_core" + std::to_string(core) + "/stats/";
    EXPECT_EQ(folders_in(top + "status"), 24);
    EXPECT_EQ(folders_in(top + "other_info"), 6);
    EXPECT_EQ(folders_in(top + "memory_usage/device_mem"), 11);
    EXPECT_EQ(mode(top + "status/success/total"), 0644);
    EXPECT(of_device(top + "tensor_engine/pe_cntrs").substr(0, 34) ==
           "xrow_grp,mm_active,wl_active,idle\n");
  }
  EXPECT_EQ(folders_in("stats/memory_usage/host_mem"), 8);
  EXPECT_EQ(folders_in("stats/hardware"), 0);
  EXPECT_EQ(number("stats/hardware/sram_ecc_uncorrected"), 0);
  EXPECT_EQ(number("stats/hardware/mem_ecc_uncorrected"), 0);
  EXPECT_EQ(number("stats/hardware/mem_ecc_repairable_uncorrected"), 0);
  EXPECT(of_device("stats/power/utilization").substr(0, 13) == "POWER_STATUS_");
}

CASE("memory is counted by core and category, and the counters can be cleared") {
  const Device device;
  const std::string core = "neuron_core0/stats/memory_usage/device_mem/";
  const std::string tensors = core + "tensors/";
  const uint64_t before = number(tensors + "total");
  const uint64_t whole_before = number(core + "total");
  {
    const Memory memory(device, 3 << 20);
    EXPECT_EQ(number(tensors + "total"), before + (3 << 20));
    EXPECT_EQ(number(tensors + "present"), 3 << 20);
    EXPECT(number(tensors + "peak") >= before + (3 << 20));
    EXPECT_EQ(number(core + "total"), whole_before + (3 << 20));
    const Memory small(device, 4096);
    EXPECT_EQ(number(tensors + "present"), 4096);
  }
  EXPECT_EQ(number(tensors + "total"), before);
  EXPECT(number(tensors + "peak") >= before + (3 << 20));
  write_device(tensors + "peak", "0");
  EXPECT_EQ(number(tensors + "peak"), 0);
  write_device(tensors + "present", "x");
  EXPECT_EQ(number(tensors + "present"), 0);
  const uint64_t host = number("stats/memory_usage/host_mem/application_memory/total");
  Where where;
  where.host = true;
  where.category = NEURON_MEMALLOC_TYPE_MISC_HOST;
  const Memory memory(device, 8192, where);
  EXPECT_EQ(number("stats/memory_usage/host_mem/application_memory/total"), host + 8192);
}

CASE("results that a process counted appear when its datastore is released") {
  const std::string stats = "neuron_core1/stats/";
  const uint64_t success = number(stats + "status/success/total");
  const uint64_t flops = number(stats + "other_info/flop_count/total");
  const uint64_t errors = number(stats + "status/hw_hbm_ue_error/total");
  EXPECT_EQ(exit_status_of_child([] {
              const Device device;
              neuron_ioctl_neuron_ds_info info = {};
              EXPECT_EQ(device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info), 0);
              const Mapping store(device, info.mmap_offset, info.size, PROT_READ | PROT_WRITE);
              uint64_t* counters = NDS_NEURONCORE_COUNTERS(store.bytes(), 1);
              counters[NDS_NC_COUNTER_INFER_COMPLETED] = 12;
              counters[NDS_NC_COUNTER_MAC_COUNT] = 1000;
              NDS_EXT_NEURONCORE_COUNTERS(store.bytes(), 1)
              [NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE - (0 + NDS_NC_COUNTER_COUNT)] = 3;
              return 0;
            }),
            0);
  EXPECT_EQ(number(stats + "status/success/total"), success + 12);
  EXPECT_EQ(number(stats + "status/success/present"), 12);
  EXPECT_EQ(number(stats + "other_info/flop_count/total"), flops + 2000);
  EXPECT_EQ(number(stats + "status/hw_hbm_ue_error/total"), errors + 3);
  write_device(stats + "status/success/total", "0");
  EXPECT_EQ(number(stats + "status/success/total"), 0);
  EXPECT_EQ(number(stats + "status/success/present"), 12);
}

CASE("resets are counted on the cores that were reset") {
  const Device device;
  const std::string file = "/stats/other_info/reset_req_count/total";
  const uint64_t first = number("neuron_core0" + file), second = number("neuron_core1" + file);
  neuron_ioctl_device_reset request = {2, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET, &request), 0);
  neuron_ioctl_device_ready ready = {request.request_id, 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
  EXPECT_EQ(number("neuron_core0" + file), first);
  EXPECT_EQ(number("neuron_core1" + file), second + 1);
  EXPECT_EQ(number("neuron_core1/stats/other_info/reset_fail_count/total"), 0);
}

CASE("a reset by sysfs is carried out, unless a process uses the device") {
  {
    const Device device;
    write_device("reset", "1");
    EXPECT_EQ(number("reset"), 1);
  }
  write_device("reset", "1");
  const Device device;  // waits until it is over
  EXPECT_EQ(number("reset"), 1);
}

CASE("the class says that the host is part of no UltraServer") {
  EXPECT(read_file(std::string(kClass) + "node_id_2") == "-1\n");
  EXPECT(read_file(std::string(kClass) + "node_id_4") == "-1\n");
  EXPECT(read_file(std::string(kClass) + "server_id_4") == "0000000000000000\n");
  EXPECT(read_file(std::string(kClass) + "ultraserver_mode") == "\n");
}

CASE("counters tell pollers about changes only where that is switched on") {
  EXPECT(of_device("info/notify_delay") == "-1\n");
  write_device("info/notify_delay", "7");
  EXPECT(of_device("info/notify_delay") == "-1\n");
  write_device("info/notify_delay", "0");
  EXPECT(of_device("info/notify_delay") == "0\n");
  {
    const Device device;
    const Memory memory(device, 4096);
  }
  write_device("info/notify_delay", "-1");
}

CASE("every step has its tracepoint") {
  for (const char* name :
       {"dma_engine_init", "dma_queue_init", "dma_queue_release", "dma_desc_copy",
        "dma_queue_copy_start", "dma_ack_completed", "ioctl_mem_alloc", "ioctl_mem_free",
        "ioctl_mem_copy", "ioctl_mem_copyin", "ioctl_mem_copyout", "dma_memcpy", "bar_write",
        "bar_read", "metrics_post"}) {
    const std::string enable = std::string("/sys/kernel/tracing/events/neuron/") + name + "/enable";
    EXPECT(access(enable.c_str(), F_OK) == 0);
  }
}

}  // namespace
}  // namespace neuron::guest
