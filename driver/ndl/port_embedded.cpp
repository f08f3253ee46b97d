// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>
#include <cstdlib>

#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "ndl/emulator.h"

namespace neuron::ndl {
namespace {

constexpr char kLibrary[] = "libneuron-emulator.so.1";
constexpr char kEntry[] = "neuron_emulator_interface";

using Interface = struct ::neuron_emulator_interface;

// Copies the emulator's sentence for the call that just failed into this thread's sentence.
int report(const Interface& emulator, int result) {
  if (result > 0) {
    return fail(-EIO, "the emulated driver answered %d, which no driver call may", result);
  }
  if (result < 0) {
    const char* sentence = emulator.last_error();
    if (sentence != nullptr && sentence[0] != '\0') return fail(result, "%s", sentence);
    errno = -result;
  }
  return result;
}

// The devices of a profile. Shared by the port and its open devices: a call in flight may outlive
// the port, and its device must not be destroyed under it.
struct Instance {
  Instance(const Interface& interface, neuron_emulator_instance_t* devices)
      : emulator(interface), handle(devices) {}
  // The library stays loaded: its threads and thread-local storage may outlive the instance.
  ~Instance() { emulator.destroy(handle); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Interface& emulator;
  neuron_emulator_instance_t* const handle;
};

class EmbeddedDevice : public DevicePort {
 public:
  EmbeddedDevice(std::shared_ptr<const Instance> instance, neuron_emulator_device_t* device)
      : instance_(std::move(instance)), emulator_(instance_->emulator), device_(device) {}
  ~EmbeddedDevice() override { emulator_.close(device_); }

  int ioctl(unsigned long request, void* argument) override {
    return report(emulator_, emulator_.ioctl(device_, request, argument));
  }
  int map(size_t length, int protection, uint64_t offset, void** address) override {
    return report(emulator_, emulator_.map(device_, length, protection, offset, address));
  }
  int unmap(void* address, size_t length) override {
    return report(emulator_, emulator_.unmap(device_, address, length));
  }
  int read_register(uint64_t bar0_offset, uint32_t* value) override {
    return report(emulator_, emulator_.read_register(device_, bar0_offset, value));
  }
  int write_register(uint64_t bar0_offset, uint32_t value, bool run_inline) override {
    return report(emulator_,
                  emulator_.write_register(device_, bar0_offset, value,
                                           run_inline ? NEURON_EMULATOR_WRITE_INLINE : 0));
  }
  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) override {
    return report(emulator_, emulator_.wait(device_, core, word, old, deadline_ns));
  }
  std::string describe(unsigned core) override {
    std::string text(emulator_.describe(device_, core, nullptr, 0) + 1, '\0');
    const size_t length = emulator_.describe(device_, core, text.data(), text.size());
    // The core may have advanced between the two calls: text that does not fit is cut.
    text.resize(length < text.size() ? length : text.size() - 1);
    return text;
  }

 private:
  const std::shared_ptr<const Instance> instance_;
  const Interface& emulator_;
  neuron_emulator_device_t* const device_;
};

class EmbeddedPort : public Port {
 public:
  EmbeddedPort(std::shared_ptr<const Instance> instance, const std::string& profile)
      : instance_(std::move(instance)), profile_(profile) {}

  int devices(int* indexes, int capacity) override {
    const int count = static_cast<int>(instance_->emulator.device_count(instance_->handle));
    for (int i = 0; i < count && i < capacity; ++i) indexes[i] = i;
    return count;
  }
  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    neuron_emulator_device_t* opened = nullptr;
    if (index < 0) return fail(-ENODEV, "there is no device %d", index);
    const Interface& emulator = instance_->emulator;
    const int result =
        emulator.open(instance_->handle, static_cast<unsigned>(index), flags & O_ACCMODE, &opened);
    if (result != 0) return report(emulator, result);
    try {
      device = std::make_unique<EmbeddedDevice>(instance_, opened);
    } catch (...) {
      emulator.close(opened);
      throw;
    }
    return 0;
  }
  int observe(const neuron_emulator_question& question, uint32_t, std::string& answer,
              uint64_t& next) override {
    const Interface& emulator = instance_->emulator;
    constexpr size_t kMostBytes = 512u << 10;
    answer.resize(kMostBytes);
    size_t bytes = 0;
    const int result = report(emulator, emulator.observe(instance_->handle, &question,
                                                         answer.data(), kMostBytes, &bytes, &next));
    answer.resize(result == 0 ? bytes : 0);
    return result;
  }
  std::string name() const override { return "embedded " + profile_; }
  // The interface that the emulated driver implements, not the version of this project.
  std::string driver_version() const override { return "2.25.4.0-emulated"; }
  std::string instance_type() const override { return profile_; }

 private:
  const std::shared_ptr<const Instance> instance_;
  const std::string profile_;
};

// The emulator is installed next to whichever library or program this code is linked into.
std::string beside_this_code() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&beside_this_code), &info) == 0 || info.dli_fname == nullptr) {
    return kLibrary;
  }
  std::string file = info.dli_fname;
  // realpath, because libnrt.so.1 may be reached through a link in another folder.
  if (char* real = realpath(file.c_str(), nullptr)) {
    file = real;
    std::free(real);
  }
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? kLibrary : file.substr(0, slash + 1) + kLibrary;
}

}  // namespace

std::unique_ptr<Port> embedded_port(const std::string& profile, const std::string& library) {
  const std::string file = library.empty() ? beside_this_code() : library;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string why = handle == nullptr ? dlerror() : "";
  // A program with this code in it is not in the folder of the libraries.
  if (handle == nullptr && library.empty()) handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    fail(-ENOENT,
         "NEURON_EMULATOR=%s needs the emulator library, which cannot be loaded: %s; install it "
         "there or name it in NEURON_EMULATOR_LIBRARY",
         profile.c_str(), why.c_str());
    return nullptr;
  }
  auto entry = reinterpret_cast<decltype(&::neuron_emulator_interface)>(dlsym(handle, kEntry));
  if (entry == nullptr) {
    fail(-ENOEXEC, "%s is no emulator library: it has no symbol %s", file.c_str(), kEntry);
    dlclose(handle);
    return nullptr;
  }
  const Interface* emulator = entry(NEURON_EMULATOR_INTERFACE_VERSION);
  std::unique_ptr<Port> port = embedded_port_on(emulator, profile, file);
  // Without an instance nothing of the library is in use.
  if (port == nullptr) dlclose(handle);
  return port;
}

std::unique_ptr<Port> embedded_port_on(const struct ::neuron_emulator_interface* emulator,
                                       const std::string& profile, const std::string& file) {
  if (emulator == nullptr || emulator->version != NEURON_EMULATOR_INTERFACE_VERSION ||
      emulator->size < sizeof(Interface)) {
    fail(-ENOTSUP,
         "%s does not have version %u of the emulator interface; install the one that was built "
         "with this runtime",
         file.c_str(), NEURON_EMULATOR_INTERFACE_VERSION);
    return nullptr;
  }
  neuron_emulator_instance_t* instance = nullptr;
  const int result = emulator->create(profile.c_str(), &instance);
  if (result != 0) {
    report(*emulator, result);
    explain(result, "NEURON_EMULATOR=%s", profile.c_str());
    return nullptr;
  }
  std::shared_ptr<const Instance> shared;
  try {
    shared = std::make_shared<const Instance>(*emulator, instance);
  } catch (...) {
    emulator->destroy(instance);
    throw;
  }
  return std::make_unique<EmbeddedPort>(std::move(shared), profile);
}

}  // namespace neuron::ndl
