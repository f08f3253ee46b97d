/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of system "neuron", under the names that existing tooling knows: one for each step of
 * a queue's life, each memory call and each register that user space touches.
 *
 * Callers: the file that takes the step, from any context. Cost nothing while disabled.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM neuron

#if !defined(DRIVER_KMOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DRIVER_KMOD_TRACE_H

#include <linux/tracepoint.h>

/* clang-format off */

TRACE_EVENT(dma_engine_init,
	TP_PROTO(u32 device, u32 engine),
	TP_ARGS(device, engine),
	TP_STRUCT__entry(__field(u32, device) __field(u32, engine)),
	TP_fast_assign(__entry->device = device; __entry->engine = engine;),
	TP_printk("device=%u engine=%u", __entry->device, __entry->engine)
);

TRACE_EVENT(dma_queue_init,
	TP_PROTO(u32 device, u32 engine, u32 queue, u64 tx, u32 tx_count, u64 rx, u32 rx_count),
	TP_ARGS(device, engine, queue, tx, tx_count, rx, rx_count),
	TP_STRUCT__entry(__field(u32, device) __field(u32, engine) __field(u32, queue)
			 __field(u64, tx) __field(u32, tx_count)
			 __field(u64, rx) __field(u32, rx_count)),
	TP_fast_assign(__entry->device = device; __entry->engine = engine; __entry->queue = queue;
		       __entry->tx = tx; __entry->tx_count = tx_count;
		       __entry->rx = rx; __entry->rx_count = rx_count;),
	TP_printk("device=%u engine=%u queue=%u tx=0x%llx/%u rx=0x%llx/%u", __entry->device,
		  __entry->engine, __entry->queue, __entry->tx, __entry->tx_count, __entry->rx,
		  __entry->rx_count)
);

DECLARE_EVENT_CLASS(neuron_queue,
	TP_PROTO(u32 device, u32 engine, u32 queue, u32 count),
	TP_ARGS(device, engine, queue, count),
	TP_STRUCT__entry(__field(u32, device) __field(u32, engine) __field(u32, queue)
			 __field(u32, count)),
	TP_fast_assign(__entry->device = device; __entry->engine = engine; __entry->queue = queue;
		       __entry->count = count;),
	TP_printk("device=%u engine=%u queue=%u count=%u", __entry->device, __entry->engine,
		  __entry->queue, __entry->count)
);

DEFINE_EVENT(neuron_queue, dma_queue_release,
	TP_PROTO(u32 device, u32 engine, u32 queue, u32 count),
	TP_ARGS(device, engine, queue, count));

DEFINE_EVENT(neuron_queue, dma_queue_copy_start,
	TP_PROTO(u32 device, u32 engine, u32 queue, u32 count),
	TP_ARGS(device, engine, queue, count));

DEFINE_EVENT(neuron_queue, dma_ack_completed,
	TP_PROTO(u32 device, u32 engine, u32 queue, u32 count),
	TP_ARGS(device, engine, queue, count));

/* One piece of memory: what happened to which bytes. */
DECLARE_EVENT_CLASS(neuron_memory,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size),
	TP_STRUCT__entry(__field(u32, device) __field(u64, handle) __field(u64, address)
			 __field(u64, size)),
	TP_fast_assign(__entry->device = device; __entry->handle = handle;
		       __entry->address = address; __entry->size = size;),
	TP_printk("device=%u handle=%llu address=0x%llx size=%llu", __entry->device,
		  __entry->handle, __entry->address, __entry->size)
);

DEFINE_EVENT(neuron_memory, dma_desc_copy,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size));

DEFINE_EVENT(neuron_memory, ioctl_mem_alloc,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size));

DEFINE_EVENT(neuron_memory, ioctl_mem_free,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size));

DEFINE_EVENT(neuron_memory, ioctl_mem_copyin,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size));

DEFINE_EVENT(neuron_memory, ioctl_mem_copyout,
	TP_PROTO(u32 device, u64 handle, u64 address, u64 size),
	TP_ARGS(device, handle, address, size));

/* A copy from one device address to another. */
DECLARE_EVENT_CLASS(neuron_copy,
	TP_PROTO(u32 device, u64 source, u64 destination, u64 size),
	TP_ARGS(device, source, destination, size),
	TP_STRUCT__entry(__field(u32, device) __field(u64, source) __field(u64, destination)
			 __field(u64, size)),
	TP_fast_assign(__entry->device = device; __entry->source = source;
		       __entry->destination = destination; __entry->size = size;),
	TP_printk("device=%u source=0x%llx destination=0x%llx size=%llu", __entry->device,
		  __entry->source, __entry->destination, __entry->size)
);

DEFINE_EVENT(neuron_copy, ioctl_mem_copy,
	TP_PROTO(u32 device, u64 source, u64 destination, u64 size),
	TP_ARGS(device, source, destination, size));

DEFINE_EVENT(neuron_copy, dma_memcpy,
	TP_PROTO(u32 device, u64 source, u64 destination, u64 size),
	TP_ARGS(device, source, destination, size));

DECLARE_EVENT_CLASS(neuron_register,
	TP_PROTO(u32 device, u64 offset, u32 value),
	TP_ARGS(device, offset, value),
	TP_STRUCT__entry(__field(u32, device) __field(u64, offset) __field(u32, value)),
	TP_fast_assign(__entry->device = device; __entry->offset = offset;
		       __entry->value = value;),
	TP_printk("device=%u offset=0x%llx value=0x%x", __entry->device, __entry->offset,
		  __entry->value)
);

DEFINE_EVENT(neuron_register, bar_write,
	TP_PROTO(u32 device, u64 offset, u32 value),
	TP_ARGS(device, offset, value));

DEFINE_EVENT(neuron_register, bar_read,
	TP_PROTO(u32 device, u64 offset, u32 value),
	TP_ARGS(device, offset, value));

TRACE_EVENT(metrics_post,
	TP_PROTO(u32 device, u32 bytes, int result),
	TP_ARGS(device, bytes, result),
	TP_STRUCT__entry(__field(u32, device) __field(u32, bytes) __field(int, result)),
	TP_fast_assign(__entry->device = device; __entry->bytes = bytes;
		       __entry->result = result;),
	TP_printk("device=%u bytes=%u result=%d", __entry->device, __entry->bytes,
		  __entry->result)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH driver/kmod
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>

/* clang-format on */
