/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of a device and what moves bytes in and out of it: chunks, copy rings, pinned user pages.
 *
 * Callers: everything that holds the device between nd_enter() and nd_exit() (neuron.h, which also
 * has the order of locks). Chunks and further rings are counted; errors are negative numbers, said
 * in the kernel's log where the caller could not know better.
 */
#ifndef DRIVER_KMOD_MEMORY_H
#define DRIVER_KMOD_MEMORY_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>

#include "driver/core/accounting.h"
#include "driver/core/async_copy.h"
#include "driver/core/chip.h"
#include "driver/core/handle_table.h"
#include "driver/core/hbm.h"
#include "driver/core/pool.h"
#include "driver/core/ring.h"
#include "hw/udma.h"

struct neuron_device;

/* -------- memory.c -------- */

enum nd_lifespan {
	ND_LIFE_PROCESS, /* until the last close of its process */
	ND_LIFE_DEVICE,	 /* until its owner in the driver frees it */
};

/*
 * One allocation. Counted: the handle and the driver hold one reference, each pin, mapping, DMA
 * queue and dma-buf another. A chunk that was freed has left all tables; its memory goes with the
 * last reference, or when the device is removed.
 */
struct nd_chunk {
	struct kref refs;
	struct neuron_device *nd; /* counted */
	struct rb_node node;	  /* memory.chunks, while published */
	u64 address;		  /* device address, with the host bit for host memory */
	u64 size;		  /* whole pages */
	void *va;		  /* host memory */
	dma_addr_t dma;
	struct nd_block *block;	  /* HBM, or the device's reserve of host memory */
	struct nd_charge *charge; /* who pays for host memory; NULL: the device */
	pid_t pid;		  /* owner, init namespace; 0: the device */
	u32 handle;		  /* 0: none */
	u32 core;
	u32 category;
	u32 hbm;
	enum nd_lifespan lifespan;
	bool host;
	bool pages;  /* host memory: pages of the module, not of the kernel's interface for DMA */
	bool mapped; /* the device may use those pages */
	bool scratchpad;
	bool published;
	bool hidden;	       /* the driver's alone: no process finds it by address */
	atomic_t imports;      /* mappings and pins by importers of dma-bufs */
	bool given_back;       /* its memory was returned because the device went away */
	struct list_head all;  /* memory.all: every chunk that has memory */
	struct list_head dead; /* of a process that ended */
};

struct nd_memory_request {
	u64 size;
	u64 alignment;
	bool host;
	u32 hbm;
	u32 region;
	u32 core;
	u32 category;
	pid_t pid;   /* 0 for ND_LIFE_DEVICE */
	pid_t payer; /* process whose limit of host memory counts; 0: the device itself */
	enum nd_lifespan lifespan;
	bool with_handle;
	bool hidden;
	bool pinned; /* the caller gets a reference of its own: nd_chunk_put() */
};

/* One contiguous range of host memory that belongs to the device. */
struct nd_host_reserve {
	void *base; /* NULL: none */
	dma_addr_t dma;
	u64 size;
	struct nd_pool pool; /* of DMA addresses */
	struct nd_block *nodes;
	bool ready; /* mapped for the device */
};

struct nd_memory {
	struct mutex lock;
	struct nd_host_reserve reserve;
	struct nd_hbm hbm[ND_MAX_HBMS];
	struct nd_handle_table handles;
	struct rb_root chunks; /* published, by address */
	struct list_head all;
	struct list_head nodes;		 /* batches of struct nd_block */
	struct nd_accounting accounting; /* whole device */
	bool ready;
};

int nd_memory_create(struct neuron_device *nd);
/* Takes the memory of all chunks away, in use or not; mappings were zapped before. */
void nd_memory_destroy(struct neuron_device *nd);
/*
 * What has ND_LIFE_DEVICE is the caller's until nd_chunk_free(); anything else may be freed by any
 * process at once, so that its allocator wants it pinned.
 */
int nd_memory_allocate(struct neuron_device *nd, const struct nd_memory_request *request,
		       struct nd_chunk **chunk);
/* Takes the chunk out of all tables and drops the allocator's reference. NULL is fine. */
void nd_chunk_free(struct nd_chunk *chunk);
/* Host memory of the driver itself: category NCDEV_HOST, no handle. */
int nd_memory_allocate_host(struct neuron_device *nd, u64 size, u32 core, u32 category,
			    struct nd_chunk **chunk);
/* The same, for rings and mailboxes: a process that could write them could copy anything anywhere.
 */
int nd_memory_allocate_hidden(struct neuron_device *nd, u64 size, u32 core, u32 category,
			      struct nd_chunk **chunk);
/* By handle: only memory of processes; -EINVAL otherwise. */
int nd_memory_free_handle(struct neuron_device *nd, u64 handle);
void nd_memory_process_exit(struct neuron_device *nd, pid_t pid);
/* References; NULL if the handle or address is not live. */
struct nd_chunk *nd_chunk_pin(struct neuron_device *nd, u64 handle);
struct nd_chunk *nd_chunk_pin_address(struct neuron_device *nd, u64 address, u64 size);
void nd_chunk_get(struct nd_chunk *chunk);
void nd_chunk_put(struct nd_chunk *chunk);
int nd_chunk_give_handle(struct nd_chunk *chunk, u32 *handle);
/* 0 if [offset, offset + size) may be reached from the chunk (scratchpads reach further). */
int nd_chunk_check_range(struct nd_chunk *chunk, u64 offset, u64 size);
/* Host and HBM bytes that a process holds. */
void nd_memory_usage(struct neuron_device *nd, pid_t pid, u64 *host, u64 *device);
/* Physical page of byte `offset`: of host memory, or of BAR4. */
int nd_chunk_pfn(struct nd_chunk *chunk, u64 offset, unsigned long *pfn);

/* -------- host_memory.c -------- */

/* Host memory that a process holds; lives as long as that is more than nothing. */
struct nd_charge;
/* -ENOMEM if the process would have more than it may; takes a spinlock. */
int nd_host_charge(struct neuron_device *nd, pid_t pid, u64 bytes, struct nd_charge **charge);
/* Part of a charge, or all of it. NULL is fine. */
void nd_host_uncharge(struct nd_charge *charge, u64 bytes);
/* Memory for a chunk whose size is set, with its addresses and its charge; memory.lock is held. */
int nd_host_allocate(struct neuron_device *nd, struct nd_chunk *chunk, pid_t payer);
void nd_host_free(struct neuron_device *nd, struct nd_chunk *chunk);
/* The device uses it no more. False if the memory cannot outlive the device; the lock is held. */
bool nd_host_detach(struct neuron_device *nd, struct nd_chunk *chunk);
/* Without a reserve the device works too. */
void nd_host_reserve_create(struct neuron_device *nd);
/* The device reads and writes it no more. */
void nd_host_reserve_stop(struct neuron_device *nd);
/* With the last reference to the device: until then an importer may use what it pinned. */
void nd_host_reserve_destroy(struct neuron_device *nd);

/* -------- copy_ring.c -------- */

#define ND_COPY_RING_DESCRIPTORS 8192u

/* What an asynchronous copy works on, counted. */
struct nd_copy_memory {
	struct nd_chunk *source;
	struct nd_chunk *destination;
};

struct nd_copy_ring {
	struct kref refs; /* of a further ring; that of a core lives as long as the device */
	bool further;
	struct mutex lock; /* one copy at a time, its wait included */
	struct neuron_device *nd;
	u32 core;
	u32 engine;
	u32 queue;
	struct nd_ring ring;
	struct nd_chunk *source;
	struct nd_chunk *destination;
	struct nd_chunk *marker;  /* per name of a copy: word copied, word that arrives */
	struct nd_chunk *pattern; /* 64 KiB: what a fill repeats */
	struct nd_async_copies async;
	struct nd_copy_memory held[ND_ASYNC_NAMES];
	bool reset_waits; /* copies that hang are given up sooner: a reset wants the lock */
	bool ready;
};

/* A piece of process memory as the engine sees it. */
struct nd_segment {
	u64 address; /* device address, with the host bit */
	u64 size;
};

int nd_copy_ring_create(struct neuron_device *nd, u32 core);
/* A further ring on the engine of a core's copies, running and with one reference. */
int nd_copy_ring_create_further(struct neuron_device *nd, u32 core, u32 queue,
				struct nd_copy_ring **ring);
void nd_copy_rings_destroy(struct neuron_device *nd);
/* Programs the queue; the lock is held. Transfers in flight are lost. */
void nd_copy_ring_restart(struct nd_copy_ring *ring);
/* Device addresses on both sides; sleeps until done. pattern > 0: the source repeats. */
int nd_copy(struct nd_copy_ring *ring, u64 destination, u64 source, u64 size, u32 pattern);
int nd_copy_segments(struct nd_copy_ring *ring, u64 device, const struct nd_segment *segments,
		     u32 count, bool to_device);
int nd_copy_fill(struct nd_copy_ring *ring, u64 destination, u32 value32, u64 size);
/* Between kernel memory and the device, through a bounce buffer. */
int nd_copy_from_kernel(struct nd_copy_ring *ring, u64 destination, const void *source, u64 size);
int nd_copy_to_kernel(struct nd_copy_ring *ring, void *destination, u64 source, u64 size);
/*
 * The name is 1 or 2. A copy of that name that nobody has waited for is finished first. The chunks
 * stay as they are until the copy has ended.
 */
int nd_copy_start(struct nd_copy_ring *ring, u32 name, struct nd_chunk *destination,
		  u64 destination_offset, struct nd_chunk *source, u64 source_offset, u64 size);
int nd_copy_wait(struct nd_copy_ring *ring, u32 name);
/* Ring that serves copies of a chunk. */
struct nd_copy_ring *nd_copy_ring_of(struct nd_chunk *chunk);
void nd_copy_ring_put(struct nd_copy_ring *ring);

/* -------- copy_queues.c -------- */

/*
 * The ring for a queue id that user space named (-1: that of the core), counted: give it back with
 * nd_copy_ring_put(). NULL if there is none.
 */
struct nd_copy_ring *nd_copy_ring_find(struct neuron_device *nd, u32 core, s32 queue);
/* Gives the further rings of these cores up. */
void nd_copy_queues_reset(struct neuron_device *nd, u32 core_map);
/* Gives up what a process reserved for services. */
void nd_copy_queues_process_exit(struct neuron_device *nd, pid_t pid);

/* -------- zero_copy.c -------- */

/* Moves bytes between a user buffer of the calling process and device memory. */
int nd_zero_copy(struct nd_copy_ring *ring, u64 device, void __user *buffer, u64 size,
		 bool to_device);
/* The pages of a user buffer, pinned and mapped for the device, for transfers that outlast a call.
 */
struct nd_user_pages {
	struct neuron_device *nd;
	struct page **pages;
	u32 count;
	u32 mapped;
	u32 offset; /* of the first byte in the first page */
	u64 size;
	bool to_device;
	struct nd_segment *segments;
	u32 segment_count;
};
int nd_user_pages_pin(struct neuron_device *nd, unsigned long start, u64 size, bool to_device,
		      struct nd_user_pages *pages);
void nd_user_pages_release(struct nd_user_pages *pages);

#endif
