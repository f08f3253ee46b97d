// SPDX-License-Identifier: Apache-2.0
// The attributes of all devices as a folder of files, for scripts that know a kernel's sysfs.
//
// Concepts: a FUSE file system whose top is what /sys/class/neuron_device is on a host with the
// kernel's driver: neuron0/, neuron1/ ... with the tree of service/attributes.h, and the attributes
// of the class. Where there are several hosts, the nodes of an UltraServer, each has such a folder
// in the top: node0/, node1/ and so on. Contents are made when a file is opened. Callers: main()
// mounts and destroys. Owns: the mount and the thread that serves it; the destructor unmounts.
// Borrows the instances. Fails: null with a sentence that says what is missing.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_ATTRIBUTE_MOUNT_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_ATTRIBUTE_MOUNT_H

#include <memory>
#include <string>
#include <vector>

namespace neuron::service {
class Instance;
}

namespace neuron::transport {

class AttributeMount {
 public:
  static std::unique_ptr<AttributeMount> mount(std::vector<service::Instance*> instances,
                                               const std::string& folder, std::string& error);
  virtual ~AttributeMount() = default;
};

}  // namespace neuron::transport

#endif
