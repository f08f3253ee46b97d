// SPDX-License-Identifier: Apache-2.0
// One open descriptor of a device: system calls in, results out.
//
// Concepts: a full session (O_RDWR, O_RDONLY) attaches its process and may make every call; a
// restricted one (O_WRONLY) takes no slot and may make the calls that need no device. Everything
// obtained through a session is freed when it is closed. Callers: any thread, several at once.
// Borrows instance and device. Fails: negative errno and a sentence; success is exactly 0. Calls
// are grouped by file: ioctl_device, ioctl_core, ioctl_memory, ioctl_copy, ioctl_dma.
#ifndef DRIVER_EMULATOR_SERVICE_SESSION_H
#define DRIVER_EMULATOR_SERVICE_SESSION_H

#include <atomic>

#include "driver/core/ioctl_table.h"
#include "driver/emulator/service/instance.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::service {

// The argument of a call, whose presence Session::ioctl has checked.
template <typename T>
T& as(void* argument) {
  return *static_cast<T*>(argument);
}

// Where memory that a process may map lies: in the file of the host arena or of the device's HBM.
struct Place {
  bool host = false;
  uint64_t offset = 0;  // in that file
};

class Session {
 public:
  Session(Instance& instance, Device& device, uint64_t id, int32_t pid, bool restricted,
          const nd_holder& who);

  int ioctl(unsigned long request, void* argument);
  int map(size_t length, int protection, uint64_t offset, void** address);
  int unmap(void* address, size_t length);
  // The same as map, for a process that has the files and maps them itself.
  int locate(size_t length, int protection, uint64_t offset, Place* place);
  // Where a range of a memory handle lies.
  int resolve(uint64_t handle, uint64_t offset, uint64_t size, Place* place);
  int read_register(uint64_t offset, uint32_t* value);
  int write_register(uint64_t offset, uint32_t value, bool run_inline);
  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns);
  std::string describe(unsigned core);
  // Its process is gone: calls in progress give up soon, and release() also stops the programs that
  // it has left running. Any thread.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  // Gives everything back; called once, by Instance::close.
  void release();

  Instance& instance() { return instance_; }
  uint64_t id() const { return id_; }
  bool restricted() const { return restricted_; }
  unsigned device_index() const { return device_.index(); }
  int32_t pid() const { return pid_; }
  const nd_holder& who() const { return who_; }
  Device& device() { return device_; }

 private:
  static constexpr int kNotMine = 1;  // never leaves dispatch()
  int dispatch(const nd_ioctl& call, unsigned long request, void* argument);
  int dispatch_device(unsigned long request, void* argument);
  int dispatch_core(unsigned long request, void* argument);
  int dispatch_memory(unsigned long request, void* argument);
  int dispatch_copy(unsigned long request, void* argument);
  int dispatch_dma(unsigned long request, void* argument);

  // Resets the cores whose programs this process has left behind.
  void stop_programs();
  // Long calls go in pieces of this size, between which they look whether anybody still waits.
  static constexpr uint64_t kStride = 64u << 20;
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }
  int give_up(const char* call) const;

  // The chip is still the one that was opened: -ENODEV once it has lost its power.
  int check_present() const;
  // Checks that several groups need.
  int check_core(uint32_t core) const;
  Pin pin(uint64_t handle, int& error);
  int check_range(const Chunk& chunk, uint64_t offset, uint64_t size);
  int check_buffer(const void* buffer, uint64_t size) const;
  CopyRing& ring_of(const Chunk& chunk) { return device_.ring(chunk.core); }

  int device_info(neuron_ioctl_device_info& info);
  int apps_info(neuron_ioctl_get_apps_info& info);
  int bar_access(const neuron_ioctl_bar_rw& access, bool write);
  int bdf_ext(neuron_ioctl_device_bdf_ext& bdf);
  int routing_ids(neuron_ioctl_host_device_id_to_rid_map& map);
  int print(const neuron_ioctl_printk& line);
  int driver_info(neuron_ioctl_device_driver_info& info);
  int pid_state_dump(const neuron_ioctl_nc_pid_state_dump& dump);
  int hw_counters(const neuron_ioctl_read_hw_counters& counters);
  int resource_info(neuron_ioctl_resource_mmap_info& info);
  int core_map(const neuron_ioctl_get_logical_to_physical_nc_map& request);

  int reset_cores(neuron_ioctl_device_reset& request);
  int reset_ready(neuron_ioctl_device_ready& ready);
  int init_state(neuron_ioctl_cinit_set& init);
  int core_lock(const neuron_ioctl_crwl& lock, unsigned nr);
  int mark(uint32_t count, uint32_t start, uint32_t end, uint64_t* bitmap, uint32_t* available);
  int unmark(const uint64_t* bitmap);
  int semaphore(neuron_ioctl_semaphore& semaphore, unsigned nr);
  int event(neuron_ioctl_event& event, unsigned nr);
  int notifications(const nd_nq_key& key, uint32_t size, bool host, uint32_t hbm, uint32_t region,
                    bool force, __u64* offset, __u64* handle);
  int datastore_acquire(neuron_ioctl_neuron_ds_info& info);
  int datastore_release(int32_t pid);

  int allocate(uint64_t size, uint64_t alignment, uint32_t host, uint32_t hbm, uint32_t region,
               uint32_t core, uint32_t category, __u64* handle);
  int memory_info(neuron_ioctl_mem_get_extended_info& info);
  int chunk_at(uint64_t address, __u64* offset, __u64* size, __u64* handle);
  int dump_chunks(neuron_ioctl_dump_mem_chunks& dump);
  int scrub_start(const neuron_ioctl_hbm_scrub_start& scrub);
  int scrub_wait(uint32_t hbm);

  int copy(uint64_t from, uint64_t to, uint64_t size, uint64_t from_offset, uint64_t to_offset);
  int copy_async(const neuron_ioctl_mem_copy_async64& request, __u32* wait_handle);
  int copy_async_wait(const neuron_ioctl_mem_copy_async_wait& request);
  int buffer_copy(uint64_t handle, void* buffer, uint64_t size, uint64_t offset, bool to_device);
  int check_host_queue(uint32_t core, int32_t queue) const;
  int zero_copy(const neuron_ioctl_mem_buf_copy64zc& request);
  int zero_copy_batches(const neuron_ioctl_mem_buf_copy64zc_batches& request);
  int fill(uint64_t handle, uint64_t offset, uint32_t value, uint64_t size);
  int program_engine(uint32_t core, uint64_t destination, const void* buffer, uint64_t size,
                     uint64_t offset);

  int engine_set_state(const neuron_ioctl_dma_eng_set_state& request);
  int engine_get_state(const neuron_ioctl_dma_eng_get_state& request);
  int queue_init(const neuron_ioctl_dma_queue_init& request);
  int queue_init_batch(const neuron_ioctl_dma_queue_init_batch& batch);
  int queue_ring(uint64_t handle, uint32_t count, const char* name,
                 const neuron_ioctl_dma_queue_init& request, nd_queue_ring* ring);
  int queue_acknowledge(const neuron_ioctl_dma_ack_completed& request);
  int queue_start(const neuron_ioctl_dma_queue_copy_start& request);
  int queue_get_state(const neuron_ioctl_dma_queue_get_state& request);
  int copy_descriptors(uint64_t handle, const void* buffer, uint32_t count, uint64_t offset,
                       uint32_t type);
  int copy_out(const neuron_ioctl_dma_descriptor_copyout& request);
  int check_queue(uint32_t engine, uint32_t queue) const;
  bool is_reserved_queue(uint32_t engine, uint32_t queue);

  Instance& instance_;
  Device& device_;
  const uint64_t id_;
  const int32_t pid_;
  const bool restricted_;
  const nd_holder who_;    // the process at the time of opening
  const uint32_t losses_;  // how often the chip had been lost then
  // Relaxed, both: they order nothing.
  std::atomic<bool> abandoned_{false};
  std::atomic<uint32_t> touched_cores_{0};  // whose semaphores were written
};

}  // namespace neuron::service

#endif
