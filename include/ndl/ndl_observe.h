// SPDX-License-Identifier: Apache-2.0
// Reads a device without opening it: identity, state, holders, counters, attributes.
//
// For operator tools. Takes no process slot of a device that is emulated or driven by this
// project's module. Another driver answers only attached processes, so the call attaches while it
// runs. Every function waits at most timeout_ms, even for a device that hangs, and changes nothing;
// only ndl_write_attribute changes the attribute that it names. Attributes have the paths that they
// have below /sys/class/neuron_device/neuron<N>/ of a kernel's device. Errors as in ndl.h.
#ifndef NDL_OBSERVE_H
#define NDL_OBSERVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "uapi/neuron_observe.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Fills as much of the struct as `size` says.
int ndl_observe_device(int device_index, uint32_t timeout_ms, ndl_observation_t *observation);

// Asks all devices in one question and calls `told` once for each, with what ndl_observe_device
// fills in (its `size` says how much that is) and with "path value" lines of the attributes below
// `folders` (separated by spaces; may be ""). A device that is being reset does not delay the
// others. -EOPNOTSUPP: the driver does not answer this question; ask each device.
typedef void (*ndl_told_t)(void *context, int device_index, const ndl_observation_t *observation,
                           const char *attributes);
int ndl_observe_devices(const char *folders, uint32_t timeout_ms, ndl_told_t told, void *context);

// Copies the datastore of a process: the number of bytes written, at most `size`; the rest of the
// buffer is zero. -ENOENT: the process has none.
ssize_t ndl_observe_datastore(int device_index, pid_t pid, uint32_t timeout_ms, void *buffer,
                              size_t size);

// Contents of an attribute, for example "info/serial_number", with a NUL behind it; of a folder
// (a path that ends with '/', or ""), a line "path value" for each attribute below it. Returns the
// length without NUL; -EMSGSIZE if it does not fit; -ENOENT: no such attribute.
ssize_t ndl_read_attribute(int device_index, const char *path, uint32_t timeout_ms, char *buffer,
                           size_t size);

// Has the effect of a write to the attribute's file: most counters go to 0, whatever the text.
int ndl_write_attribute(int device_index, const char *path, const char *text, uint32_t timeout_ms);

// Names in a folder, a line each; folders end with '/'. As ndl_read_attribute.
ssize_t ndl_list_attributes(int device_index, const char *path, uint32_t timeout_ms, char *buffer,
                            size_t size);

// PCI address of the network adapter (EFA) nearest to the device, for example "0000:10:19.0", with
// a NUL behind it. Of an emulated device, the one that its profile names. Returns and fails as
// ndl_read_attribute; -ENOENT: the host has none; -EOPNOTSUPP: the daemon does not know the
// question yet.
ssize_t ndl_observe_adapter(int device_index, uint32_t timeout_ms, char *buffer, size_t size);

// Why the last failing call of this thread to the driver library failed, as one sentence; "" before
// the first. Valid until the thread's next failure.
const char *ndl_last_error(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDL_OBSERVE_H
