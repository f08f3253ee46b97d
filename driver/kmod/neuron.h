/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module share: one struct neuron_device per PCI function, its parts, and the
 * functions of each file.
 *
 * Lifetime: a device is counted (nd_device_get, nd_device_put); each open file holds a reference,
 * so that the struct outlives the PCI function. Registers, BARs and DMA memory do not: code touches
 * them between nd_enter() and nd_exit(), and removal waits for it. The ioctl, open and fault
 * entries call nd_enter(); the functions that they call need not.
 *
 * Lock order, outermost first (README.md says what each guards):
 *   exits_lock, files_lock, copy_queues_lock, core[].nq_lock, nd_copy_ring.lock (by core number),
 * nd_engine.lock, firmware.lock, memory.lock. processes_lock, datastore_lock, core[].lock,
 * reset.lock, leaving_lock, mappings_lock and oplog.lock are leaves. User memory is never touched
 * under memory.lock or a leaf, because the mmap paths take them under mmap_lock.
 */
#ifndef DRIVER_KMOD_NEURON_H
#define DRIVER_KMOD_NEURON_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rbtree.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "driver/core/chip.h"
#include "driver/core/claims.h"
#include "driver/core/core_lock.h"
#include "driver/core/ioctl_table.h"
#include "driver/core/notification.h"
#include "driver/core/process_table.h"
#include "driver/core/queue.h"
#include "driver/kmod/compat.h"
#include "driver/kmod/memory.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "uapi/neuron_datastore.h"
#include "uapi/neuron_ioctl.h"

#define ND_VERSION "2.25.4.100"
#define ND_MAX_DEVICES 64u
#define ND_OPLOG_RECORDS 1024u
/* What a register reads when its device is no longer there. */
#define ND_ALL_ONES 0xFFFFFFFFu
/* What the public driver answers where an interface exists for other chips only. */
#define ND_ENOTSUPP 524

struct neuron_device;
struct nd_file;
struct io_uring_cmd;

/* -------- reset.c -------- */

enum nd_state { ND_STATE_RESET = 0, ND_STATE_READY = 1, ND_STATE_INVALID = 2 };

struct nd_reset {
	spinlock_t lock;	   /* a leaf: conditions of waits take it */
	struct list_head requests; /* first in, first out; done ones stay until fetched */
	wait_queue_head_t wait;	   /* a request ended, or the state changed */
	struct workqueue_struct *queue;
	struct work_struct work;
	enum nd_state state;
};

int nd_reset_create(struct neuron_device *nd);
void nd_reset_destroy(struct neuron_device *nd);
/* The whole device, for nobody in particular; asynchronous. */
int nd_reset_request_internal(struct neuron_device *nd);
/* Consumes the request of a process. -ENOENT: none; -EINTR: killed; else *result is 0 or 1. */
int nd_reset_wait(struct neuron_device *nd, pid_t pid, s32 *result);
void nd_reset_process_exit(struct neuron_device *nd, pid_t pid);
/* Until the device is ready: -EINTR when killed, -EINVAL if it did not come up, -ENODEV. */
int nd_reset_wait_ready(struct neuron_device *nd);

/* -------- firmware.c -------- */

struct nd_firmware {
	struct mutex lock; /* mailbox and reset registers: one request at a time */
	struct nd_chunk *request;
	struct nd_chunk *response;
	u8 sequence;
};

int nd_firmware_create(struct neuron_device *nd);
void nd_firmware_destroy(struct neuron_device *nd);
int nd_firmware_routing_id(struct neuron_device *nd, u32 *id);
/* core_map is NEURON_NC_MAP_DEVICE for the whole device. */
int nd_firmware_reset(struct neuron_device *nd, u32 core_map);
int nd_firmware_read_registers(struct neuron_device *nd, const u64 *addresses, u32 count,
			       u32 *values);
int nd_firmware_post_metric(struct neuron_device *nd, const void *data, u32 size);
int nd_firmware_command(struct neuron_device *nd, u8 command, const void *payload, u32 size,
			void *answer, u32 answer_size);
/* A word of the firmware's RAM, ND_ALL_ONES if the device is gone. */
u32 nd_firmware_word(struct neuron_device *nd, u32 offset);

/* -------- pci.c -------- */

/*
 * 32-bit registers of the register BAR. A read of all ones makes the driver look at the vendor id;
 * if that is gone as well, the device counts as lost.
 */
u32 nd_read(struct neuron_device *nd, u64 offset);
void nd_write(struct neuron_device *nd, u64 offset, u32 value);
void nd_write_sequence(struct neuron_device *nd, const struct nd_register_write *writes,
		       size_t count);
/* True once the device no longer answers or is being removed. */
static inline bool nd_is_lost(const struct neuron_device *nd);
int nd_pci_register(void);
void nd_pci_unregister(void);
/* Devices by index; counted, NULL if there is none. */
struct neuron_device *nd_device_by_index(u32 index);
u32 nd_device_count(void);
void nd_device_get(struct neuron_device *nd);
void nd_device_put(struct neuron_device *nd);
/* The device may be used until nd_exit(); -ENODEV after removal. */
int nd_enter(struct neuron_device *nd, int *token);
void nd_exit(struct neuron_device *nd, int token);

/* -------- mapping.c -------- */

/* One mmap call; counted by the pieces of its VMA. */
struct nd_mapping {
	struct kref refs;
	struct list_head link; /* nd->mappings */
	struct neuron_device *nd;
	struct nd_chunk *chunk; /* NULL: registers or bare HBM */
	pid_t pid;
	unsigned long start;
	u64 size;
	unsigned long first; /* vm_pgoff at mmap */
	u64 offset;	     /* of the first byte in the chunk */
	phys_addr_t address; /* without chunk: of the first byte */
};

int nd_mapping_mmap(struct file *file, struct vm_area_struct *vma);
/* The mapping of this process that contains [va, va + size); counted. NULL if there is none. */
struct nd_mapping *nd_mapping_find(struct neuron_device *nd, pid_t pid, u64 va, u64 size);
void nd_mapping_put(struct nd_mapping *mapping);
int nd_mapping_create(struct neuron_device *nd);
void nd_mapping_revoke(struct neuron_device *nd); /* takes all pages out of all processes */
void nd_mapping_destroy(struct neuron_device *nd);
/* Cookie of a named part (RESOURCE_MMAP_INFO); -EINVAL for an unknown one. */
int nd_mapping_resource(struct neuron_device *nd, u32 block, u32 id, u32 resource, u64 *offset,
			u64 *size);
int nd_mapping_module_init(void);
void nd_mapping_module_exit(void);

/* -------- dma_engine.c -------- */

struct nd_queue {
	pid_t owner; /* 0: nobody */
	struct nd_queue_ring tx;
	struct nd_queue_ring rx;
	struct nd_chunk *tx_chunk; /* counted, so that a ring in use is never freed */
	struct nd_chunk *rx_chunk;
	u32 tx_completed;
	u32 rx_completed;
	bool reserved; /* carries copies of the driver, or is kept for a service */
	u32 reserved_core;
	pid_t reserved_by; /* process of the service */
};

struct nd_engine {
	struct mutex lock;
	struct nd_queue queue[NEURON_DMA_QUEUES];
};

int nd_dma_create(struct neuron_device *nd);
void nd_dma_destroy(struct neuron_device *nd);
/* Sets the engines of these cores and their copy rings up; ring locks are held. */
void nd_dma_start_engines(struct neuron_device *nd, u32 core_map);
/* Forgets user rings of the cores that were reset. */
void nd_dma_forget_queues(struct neuron_device *nd, u32 core_map);
/* Points queues of the process at an empty ring. */
void nd_dma_process_exit(struct neuron_device *nd, pid_t pid);

/* -------- notification.c -------- */

struct nd_notification_queue {
	struct nd_chunk *chunk; /* NULL: does not exist */
	u32 size;
};

int nd_notification_create(struct neuron_device *nd);
/* Takes down the queues of these cores and of their CC cores. */
void nd_notification_reset(struct neuron_device *nd, u32 core_map);
void nd_notification_destroy(struct neuron_device *nd);

/* -------- ioctl_core.c -------- */

struct nd_core {
	struct mutex lock; /* lock_state, init, started_count, further */
	struct nd_core_lock lock_state;
	u32 init; /* enum neuron_cinit_state */
	u64 started_count;
	wait_queue_head_t init_wait;
	struct mutex nq_lock;
	struct nd_notification_queue nq[ND_NQ_PER_DEVICE];
	struct nd_copy_ring ring;
	struct nd_copy_ring *further[NEURON_DMA_QUEUES]; /* by queue id; lock */
	struct nd_accounting accounting;		 /* memory.lock */
	atomic64_t reset_requests;
	atomic64_t reset_failures;
};

int nd_core_create(struct neuron_device *nd);
void nd_core_destroy(struct neuron_device *nd); /* with the last reference to the device */
void nd_core_reset(struct neuron_device *nd, u32 core_map); /* called when a reset is asked for */
void nd_core_process_exit(struct neuron_device *nd, pid_t pid); /* core locks */
/* A descriptor was closed: marks of the file, or of the whole process for a restricted one. */
void nd_core_file_exit(struct nd_file *file);
/* The mark of a core that processes count; owner 0: free. */
void nd_core_claim(struct neuron_device *nd, u32 core, struct nd_claim *out);
bool nd_core_any_marked(struct neuron_device *nd);

/* -------- oplog (ioctl_core.c) -------- */

enum nd_op { ND_OP_OPEN, ND_OP_FLUSH, ND_OP_IOCTL, ND_OP_MMAP };
struct nd_oplog_record {
	u64 when; /* ktime_get_boottime_ns */
	pid_t pid;
	enum nd_op op;
	u32 request;
	int result;
};
struct nd_oplog {
	spinlock_t lock;
	u64 count;
	struct nd_oplog_record *records; /* ND_OPLOG_RECORDS */
};
void nd_oplog_add(struct neuron_device *nd, enum nd_op op, u32 request, int result);

/* -------- datastore.c -------- */

int nd_datastore_create(struct neuron_device *nd);
void nd_datastore_destroy(struct neuron_device *nd);
void nd_datastore_process_exit(struct neuron_device *nd, pid_t pid);
void nd_datastore_clear_all(struct neuron_device *nd); /* the last full descriptor was closed */

/* -------- sysfs.c, fault_attributes.c, metrics.c, topology.c, dmabuf.c, uring.c -------- */

int nd_sysfs_create(struct neuron_device *nd); /* nd->device exists */
void nd_sysfs_destroy(struct neuron_device *nd);
int nd_sysfs_module_init(void); /* class attributes; nd_class exists */
void nd_sysfs_module_exit(void);
/* Adds to a counter of a core (NDS_NC_COUNTER_*); takes no mutex. */
void nd_sysfs_add(struct neuron_device *nd, u32 core, u32 counter, u64 value);
/* After an allocation or a free, without memory.lock: wakes processes that poll the counters. */
void nd_sysfs_memory_changed(struct neuron_device *nd, u32 core, u32 category, bool host);
int nd_fault_module_init(void);
void nd_fault_module_exit(void);
/* True: behave as if it failed (fault injection). */
bool nd_fault_mmap(void);
bool nd_fault_dma_wait(void);
bool nd_fault_allocate(void);
bool nd_fault_firmware_read(void);
bool nd_fault_post_metric(void);
int nd_metrics_create(struct neuron_device *nd);
void nd_metrics_destroy(struct neuron_device *nd);

enum nd_power_status { ND_POWER_VALID, ND_POWER_NO_DATA, ND_POWER_INVALID };

/* Utilization of the last whole minute, in hundredths of a percent. */
struct nd_power {
	enum nd_power_status status;
	s64 when; /* end of the minute, seconds since 1970 */
	u32 lowest;
	u32 highest;
	u32 average;
};

void nd_metrics_power(struct neuron_device *nd, struct nd_power *power);
u32 nd_topology_neighbours(struct neuron_device *nd, u32 out[8]);
int nd_topology_index(const struct neuron_device *nd, u32 routing_id); /* device index */
/* Core behind logical core 0 to 7 of a device of generation 3. */
/* Revokes exports of a chunk that is being freed, or of all when chunk is NULL. */
void nd_dmabuf_revoke(struct neuron_device *nd, struct nd_chunk *chunk);
int nd_dmabuf_create(struct neuron_device *nd);
void nd_dmabuf_destroy(struct neuron_device *nd);
int nd_uring_cmd(struct io_uring_cmd *command, unsigned int issue_flags);
void nd_uring_file_exit(struct nd_file *file); /* cancels its transfers, waits for running ones */
void nd_uring_file_free(struct nd_file *file); /* at the last release */
/*
 * Waits until all workers are idle: a device that was removed has no pages of processes mapped
 * then.
 */
void nd_uring_drain(void);
int nd_uring_module_init(void);
void nd_uring_module_exit(void);

/* -------- file.c -------- */

struct nd_file {
	struct neuron_device *nd; /* counted */
	struct file *file;
	pid_t pid;	       /* process that opened it, init namespace */
	bool restricted;       /* O_WRONLY */
	bool attached;	       /* holds a slot; files_lock */
	struct list_head link; /* nd->files; files_lock */
	void *uring;	       /* uring.c */
};

/* How a handler leaves its argument. */
enum nd_output {
	ND_OUT_NONE,
	ND_OUT_SUCCESS, /* copied back if it returned 0 */
	ND_OUT_ALWAYS,
};

/*
 * One call. The argument was copied from user space whole (call->argument_size bytes); `user` is
 * where it came from, for calls with a flexible array. Several forms of a call share a handler and
 * are told apart by call->request.
 */
struct nd_handler {
	u32 request;
	enum nd_output output;
	int (*handle)(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user);
};

/* Ends with an entry whose handle is NULL. */
extern const struct nd_handler nd_memory_handlers[];	   /* ioctl_memory.c */
extern const struct nd_handler nd_copy_handlers[];	   /* ioctl_copy.c */
extern const struct nd_handler nd_dma_handlers[];	   /* ioctl_dma.c */
extern const struct nd_handler nd_copy_queue_handlers[];   /* copy_queues.c */
extern const struct nd_handler nd_reset_handlers[];	   /* reset.c */
extern const struct nd_handler nd_core_handlers[];	   /* ioctl_core.c */
extern const struct nd_handler nd_notification_handlers[]; /* notification.c */
extern const struct nd_handler nd_datastore_handlers[];	   /* datastore.c */
extern const struct nd_handler nd_device_handlers[];	   /* ioctl_device.c */
extern const struct nd_handler nd_observe_handlers[];	   /* observe.c */
extern const struct nd_ioctl nd_observe_call;
extern const struct nd_handler nd_dmabuf_handlers[]; /* dmabuf.c */

extern const struct file_operations nd_file_operations;
/* ioctl_dispatch.c: every call of an open file; a negative error number or the handler's result. */
long nd_file_ioctl(struct file *filp, unsigned int request, unsigned long argument);
/* Gives back what a call has left of a process that has closed its last descriptor meanwhile. */
void nd_file_clean_up_after_call(struct neuron_device *nd, pid_t pid);
/* Process of the caller, init namespace. */
pid_t nd_current_pid(void);
/* True if the process opened the device itself and has it open. */
bool nd_file_is_attached(struct neuron_device *nd, pid_t pid);
/*
 * Asks for a reset of the whole device unless a full descriptor is open; none is opened between the
 * two. 0 also if there was nothing to do.
 */
int nd_file_reset_if_idle(struct neuron_device *nd);

/* -------- module.c -------- */

extern int nd_param_no_reset;
extern ulong nd_param_small_pool_size;
extern ulong nd_param_host_reserve;
extern ulong nd_param_host_limit_mib;
extern int nd_param_wc_enable;
extern int nd_param_metric_delay_ms;
extern int nd_param_log_posts;
extern int nd_param_cores_per_device;
extern int nd_param_core_map;
extern int nd_param_zerocopy_trn1;
extern struct class *nd_class;
extern dev_t nd_region; /* 64 minors */

/* -------- the device -------- */

struct neuron_device {
	struct kref refs;
	u32 index; /* minor */
	u32 routing_id;
	u8 revision;
	bool is_qemu;		    /* revision 255 */
	bool is_emulator;	    /* revision 240 */
	const struct nd_chip *chip; /* &layout */
	struct nd_chip layout;	    /* of the generation, less what this function does not have */
	u32 cores;		    /* that user space is told of */
	u32 core_map;		    /* bit per usable core: nd_has_core() */

	struct pci_dev *pdev; /* counted */
	struct device *dev;   /* &pdev->dev, for logs and DMA */
	void __iomem *bar0;
	void __iomem *bar4; /* write-combined; NULL: no writes by the CPU */
	phys_addr_t bar0_start;
	u64 bar0_size;
	phys_addr_t bar4_start;
	u64 bar4_size;
	u64 hbm_window;	     /* distance of two stacks in BAR4 */
	u8 bar0_number;	     /* PCI BAR that holds the registers: 0, or 2 */
	bool write_combined; /* mappings of BAR 4 */

	struct srcu_struct srcu; /* nd_enter */
	bool removed;		 /* being removed: nothing new begins */
	bool lost;		 /* no longer answers */

	struct cdev *cdev;
	struct device *device; /* /sys/class/neuron_device/neuronN */

	struct nd_memory memory;
	struct nd_firmware firmware;
	struct nd_reset reset;
	struct nd_core core[ND_MAX_CORES];
	struct {
		struct mutex nq_lock;
		struct nd_notification_queue nq[ND_NQ_PER_DEVICE];
	} topsp[ND_MAX_TOPSPS];
	struct nd_engine *engine; /* chip->dma_engines of them */
	struct nd_register_write engine_writes[ND_ENGINE_INIT_WRITES]; /* the reset worker's */
	struct nd_chunk *dummy_ring;

	struct mutex copy_queues_lock; /* one reservation of copy queues at a time */
	struct mutex exits_lock;       /* one process at a time gives back what it holds */
	struct mutex files_lock;
	struct mutex processes_lock;
	struct nd_process_table processes; /* written under both locks, read under either */
	struct list_head files;		   /* files_lock */
	u32 full_files;			   /* files_lock */
	spinlock_t leaving_lock;	   /* a leaf */
	struct list_head leaving;	   /* processes that give back; leaving_lock */
	wait_queue_head_t leaving_wait;	   /* one of them is done */

	spinlock_t mappings_lock;
	struct list_head mappings;
	struct inode *inode; /* address space of all mappings */

	struct mutex datastore_lock;
	struct nd_datastore_table datastores;
	struct nd_chunk *datastore_memory[ND_DATASTORES];

	struct nd_oplog oplog;
	void *sysfs;   /* sysfs.c */
	void *metrics; /* metrics.c */
	void *dmabuf;  /* dmabuf.c */
	bool metrics_paused;
	struct mutex scrub_lock;
	u32 scrubbed; /* bit per HBM; scrub_lock */
};

static inline bool nd_is_lost(const struct neuron_device *nd)
{
	return READ_ONCE(nd->lost) || READ_ONCE(nd->removed);
}

static inline bool nd_has_core(const struct neuron_device *nd, u32 core)
{
	return core < nd->chip->cores && (nd->core_map >> core & 1);
}

#endif
