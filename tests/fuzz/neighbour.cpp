// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/neighbour.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <utility>

#include "driver/core/queue.h"
#include "driver/emulator/service/error.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::fuzz {
namespace {

constexpr int kReadAndWrite = PROT_READ | PROT_WRITE;
// Of the last word of its memory, which it changes to see whether its mapping is its memory.
constexpr uint64_t kStamp = 0x57A3'0000'0000'0000;

// The notification queue of its core.
neuron_ioctl_notifications_init_v2 own_notifications() {
  neuron_ioctl_notifications_init_v2 queue = {};
  queue.nq_dev_id = Neighbour::kCore;
  queue.nq_type = NQ_TYPE_NOTIFY;
  queue.size = Neighbour::kBytes;
  queue.on_host_memory = 1;
  return queue;
}

uint64_t inode_of(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

// --- mappings -------------------------------------------------------------------------------

Mapping Mapping::of(service::Session& session, uint64_t address, uint64_t bytes) {
  Mapping made;
  service::Place place;
  if (session.locate(bytes, kReadAndWrite, address, &place) != 0) return made;
  const int file = place.memory->file.get();
  void* memory =
      ::mmap(nullptr, bytes, kReadAndWrite, MAP_SHARED, file, static_cast<off_t>(place.offset));
  if (memory == MAP_FAILED) {
    service::fail(-errno, "a file of memory cannot be mapped: %s", std::strerror(errno));
    return made;
  }
  made.memory_ = memory;
  made.bytes_ = bytes;
  made.inode_ = inode_of(file);
  return made;
}

Mapping::~Mapping() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(inode_, other.inode_);
  return *this;
}

// --- what it has ----------------------------------------------------------------------------

std::unique_ptr<Neighbour> Neighbour::create(service::Instance& instance) {
  std::unique_ptr<Neighbour> made(new Neighbour(instance));
  if (!made->open()) return nullptr;
  return made;
}

Neighbour::~Neighbour() {
  if (session_ != nullptr) instance_.close(session_);
}

bool Neighbour::allocate(bool host, Memory& memory) {
  __u64 handle = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
  request.size = kBytes;
  request.host_memory = host;
  request.nc_id = kCore;
  request.mem_type = host ? NEURON_MEMALLOC_TYPE_TENSORS_HOST : NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
  request.mem_handle = &handle;
  if (session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request) != 0) return false;
  neuron_ioctl_mem_get_extended_info found = {};
  found.mem_handle = handle;
  if (session_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &found) != 0) return false;
  memory.handle = handle;
  memory.address = found.pa;
  memory.mapping = Mapping::of(*session_, found.pa, kBytes);
  return static_cast<bool>(memory.mapping);
}

bool Neighbour::open() {
  // Not in the program: a fuzzer that knew it could write it into memory of its own.
  secret_ = (uint64_t{std::random_device()()} << 32 | std::random_device()()) | 1;
  if (instance_.open(0, O_RDWR, kClient, &session_) != 0) return false;
  // Results that wait for it: of a reset, and of a scrub while its memory holds nothing yet.
  neuron_ioctl_device_reset reset = {1u << kCore, 0};
  neuron_ioctl_hbm_scrub_start scrub = {kCore, 0, 0, 0};
  neuron_ioctl_crwl_nc_map mark = {1, kCore, kCore, 0, 0};
  neuron_ioctl_crwl lock = {};
  lock.nc_id = kCore;
  neuron_ioctl_neuron_ds_info store = {};
  if (session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK, &mark) != 0 ||
      session_->ioctl(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock) != 0 ||
      session_->ioctl(NEURON_IOCTL_NC_RESET, &reset) != 0 ||
      session_->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub) != 0 ||
      session_->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &store) != 0 || !allocate(false, hbm_) ||
      !allocate(true, host_) || !allocate(true, ring_)) {
    return false;
  }
  datastore_.address = store.mmap_offset;
  datastore_.mapping = Mapping::of(*session_, store.mmap_offset, store.size);
  if (!datastore_.mapping || !set_up_queues()) return false;
  fill();
  counts_ = count();
  return true;
}

bool Neighbour::set_up_queues() {
  neuron_ioctl_dma_queue_init init = {kEngine,      kQueue,       kRing, kRing,
                                      ring_.handle, ring_.handle, 0,     0};
  neuron_ioctl_notifications_init_v2 queue = own_notifications();
  if (session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init) != 0 ||
      session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &queue) != 0) {
    return false;
  }
  notifications_ = queue.mmap_offset;
  const std::lock_guard lock(device().mutex);
  resets_ = device().core_state[kCore].resets;
  return true;
}

void Neighbour::fill() {
  for (const Memory* memory : {&hbm_, &host_, &ring_, &datastore_}) {
    for (size_t i = 0; i < memory->mapping.size(); ++i) memory->mapping.words()[i] = secret_;
  }
}

std::vector<uint64_t> Neighbour::names() const {
  const nd_chip& layout = session_->device().layout();
  const uint64_t bar = session_->device().bar_address();
  const uint32_t copies = session_->device().ring(kCore).engine();
  return {hbm_.handle, host_.handle, ring_.handle, hbm_.address, host_.address, ring_.address,
          datastore_.address, notifications_, static_cast<uint64_t>(kClient.pid),
          kEngine | uint64_t{kQueue} << 32, kCore | uint64_t{NQ_DEVICE_TYPE_NEURON_CORE} << 32,
          NQ_TYPE_NOTIFY, 1u << kCore, kBytes, kRing | uint64_t{kRing} << 32,
          // Doorbells: of its queue, and of the engine of the host's copies of its core.
          bar + nd_queue_register(&layout, kEngine, kQueue, true, NEURON_UDMAQ_TAIL_INC),
          bar + nd_queue_register(&layout, copies, 0, true, NEURON_UDMAQ_TAIL_INC)};
}

bool Neighbour::is_secret(std::span<const std::byte> bytes) const {
  // At any place, as whole words: the pattern has no beginning.
  const auto* known = reinterpret_cast<const std::byte*>(&secret_);
  return std::search(bytes.begin(), bytes.end(), known, known + sizeof(secret_)) != bytes.end();
}

bool Neighbour::owns_handle(uint64_t handle) const {
  return handle == hbm_.handle || handle == host_.handle || handle == ring_.handle;
}

bool Neighbour::owns_address(uint64_t address) const {
  for (const Memory* memory : {&hbm_, &host_, &ring_, &datastore_}) {
    if (address - memory->address < memory->mapping.size() * sizeof(uint64_t)) return true;
  }
  return false;
}

bool Neighbour::is_own_file(int fd) const {
  const uint64_t inode = inode_of(fd);
  for (const Memory* memory : {&hbm_, &host_, &ring_}) {
    if (memory->mapping.inode() == inode) return true;
  }
  return datastore_.mapping.inode() == inode && (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

// --- what others have done to it ------------------------------------------------------------

std::string Neighbour::harm_to_memory(const Memory& memory, const char* name, bool reached) {
  neuron_ioctl_mem_get_extended_info found = {};
  found.mem_handle = memory.handle;
  if (session_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &found) != 0 ||
      found.pa != memory.address || found.size != kBytes) {
    return std::string("its handle of ") + name + " is no longer that of its memory";
  }
  const Mapping& mapping = memory.mapping;
  std::vector<uint64_t> words(mapping.size());
  const auto read = [&] {
    neuron_ioctl_mem_buf_copy64 copy = {memory.handle, words.data(), kBytes, 0, 0};
    return session_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy) == 0;
  };
  if (!read()) return std::string("its ") + name + " cannot be read: " + service::last_error();
  for (size_t i = 0; i < words.size() && !reached; ++i) {
    if (words[i] != secret_) return std::string("a call finds other bytes in its ") + name;
    if (mapping.words()[i] != secret_) return std::string("others have written its ") + name;
  }
  // What it writes through its mapping is what calls read, and the other way round.
  volatile uint64_t& last = mapping.words()[mapping.size() - 1];
  last = kStamp;
  if (!read() || words.back() != kStamp) {
    return std::string("its mapping of ") + name + " is no longer its memory";
  }
  neuron_ioctl_mem_buf_copy64 write = {memory.handle, &secret_, sizeof(secret_),
                                       kBytes - sizeof(secret_), 1};
  if (session_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &write) != 0 || last != secret_) {
    return std::string("its mapping does not show what it writes into its ") + name;
  }
  return "";
}

bool Neighbour::was_reset() {
  const std::lock_guard lock(device().mutex);
  return device().core_state[kCore].resets != resets_;
}

std::string Neighbour::harm_to_queues() {
  {
    const std::lock_guard lock(device().mutex);
    const service::QueueState& queue = device().queues[kEngine][kQueue];
    if (queue.owner != session_->id() || queue.tx.address != ring_.address ||
        queue.rx.address != ring_.address) {
      return "its DMA queue has been set up by another process";
    }
    if (queue.tx_completed != 0 || queue.rx_completed != 0) {
      return "its DMA queue has been acknowledged by another process";
    }
  }
  neuron_dma_queue_state tx = {}, rx = {};
  neuron_ioctl_dma_queue_get_state get = {kEngine, kQueue, &tx, &rx};
  if (session_->ioctl(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &get) != 0 ||
      tx.base_addr != ring_.address || rx.base_addr != ring_.address) {
    return "the registers of its DMA queue hold another ring";
  }
  if ((tx.tail_pointer & NEURON_UDMA_INDEX_MASK) != 0) {
    return "its DMA queue has been started by another process";
  }
  neuron_ioctl_notifications_init_v2 queue = own_notifications();
  if (session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &queue) != 0 ||
      queue.mmap_offset != notifications_) {
    return "its notification queue is another one's";
  }
  return "";
}

std::string Neighbour::harm_to_tables() {
  neuron_ioctl_neuron_ds_info store = {};
  if (session_->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &store) != 0 ||
      store.mmap_offset != datastore_.address) {
    return "its datastore is no longer its own";
  }
  {
    const std::lock_guard lock(instance_.claims_mutex);
    if (nd_claims_owner(&instance_.claims, kCore) != kClient.pid) return "its core is not marked";
  }
  const std::lock_guard lock(device().mutex);
  const nd_core_lock& held = device().core_state[kCore].lock;
  if (!held.writer || held.pid != kClient.pid) return "its lock of its core is not held";
  if (nd_process_find(&device().processes, kClient.pid) == nullptr) {
    return "it has no place on the device";
  }
  const auto result = device().reset_results.find(kClient.pid);
  if (result == device().reset_results.end()) {
    return "another process has fetched the result of its reset";
  }
  if (device().scrubbed[kClient.pid] != 1) return "another process has waited for its scrub";
  return "";
}

std::string Neighbour::harm(bool reached) {
  std::string found = harm_to_tables();
  if (found.empty() && !reached && !was_reset()) found = harm_to_queues();
  for (const auto& [memory, name] :
       {std::pair{&hbm_, "HBM"}, {&host_, "host memory"}, {&ring_, "ring"}}) {
    if (found.empty()) found = harm_to_memory(*memory, name, reached);
  }
  for (size_t i = 0; i < datastore_.mapping.size() && found.empty() && !reached; ++i) {
    if (datastore_.mapping.words()[i] != secret_) found = "others have written its datastore";
  }
  if (reached || was_reset()) {
    if (!set_up_queues() && found.empty()) {
      found = std::string("its queues cannot be set up again: ") + service::last_error();
    }
  }
  if (reached) fill();
  return found;
}

// --- what others have left ------------------------------------------------------------------

Neighbour::Counts Neighbour::count() {
  Counts counts;
  for (uint32_t hbm = 0; hbm < device().memory().stacks(); ++hbm) {
    counts.chunks += device().memory().list(hbm).size();
  }
  const nd_accounting accounting = device().memory().accounting();
  counts.host_bytes = accounting.host.total;
  counts.hbm_bytes = accounting.device.total;
  counts.reserved = instance_.budget().reserved();
  return counts;
}

std::string Neighbour::leftovers() {
  if (count() != counts_) {
    // Notification queues stay until their core is reset.
    if (device().reset((1u << device().cores()) - 1) != 0 || !set_up_queues()) {
      return std::string("the device cannot be reset: ") + service::last_error();
    }
    const Counts now = count();
    if (now != counts_) {
      return std::to_string(now.chunks) + " allocations of HBM, " + std::to_string(now.host_bytes) +
             " bytes of host memory and " + std::to_string(now.reserved) +
             " bytes promised, of which the neighbour has " + std::to_string(counts_.chunks) +
             ", " + std::to_string(counts_.host_bytes) + " and " + std::to_string(counts_.reserved);
    }
  }
  {
    const std::lock_guard lock(instance_.claims_mutex);
    for (uint32_t core = 0; core < ND_CLAIM_CORES; ++core) {
      if (core != kCore && nd_claims_owner(&instance_.claims, core) != 0) {
        return "core " + std::to_string(core) + " is still marked";
      }
    }
  }
  const std::lock_guard lock(device().mutex);
  if (nd_process_count(&device().processes) != 1) return "places on the device are still taken";
  unsigned stores = 0;
  for (const nd_datastore& slot : device().datastores.slot) stores += slot.pid != 0;
  if (stores != 1) return std::to_string(stores) + " datastores are still taken";
  for (uint32_t core = 0; core < device().cores(); ++core) {
    if (core != kCore && device().core_state[core].lock.pid != 0) return "a core is still locked";
  }
  if (device().reset_results.size() != 1) return "results of resets are left";
  if (device().scrubbed.size() != 1) return "scrubs are left";
  for (uint32_t engine = 0; engine < device().layout().dma_engines; ++engine) {
    for (uint32_t queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
      const uint64_t owner = device().queues[engine][queue].owner;
      if (owner == 0 || owner == session_->id() ||
          nd_queue_is_instruction_fetch(&device().layout(), engine, queue)) {
        continue;
      }
      return "DMA engine " + std::to_string(engine) + " queue " + std::to_string(queue) +
             " is still somebody's";
    }
  }
  return "";
}

}  // namespace neuron::fuzz
