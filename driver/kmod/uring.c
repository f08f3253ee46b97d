// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asynchronous copies through io_uring (uapi/neuron_uring.h).
 *
 * A command is checked and its pages are pinned where it is submitted; then it waits in the lane of
 * its core, which a worker empties one command after the other. The file stays referenced by
 * io_uring until the command is done, so lanes, device and module outlive it.
 */
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

#include "driver/kmod/neuron.h"
#include "uapi/neuron_uring.h"

#define MOST_WAITING 1024

struct nd_transfer {
	struct list_head link; /* nd_lane.waiting */
	struct io_uring_cmd *command;
	struct nd_chunk *source;      /* NULL: user pages */
	struct nd_chunk *destination; /* likewise; both counted */
	u64 source_offset;
	u64 destination_offset;
	u64 size;
	struct nd_user_pages pages;
	int result;
};

struct nd_lane {
	struct nd_uring *uring;
	struct list_head waiting; /* nd_uring.lock */
	struct work_struct work;
};

/* Of one open file; made by its first command. */
struct nd_uring {
	struct neuron_device *nd;
	spinlock_t lock;
	u32 count; /* transfers that are not done; lock */
	struct nd_lane lane[ND_MAX_CORES];
};

static struct workqueue_struct *workers;

#ifdef CONFIG_IO_URING

static const void *argument_of(const struct io_uring_cmd *command)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	return io_uring_sqe_cmd(command->sqe);
#else
	return command->cmd;
#endif
}

/* In the context of the submitter, or of a worker of io_uring after it exited. */
static void complete_command(struct io_uring_cmd *command, unsigned int issue_flags)
{
	struct nd_transfer *transfer = *(struct nd_transfer **)command->pdu;
	int result = transfer->result;

	kfree(transfer);
	io_uring_cmd_done(command, result, 0, issue_flags);
}

static void release_parts(struct nd_transfer *transfer)
{
	if (transfer->pages.pages)
		nd_user_pages_release(&transfer->pages);
	if (transfer->source)
		nd_chunk_put(transfer->source);
	if (transfer->destination)
		nd_chunk_put(transfer->destination);
}

static void finish(struct nd_uring *uring, struct nd_transfer *transfer, int result)
{
	release_parts(transfer);
	transfer->result = result;
	spin_lock(&uring->lock);
	uring->count--;
	spin_unlock(&uring->lock);
	io_uring_cmd_complete_in_task(transfer->command, complete_command);
}

static int carry_out(struct neuron_device *nd, struct nd_transfer *transfer)
{
	struct nd_chunk *source = transfer->source;
	struct nd_chunk *destination = transfer->destination;
	struct nd_chunk *device;
	int result, token;

	result = nd_enter(nd, &token);
	if (result)
		return result;
	/* The ring of the side that is on the device; of the destination if both are. */
	device = destination && (!destination->host || !source || source->host) ? destination
										: source;
	if (source && destination)
		result = nd_copy(nd_copy_ring_of(device),
				 destination->address + transfer->destination_offset,
				 source->address + transfer->source_offset, transfer->size, 0);
	else if (destination)
		result = nd_copy_segments(nd_copy_ring_of(device),
					  destination->address + transfer->destination_offset,
					  transfer->pages.segments, transfer->pages.segment_count,
					  true);
	else
		result = nd_copy_segments(nd_copy_ring_of(device),
					  source->address + transfer->source_offset,
					  transfer->pages.segments, transfer->pages.segment_count,
					  false);
	nd_exit(nd, token);
	return result;
}

static struct nd_transfer *take_first(struct nd_lane *lane)
{
	struct nd_transfer *transfer;

	spin_lock(&lane->uring->lock);
	transfer = list_first_entry_or_null(&lane->waiting, struct nd_transfer, link);
	if (transfer)
		list_del(&transfer->link);
	spin_unlock(&lane->uring->lock);
	return transfer;
}

static void empty_lane(struct work_struct *work)
{
	struct nd_lane *lane = container_of(work, struct nd_lane, work);
	struct nd_transfer *transfer;

	while ((transfer = take_first(lane))) {
		finish(lane->uring, transfer, carry_out(lane->uring->nd, transfer));
		cond_resched();
	}
}

static struct nd_uring *uring_of(struct nd_file *file)
{
	struct nd_uring *uring = READ_ONCE(file->uring);
	struct nd_uring *other;
	u32 i;

	if (uring)
		return uring;
	uring = kzalloc(sizeof(*uring), GFP_KERNEL);
	if (!uring)
		return NULL;
	uring->nd = file->nd;
	spin_lock_init(&uring->lock);
	for (i = 0; i < ND_MAX_CORES; i++) {
		uring->lane[i].uring = uring;
		INIT_LIST_HEAD(&uring->lane[i].waiting);
		INIT_WORK(&uring->lane[i].work, empty_lane);
	}
	/* Publishes what is above; of two threads with a first command one wins. */
	other = cmpxchg((struct nd_uring **)&file->uring, NULL, uring);
	if (other) {
		kfree(uring);
		return other;
	}
	return uring;
}

static int prepare_copy(struct neuron_device *nd, const void *argument,
			struct nd_transfer *transfer)
{
	struct neuron_uring_copy copy;

	/* The entry is shared with user space: it is read once. */
	memcpy(&copy, argument, sizeof(copy));
	barrier();
	if (copy.flags || !copy.size || copy.size > NEURON_URING_COPY_BYTES)
		return -EINVAL;
	transfer->source = nd_chunk_pin(nd, copy.source_handle);
	transfer->destination = nd_chunk_pin(nd, copy.destination_handle);
	if (!transfer->source || !transfer->destination)
		return -EINVAL;
	if (nd_chunk_check_range(transfer->source, copy.source_offset, copy.size) ||
	    nd_chunk_check_range(transfer->destination, copy.destination_offset, copy.size))
		return -EINVAL;
	transfer->source_offset = copy.source_offset;
	transfer->destination_offset = copy.destination_offset;
	transfer->size = copy.size;
	return 0;
}

static int prepare_transfer(struct neuron_device *nd, const void *argument, bool to_device,
			    struct nd_transfer *transfer)
{
	struct neuron_uring_transfer request;
	struct nd_chunk *chunk;

	memcpy(&request, argument, sizeof(request)); /* once, as above */
	barrier();
	if (request.flags || !request.size || request.size > NEURON_URING_TRANSFER_BYTES)
		return -EINVAL;
	chunk = nd_chunk_pin(nd, request.mem_handle);
	if (!chunk)
		return -EINVAL;
	if (to_device) {
		transfer->destination = chunk;
		transfer->destination_offset = request.offset;
	} else {
		transfer->source = chunk;
		transfer->source_offset = request.offset;
	}
	transfer->size = request.size;
	if (nd_chunk_check_range(chunk, request.offset, request.size))
		return -EINVAL;
	return nd_user_pages_pin(nd, request.buffer, request.size, to_device, &transfer->pages);
}

static int prepare(struct neuron_device *nd, struct io_uring_cmd *command,
		   struct nd_transfer *transfer)
{
	const void *argument = argument_of(command);

	switch (command->cmd_op) {
	case NEURON_URING_COPY:
		return prepare_copy(nd, argument, transfer);
	case NEURON_URING_WRITE:
		return prepare_transfer(nd, argument, true, transfer);
	case NEURON_URING_READ:
		return prepare_transfer(nd, argument, false, transfer);
	default:
		return -EINVAL;
	}
}

/* False when too many transfers wait already. */
static bool enqueue(struct nd_uring *uring, struct nd_transfer *transfer)
{
	struct nd_chunk *chunk = transfer->destination ? transfer->destination : transfer->source;
	struct nd_lane *lane = &uring->lane[chunk->core % ND_MAX_CORES];
	bool room;

	if (transfer->source && !transfer->source->host && chunk->host)
		lane = &uring->lane[transfer->source->core % ND_MAX_CORES];
	spin_lock(&uring->lock);
	room = uring->count < MOST_WAITING;
	if (room) {
		uring->count++;
		list_add_tail(&transfer->link, &lane->waiting);
	}
	spin_unlock(&uring->lock);
	if (room)
		queue_work(workers, &lane->work);
	return room;
}

int nd_uring_cmd(struct io_uring_cmd *command, unsigned int issue_flags)
{
	struct nd_file *file = command->file->private_data;
	struct nd_transfer *transfer;
	struct nd_uring *uring;
	int result, token;

	if (file->restricted)
		return -EINVAL;
	if (command->cmd_op == NEURON_URING_QUERY)
		return NEURON_URING_VERSION;
	if (!(issue_flags & IO_URING_F_SQE128))
		return -EINVAL;
	/* As for the ioctls of the same purpose. */
	if (!nd_file_is_attached(file->nd, nd_current_pid()))
		return -EACCES;
	uring = uring_of(file);
	transfer = kzalloc(sizeof(*transfer), GFP_KERNEL);
	if (!uring || !transfer) {
		kfree(transfer);
		return -ENOMEM;
	}
	transfer->command = command;
	*(struct nd_transfer **)command->pdu = transfer;
	result = nd_enter(file->nd, &token);
	if (result) {
		kfree(transfer);
		return result;
	}
	/* All before nd_exit(): removal finds the transfer in its lane, or none at all. */
	result = prepare(file->nd, command, transfer);
	if (!result && !enqueue(uring, transfer))
		result = -EBUSY;
	if (result) {
		release_parts(transfer);
		kfree(transfer);
	}
	nd_exit(file->nd, token);
	return result ? result : -EIOCBQUEUED;
}

/* Cancels commands that have not begun and waits for those that run: a copy has a deadline. */
void nd_uring_file_exit(struct nd_file *file)
{
	struct nd_uring *uring = READ_ONCE(file->uring);
	struct nd_transfer *transfer;
	int token;
	u32 i;

	if (!uring)
		return;
	/* Of a device that is being removed the workers end them, and removal waits for those. */
	if (!nd_enter(file->nd, &token)) {
		for (i = 0; i < ND_MAX_CORES; i++)
			while ((transfer = take_first(&uring->lane[i])))
				finish(uring, transfer, -ECANCELED);
		nd_exit(file->nd, token);
	}
	for (i = 0; i < ND_MAX_CORES; i++)
		flush_work(&uring->lane[i].work);
}

void nd_uring_file_free(struct nd_file *file)
{
	nd_uring_file_exit(file);
	kfree(file->uring);
	file->uring = NULL;
}

void nd_uring_drain(void)
{
	flush_workqueue(workers);
}

int nd_uring_module_init(void)
{
	workers = alloc_workqueue("neuron_uring", WQ_UNBOUND, 0);
	return workers ? 0 : -ENOMEM;
}

void nd_uring_module_exit(void)
{
	destroy_workqueue(workers);
}

#else

int nd_uring_cmd(struct io_uring_cmd *command, unsigned int issue_flags)
{
	return -EOPNOTSUPP;
}

void nd_uring_file_exit(struct nd_file *file)
{
}

void nd_uring_file_free(struct nd_file *file)
{
}

void nd_uring_drain(void)
{
}

int nd_uring_module_init(void)
{
	return 0;
}

void nd_uring_module_exit(void)
{
}

#endif
