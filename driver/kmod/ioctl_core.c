// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls about cores: initialisation handshake, reader-writer locks, marks, semaphores, events; and
 * the log of recent calls that NC_PID_STATE_DUMP prints.
 */
#include <linux/jiffies.h>
#include <linux/ratelimit.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

/* How long the public driver tries: writers, readers, and the initialiser of a core. */
#define WRITER_WAIT msecs_to_jiffies(3000)
#define READER_WAIT msecs_to_jiffies(750)
#define INITIALISER_WAIT msecs_to_jiffies(5000)

#define SEMAPHORES 256u
#define EVENTS 256u
#define DUMP_DEFAULT 128u

/* Marks of all cores of the host. */
static DEFINE_MUTEX(claims_lock);
static struct nd_claims claims;

int nd_core_create(struct neuron_device *nd)
{
	u32 i;

	for (i = 0; i < ND_MAX_CORES; i++) {
		struct nd_core *core = &nd->core[i];

		mutex_init(&core->lock);
		init_waitqueue_head(&core->init_wait);
		core->init = NEURON_CINIT_STATE_INVALID;
	}
	spin_lock_init(&nd->oplog.lock);
	nd->oplog.records = kvcalloc(ND_OPLOG_RECORDS, sizeof(*nd->oplog.records), GFP_KERNEL);
	return nd->oplog.records ? 0 : -ENOMEM;
}

void nd_core_destroy(struct neuron_device *nd)
{
	kvfree(nd->oplog.records);
	nd->oplog.records = NULL;
}

void nd_core_reset(struct neuron_device *nd, u32 core_map)
{
	u32 i;

	for (i = 0; i < nd->cores; i++) {
		struct nd_core *core = &nd->core[i];

		if (!(core_map >> i & 1))
			continue;
		mutex_lock(&core->lock);
		core->init = NEURON_CINIT_STATE_INVALID;
		core->started_count = 0;
		mutex_unlock(&core->lock);
		wake_up_all(&core->init_wait);
	}
}

void nd_core_process_exit(struct neuron_device *nd, pid_t pid)
{
	u32 i;

	for (i = 0; i < nd->cores; i++) {
		struct nd_core *core = &nd->core[i];

		mutex_lock(&core->lock);
		nd_core_lock_drop(&core->lock_state, pid);
		mutex_unlock(&core->lock);
		wake_up_all(&core->init_wait);
	}
}

/*
 * Waits until `condition`, which looks at the core without its lock; the waiter looks again under
 * the lock. A waker first changes the core, then wakes.
 */
#define wait_for_core(device, core, condition, until)                                        \
	({                                                                                   \
		struct neuron_device *__nd = (device);                                       \
		long __left = (long)((until)-jiffies);                                       \
		int __waited = -ETIMEDOUT;                                                   \
		if (__left > 0) {                                                            \
			__left = wait_event_killable_timeout(                                \
				(core)->init_wait, (condition) || nd_is_lost(__nd), __left); \
			__waited = __left < 0 ? -EINTR : nd_is_lost(__nd) ? -ENODEV : 0;     \
		}                                                                            \
		__waited;                                                                    \
	})

static int set_init_state(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	struct neuron_ioctl_cinit_set *init = argument;
	struct neuron_device *nd = file->nd;
	unsigned long until = jiffies + INITIALISER_WAIT;
	struct nd_core *core;

	if (init->nc_id >= nd->cores)
		return -E2BIG;
	core = &nd->core[init->nc_id];
	for (;;) { /* bounded: by `until` */
		int result, waited;

		mutex_lock(&core->lock);
		result = nd_core_init_set(&core->init, init->state);
		init->new_state = core->init;
		mutex_unlock(&core->lock);
		if (result != -EAGAIN) {
			wake_up_all(&core->init_wait);
			return result;
		}
		waited = wait_for_core(nd, core,
				       READ_ONCE(core->init) != NEURON_CINIT_STATE_STARTED, until);
		/* An initialiser that never finishes is taken to be dead; the caller takes over. */
		if (waited == -ETIMEDOUT)
			return 0;
		if (waited)
			return waited;
	}
}

static int model_started_count(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			       void __user *user)
{
	struct neuron_ioctl_nc_model_started_count *count = argument;

	if (count->nc_id >= file->nd->cores)
		return -E2BIG;
	count->started_count = READ_ONCE(file->nd->core[count->nc_id].started_count);
	return 0;
}

/* One attempt; -EAGAIN while another process is in the way. */
static int try_core_lock(struct nd_core *core, u32 request, pid_t pid, const u8 *uuid)
{
	struct nd_core_lock *lock = &core->lock_state;
	int result;

	mutex_lock(&core->lock);
	switch (request) {
	case NEURON_IOCTL_CRWL_WRITER_ENTER:
		result = nd_core_lock_write(lock, pid, uuid);
		break;
	case NEURON_IOCTL_CRWL_READER_ENTER:
		result = nd_core_lock_read(lock, pid, uuid);
		break;
	case NEURON_IOCTL_CRWL_READER_EXIT:
		result = nd_core_lock_read_exit(lock, pid, uuid);
		break;
	default:
		result = nd_core_lock_downgrade(lock, pid, uuid);
		break;
	}
	mutex_unlock(&core->lock);
	return result;
}

static int core_lock(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	const struct neuron_ioctl_crwl *request = argument;
	struct neuron_device *nd = file->nd;
	bool writer = call->request == NEURON_IOCTL_CRWL_WRITER_ENTER;
	unsigned long until = jiffies + (writer ? WRITER_WAIT : READER_WAIT);
	pid_t pid = nd_current_pid();
	struct nd_core_lock *lock;
	struct nd_core *core;

	if (request->nc_id >= nd->cores)
		return -EINVAL;
	core = &nd->core[request->nc_id];
	lock = &core->lock_state;
	for (;;) { /* bounded: by `until` */
		int result = try_core_lock(core, call->request, pid, request->uuid.value);
		int waited;

		if (result != -EAGAIN) {
			wake_up_all(&core->init_wait);
			return result;
		}
		waited = wait_for_core(
			nd, core, !READ_ONCE(lock->writer) && !(writer && READ_ONCE(lock->readers)),
			until);
		if (waited == -ETIMEDOUT) {
			dev_dbg(nd->dev,
				"neuron%u core %u: pid %d waited for its lock, held by pid %d\n",
				nd->index, request->nc_id, pid, READ_ONCE(lock->pid));
			return -EBUSY;
		}
		if (waited)
			return waited;
	}
}

/* Cores from the first of this device to the last one of the host. */
static u32 cores_from_here(const struct neuron_device *nd)
{
	u32 index = ND_MAX_DEVICES;

	while (--index > nd->index) {
		struct neuron_device *other = nd_device_by_index(index);

		if (other) {
			nd_device_put(other);
			break;
		}
	}
	return (index - nd->index + 1) * nd->cores;
}

static int mark(struct nd_file *file, u32 count, u32 start, u32 end, u64 *bitmap, u32 *available)
{
	struct neuron_device *nd = file->nd;
	u32 cores = cores_from_here(nd);
	struct nd_claim_request request = {
		.base = nd->index * nd->cores,
		.count = count,
		.start = start,
		.end = min(end, cores - 1),
		.owner = nd_current_pid(),
		.holder = (uintptr_t)file,
	};
	int result;

	if (start >= cores)
		return -EINVAL;
	nd_holder_set(&request.who, current->group_leader->comm, ktime_get_real_seconds());
	mutex_lock(&claims_lock);
	result = nd_claims_mark(&claims, &request, bitmap, available);
	mutex_unlock(&claims_lock);
	return result;
}

static int mark_range(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	u64 bitmap[ND_CLAIM_WORDS];
	int result;

	if (call->request == NEURON_IOCTL_CRWL_NC_RANGE_MARK) {
		struct neuron_ioctl_crwl_nc_map *range = argument;

		result = mark(file, range->nc_count, range->start_nc_index, range->end_nc_index,
			      bitmap, &range->max_nc_available);
		if (!result)
			range->bitmap = bitmap[0];
	} else {
		struct neuron_ioctl_crwl_nc_map_ext *range = argument;

		result = mark(file, range->nc_count, range->start_nc_index, range->end_nc_index,
			      bitmap, &range->max_nc_available);
		if (!result)
			memcpy(range->bitmap, bitmap, sizeof(bitmap));
	}
	return result;
}

static int unmark_range(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	struct neuron_device *nd = file->nd;
	u64 bitmap[ND_CLAIM_WORDS] = {};

	if (call->request == NEURON_IOCTL_CRWL_NC_RANGE_UNMARK)
		bitmap[0] = ((struct neuron_ioctl_crwl_nc_map *)argument)->bitmap;
	else
		memcpy(bitmap, ((struct neuron_ioctl_crwl_nc_map_ext *)argument)->bitmap,
		       sizeof(bitmap));
	mutex_lock(&claims_lock);
	nd_claims_unmark(&claims, nd->index * nd->cores, bitmap, nd_current_pid());
	mutex_unlock(&claims_lock);
	return 0;
}

void nd_core_file_exit(struct nd_file *file)
{
	u64 holder = (uintptr_t)file;
	u32 i;

	mutex_lock(&claims_lock);
	if (file->restricted)
		nd_claims_release(&claims, file->pid, 0);
	/* A child of the opener may have marked cores through the same descriptor. */
	for (i = 0; i < ND_CLAIM_CORES; i++)
		if (claims.core[i].holder == holder)
			nd_claims_release(&claims, claims.core[i].owner, holder);
	mutex_unlock(&claims_lock);
}

void nd_core_claim(struct neuron_device *nd, u32 core, struct nd_claim *out)
{
	const struct nd_claim *claim;

	memset(out, 0, sizeof(*out));
	mutex_lock(&claims_lock);
	claim = nd_claims_at(&claims, nd->index * nd->cores + core);
	if (claim)
		*out = *claim;
	mutex_unlock(&claims_lock);
}

bool nd_core_any_marked(struct neuron_device *nd)
{
	bool marked = false;
	u32 i;

	mutex_lock(&claims_lock);
	for (i = 0; i < nd->cores; i++)
		marked |= nd_claims_owner(&claims, nd->index * nd->cores + i) != 0;
	mutex_unlock(&claims_lock);
	return marked;
}

static u64 core_cell(struct neuron_device *nd, u32 core, u64 block, u32 index)
{
	return nd_chip_core_window(nd->chip, core) + NEURON_CORE_SEMAPHORES + block + index * 4;
}

static int semaphore(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		     void __user *user)
{
	struct neuron_ioctl_semaphore *request = argument;
	struct neuron_device *nd = file->nd;
	u64 block;

	if (request->nc_id >= nd->cores)
		return -E2BIG;
	if (request->semaphore_index >= SEMAPHORES)
		return -EINVAL;
	switch (call->request) {
	case NEURON_IOCTL_SEMAPHORE_READ:
		request->value = nd_read(nd, core_cell(nd, request->nc_id, NEURON_SEM_BLOCK_READ,
						       request->semaphore_index));
		return nd_is_lost(nd) ? -ENODEV : 0;
	case NEURON_IOCTL_SEMAPHORE_WRITE:
		block = NEURON_SEM_BLOCK_SET;
		break;
	case NEURON_IOCTL_SEMAPHORE_INCREMENT:
		block = NEURON_SEM_BLOCK_INC;
		break;
	default:
		block = NEURON_SEM_BLOCK_DEC;
		break;
	}
	nd_write(nd, core_cell(nd, request->nc_id, block, request->semaphore_index),
		 request->value);
	return 0;
}

static int event(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		 void __user *user)
{
	struct neuron_ioctl_event *request = argument;
	struct neuron_device *nd = file->nd;
	u64 cell;

	if (request->nc_id >= nd->cores)
		return -E2BIG;
	if (request->event_index >= EVENTS)
		return -EINVAL;
	cell = core_cell(nd, request->nc_id, NEURON_SEM_BLOCK_EVENT, request->event_index);
	if (call->request == NEURON_IOCTL_EVENT_SET) {
		nd_write(nd, cell, request->value);
		return 0;
	}
	request->value = nd_read(nd, cell);
	return nd_is_lost(nd) ? -ENODEV : 0;
}

void nd_oplog_add(struct neuron_device *nd, enum nd_op op, u32 request, int result)
{
	struct nd_oplog_record record = {
		.when = ktime_get_boottime_ns(),
		.pid = nd_current_pid(),
		.op = op,
		.request = request,
		.result = result,
	};
	struct nd_oplog *log = &nd->oplog;

	spin_lock(&log->lock);
	if (log->records)
		log->records[log->count++ % ND_OPLOG_RECORDS] = record;
	spin_unlock(&log->lock);
}

static const char *op_name(const struct nd_oplog_record *record)
{
	static const char *const names[] = { "open", "flush", "ioctl", "mmap" };
	const struct nd_ioctl *call;

	if (record->op != ND_OP_IOCTL)
		return names[record->op];
	nd_ioctl_find(record->request, &call);
	return call ? call->name : "unknown ioctl";
}

/* Prints the newest `limit` records, oldest of them first; owner 0: of any process. */
static void print_oplog(struct neuron_device *nd, pid_t owner, u32 limit)
{
	struct nd_oplog_record *records;
	u32 kept = 0;
	u64 count, i;

	records = kvcalloc(ND_OPLOG_RECORDS, sizeof(*records), GFP_KERNEL);
	if (!records)
		return;
	spin_lock(&nd->oplog.lock);
	count = nd->oplog.count;
	for (i = count; i > 0 && count - i < ND_OPLOG_RECORDS && kept < limit; i--) {
		const struct nd_oplog_record *record =
			&nd->oplog.records[(i - 1) % ND_OPLOG_RECORDS];

		if (!owner || record->pid == owner)
			records[kept++] = *record;
	}
	spin_unlock(&nd->oplog.lock);
	while (kept--)
		dev_info(nd->dev, "neuron%u: %llu.%06llu pid %d %s: %d\n", nd->index,
			 records[kept].when / NSEC_PER_SEC,
			 records[kept].when % NSEC_PER_SEC / NSEC_PER_USEC, records[kept].pid,
			 op_name(&records[kept]), records[kept].result);
	kvfree(records);
}

/* Anybody may ask for it: a flood is cut off. */
static DEFINE_RATELIMIT_STATE(dump_rate, 5 * HZ, 20);

static int dump_pid_state(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			  void __user *user)
{
	const struct neuron_ioctl_nc_pid_state_dump *dump = argument;
	u32 limit = dump->log_dump_limit ? dump->log_dump_limit : DUMP_DEFAULT;
	u32 cores = file->nd->cores;
	struct neuron_device *nd;
	pid_t owner;

	nd = nd_device_by_index(dump->nc_id / cores);
	if (!nd)
		return -EINVAL;
	mutex_lock(&claims_lock);
	owner = nd_claims_owner(&claims, dump->nc_id);
	mutex_unlock(&claims_lock);
	if (owner)
		dev_info(nd->dev, "neuron%u: core %u of the host is marked by pid %d\n", nd->index,
			 dump->nc_id, owner);
	else
		dev_info(nd->dev, "neuron%u: core %u of the host is free\n", nd->index,
			 dump->nc_id);
	if (__ratelimit(&dump_rate))
		print_oplog(nd, dump->filter_log_owner ? owner : 0, min(limit, ND_OPLOG_RECORDS));
	nd_device_put(nd);
	return 0;
}

const struct nd_handler nd_core_handlers[] = {
	{ NEURON_IOCTL_CINIT_SET_STATE, ND_OUT_SUCCESS, set_init_state },
	{ NEURON_IOCTL_NC_MODEL_STARTED_COUNT, ND_OUT_SUCCESS, model_started_count },
	{ NEURON_IOCTL_CRWL_READER_ENTER, ND_OUT_NONE, core_lock },
	{ NEURON_IOCTL_CRWL_READER_EXIT, ND_OUT_NONE, core_lock },
	{ NEURON_IOCTL_CRWL_WRITER_ENTER, ND_OUT_NONE, core_lock },
	{ NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, ND_OUT_NONE, core_lock },
	/* -EBUSY comes with the longest free run. */
	{ NEURON_IOCTL_CRWL_NC_RANGE_MARK, ND_OUT_ALWAYS, mark_range },
	{ NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, ND_OUT_ALWAYS, mark_range },
	{ NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, ND_OUT_NONE, unmark_range },
	{ NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0, ND_OUT_NONE, unmark_range },
	{ NEURON_IOCTL_SEMAPHORE_INCREMENT, ND_OUT_NONE, semaphore },
	{ NEURON_IOCTL_SEMAPHORE_DECREMENT, ND_OUT_NONE, semaphore },
	{ NEURON_IOCTL_SEMAPHORE_READ, ND_OUT_SUCCESS, semaphore },
	{ NEURON_IOCTL_SEMAPHORE_WRITE, ND_OUT_NONE, semaphore },
	{ NEURON_IOCTL_EVENT_SET, ND_OUT_NONE, event },
	{ NEURON_IOCTL_EVENT_GET, ND_OUT_SUCCESS, event },
	{ NEURON_IOCTL_NC_PID_STATE_DUMP, ND_OUT_NONE, dump_pid_state },
	{ 0, ND_OUT_NONE, NULL },
};
