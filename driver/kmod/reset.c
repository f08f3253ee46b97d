// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resets: a queue of requests per device, carried out in order by one worker; neighbouring requests
 * of processes become one reset. A process has at most one request, which stays until it is
 * fetched or the process goes.
 *
 * While cores are reset their copy rings are locked, so that copies wait instead of timing out.
 */
#include <linux/delay.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

/* While it is prepared, what the reset takes away is being taken away. */
enum request_state { REQUEST_PREPARED, REQUEST_WAITS, REQUEST_RUNS, REQUEST_DONE };

struct nd_reset_request {
	struct list_head link; /* nd->reset.requests */
	pid_t pid;	       /* 0: the driver itself */
	u32 core_map;
	enum request_state state;
	int result;
};

static u32 usable_cores(struct neuron_device *nd, u32 core_map)
{
	return core_map == NEURON_NC_MAP_DEVICE ? nd->core_map : core_map & nd->core_map;
}

/* A copy that hangs must not hold up a reset: the reset may be its cure. */
static void lock_rings(struct neuron_device *nd, u32 cores)
{
	u32 core;

	for (core = 0; core < nd->chip->cores; core++) {
		struct nd_copy_ring *ring = &nd->core[core].ring;

		if (!(cores >> core & 1))
			continue;
		WRITE_ONCE(ring->reset_waits, true); /* read by the copy that holds the lock */
		mutex_lock_nested(&ring->lock, core);
		WRITE_ONCE(ring->reset_waits, false);
	}
}

static void unlock_rings(struct neuron_device *nd, u32 cores)
{
	u32 core;

	for (core = 0; core < nd->chip->cores; core++)
		if (cores >> core & 1)
			mutex_unlock(&nd->core[core].ring.lock);
}

static int carry_out(struct neuron_device *nd, u32 core_map)
{
	u32 cores = usable_cores(nd, core_map);
	int error = 0;
	u32 core;

	if (nd_is_lost(nd))
		return -ENODEV;
	lock_rings(nd, cores);
	if (!nd_param_no_reset)
		error = nd_firmware_reset(nd, core_map);
	if (!error) {
		/* Engines that were not reset still look at the rings. */
		if (!nd_param_no_reset)
			nd_dma_forget_queues(nd, cores);
		nd_dma_start_engines(nd, cores);
		/* A read returns when all writes before it have arrived. */
		nd_firmware_word(nd, NEURON_FW_STATUS);
		if (nd_is_lost(nd))
			error = -ENODEV;
	}
	unlock_rings(nd, cores);
	for (core = 0; error && core < nd->chip->cores; core++)
		if (cores >> core & 1)
			atomic64_inc(&nd->core[core].reset_failures);
	return error;
}

/* Marks the requests of the next reset as running and returns their common map; 0: none waits. */
static u32 take_next(struct neuron_device *nd, bool *internal)
{
	struct nd_reset_request *request;
	u32 map = 0;

	*internal = false;
	spin_lock(&nd->reset.lock);
	list_for_each_entry(request, &nd->reset.requests, link) {
		if (request->state != REQUEST_WAITS)
			continue;
		if (map && (request->pid == 0 || *internal))
			break;
		*internal = request->pid == 0;
		map |= request->core_map;
		request->state = REQUEST_RUNS;
	}
	spin_unlock(&nd->reset.lock);
	return map;
}

/* The lock is held. */
static struct nd_reset_request *find_request(struct neuron_device *nd, pid_t pid)
{
	struct nd_reset_request *request;

	list_for_each_entry(request, &nd->reset.requests, link)
		if (request->pid == pid)
			return request;
	return NULL;
}

static void finish(struct neuron_device *nd, bool internal, int error)
{
	struct nd_reset_request *request;
	struct nd_reset_request *next;

	spin_lock(&nd->reset.lock);
	list_for_each_entry_safe(request, next, &nd->reset.requests, link) {
		if (request->state != REQUEST_RUNS)
			continue;
		request->state = REQUEST_DONE;
		request->result = error;
		if (request->pid == 0) {
			list_del(&request->link);
			kfree(request);
		}
	}
	/* Nobody opens the device between two resets of it. */
	if (internal && !find_request(nd, 0))
		WRITE_ONCE(nd->reset.state, error ? ND_STATE_INVALID : ND_STATE_READY);
	spin_unlock(&nd->reset.lock);
	wake_up_all(&nd->reset.wait);
}

static void reset_work(struct work_struct *work)
{
	struct neuron_device *nd = container_of(work, struct neuron_device, reset.work);
	bool internal;
	u32 map;

	while ((map = take_next(nd, &internal)) != 0)
		finish(nd, internal, carry_out(nd, map));
}

int nd_reset_create(struct neuron_device *nd)
{
	INIT_WORK(&nd->reset.work, reset_work);
	nd->reset.queue = alloc_ordered_workqueue("nd%u reset", 0, nd->index);
	return nd->reset.queue ? 0 : -ENOMEM;
}

void nd_reset_destroy(struct neuron_device *nd)
{
	struct nd_reset_request *request;
	struct nd_reset_request *next;
	struct workqueue_struct *queue;

	spin_lock(&nd->reset.lock);
	queue = nd->reset.queue;
	nd->reset.queue = NULL;
	spin_unlock(&nd->reset.lock);
	if (!queue)
		return;
	/* What runs sees that the device is being removed and ends; what waits fails fast. */
	destroy_workqueue(queue);
	spin_lock(&nd->reset.lock);
	list_for_each_entry_safe(request, next, &nd->reset.requests, link) {
		/* One that is prepared is its caller's, who finds that there is no queue. */
		if (request->state == REQUEST_PREPARED)
			continue;
		list_del(&request->link);
		kfree(request);
	}
	spin_unlock(&nd->reset.lock);
	wake_up_all(&nd->reset.wait);
}

/* What a reset takes away is gone when it has been asked for; the reset itself comes later. */
static void take_away(struct neuron_device *nd, u32 cores)
{
	nd_copy_queues_reset(nd, cores);
	nd_notification_reset(nd, cores);
	nd_core_reset(nd, cores);
}

/* A second request of a process is refused before anything is taken away. */
static int request_reset(struct neuron_device *nd, pid_t pid, u32 core_map)
{
	struct nd_reset_request *request = kzalloc(sizeof(*request), GFP_KERNEL);
	int error = 0;

	if (!request)
		return -ENOMEM;
	request->pid = pid;
	request->core_map = core_map;
	request->state = REQUEST_PREPARED;
	spin_lock(&nd->reset.lock);
	if (!nd->reset.queue || nd_is_lost(nd)) {
		error = -ENODEV;
	} else if (pid && find_request(nd, pid)) {
		error = -EBUSY;
	} else {
		if (!pid)
			WRITE_ONCE(nd->reset.state, ND_STATE_RESET);
		list_add_tail(&request->link, &nd->reset.requests);
	}
	spin_unlock(&nd->reset.lock);
	if (error) {
		kfree(request);
		return error;
	}
	take_away(nd, usable_cores(nd, core_map));
	spin_lock(&nd->reset.lock);
	request->state = REQUEST_WAITS;
	if (nd->reset.queue) {
		queue_work(nd->reset.queue, &nd->reset.work);
	} else {
		list_del(&request->link);
		error = -ENODEV;
	}
	spin_unlock(&nd->reset.lock);
	if (error)
		kfree(request);
	return error;
}

int nd_reset_request_internal(struct neuron_device *nd)
{
	return request_reset(nd, 0, NEURON_NC_MAP_DEVICE);
}

/* Is the request of the process done, or will it never be? */
static bool is_settled(struct neuron_device *nd, pid_t pid)
{
	struct nd_reset_request *request;
	bool settled;

	spin_lock(&nd->reset.lock);
	request = find_request(nd, pid);
	settled = !request || request->state == REQUEST_DONE || READ_ONCE(nd->removed);
	spin_unlock(&nd->reset.lock);
	return settled;
}

/* Takes the request out of the list if it is done; its result in *result. */
static int fetch(struct neuron_device *nd, pid_t pid, s32 *result)
{
	struct nd_reset_request *request;
	int error = 0;

	spin_lock(&nd->reset.lock);
	request = find_request(nd, pid);
	if (!request) {
		error = -ENOENT;
	} else if (request->state != REQUEST_DONE) {
		error = -ENODEV;
	} else {
		*result = request->result ? 1 : 0;
		list_del(&request->link);
		kfree(request);
	}
	spin_unlock(&nd->reset.lock);
	return error;
}

int nd_reset_wait(struct neuron_device *nd, pid_t pid, s32 *result)
{
	/* The worker has deadlines of its own, so this ends. */
	if (wait_event_killable(nd->reset.wait, is_settled(nd, pid)))
		return -EINTR;
	return fetch(nd, pid, result);
}

void nd_reset_process_exit(struct neuron_device *nd, pid_t pid)
{
	s32 result;

	/* The process is going: there is nobody left to be killed. Bounded by the worker. */
	wait_event_idle(nd->reset.wait, is_settled(nd, pid));
	fetch(nd, pid, &result);
}

int nd_reset_wait_ready(struct neuron_device *nd)
{
	if (wait_event_killable(nd->reset.wait,
				READ_ONCE(nd->reset.state) != ND_STATE_RESET || nd_is_lost(nd)))
		return -EINTR;
	if (nd_is_lost(nd))
		return -ENODEV;
	return READ_ONCE(nd->reset.state) == ND_STATE_READY ? 0 : -EINVAL;
}

/* ---- calls ---- */

static int ask(struct neuron_device *nd, u32 core_map)
{
	u32 cores = usable_cores(nd, core_map);
	pid_t pid = nd_current_pid();
	u32 core;
	int error;

	if (core_map != NEURON_NC_MAP_DEVICE && (!cores || cores != core_map)) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: core map 0x%x names no core or one that does not exist (all: 0x%x)\n",
			nd->index, core_map, nd->core_map);
		return -EINVAL;
	}
	error = request_reset(nd, pid, core_map);
	if (error == -EBUSY)
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: pid %d asks for a reset before it has waited for the one before\n",
			nd->index, pid);
	for (core = 0; !error && core < nd->chip->cores; core++)
		if (cores >> core & 1)
			atomic64_inc(&nd->core[core].reset_requests);
	return error;
}

static int core_reset(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		      void __user *user)
{
	struct neuron_ioctl_device_reset *reset = argument;

	reset->request_id = nd_current_pid();
	return ask(file->nd, reset->nc_map);
}

static int core_reset_ready(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			    void __user *user)
{
	struct neuron_ioctl_device_ready *ready = argument;
	int error = nd_reset_wait(file->nd, ready->request_id, &ready->result);

	if (error == -ENOENT)
		ready->result = 1;
	else if (error)
		ready->result = error;
	return error == -ENODEV ? error : 0;
}

static int device_reset(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	return ask(file->nd, NEURON_NC_MAP_DEVICE);
}

static int device_ready(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			void __user *user)
{
	s32 result = 0;
	int error = nd_reset_wait(file->nd, nd_current_pid(), &result);

	*(u8 *)argument = error == -ENOENT || (!error && result == 0);
	return error == -ENOENT ? 0 : error;
}

static int device_reset_status(struct nd_file *file, const struct nd_ioctl *call, void *argument,
			       void __user *user)
{
	*(u8 *)argument = 1;
	return 0;
}

const struct nd_handler nd_reset_handlers[] = {
	{ NEURON_IOCTL_NC_RESET, ND_OUT_SUCCESS, core_reset },
	{ NEURON_IOCTL_NC_RESET_READY, ND_OUT_ALWAYS, core_reset_ready },
	{ NEURON_IOCTL_DEVICE_RESET, ND_OUT_NONE, device_reset },
	{ NEURON_IOCTL_DEVICE_READY, ND_OUT_SUCCESS, device_ready },
	{ NEURON_IOCTL_DEVICE_RESET_STATUS, ND_OUT_SUCCESS, device_reset_status },
	{},
};
