// SPDX-License-Identifier: GPL-2.0-only
/*
 * What every call of /dev/neuronN passes before its handler sees it: its number, the size of its
 * argument, who may make it. The argument is copied here, in and out.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"

/* Arguments up to this size need no allocation. */
#define SMALL_ARGUMENT 256u

static const struct nd_handler *const handler_tables[] = {
	nd_memory_handlers, nd_copy_handlers,	      nd_dma_handlers,	     nd_reset_handlers,
	nd_core_handlers,   nd_notification_handlers, nd_datastore_handlers, nd_device_handlers,
	nd_dmabuf_handlers, nd_copy_queue_handlers,   nd_observe_handlers,
};

static const struct nd_handler *find_handler(u32 request)
{
	const struct nd_handler *handler;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(handler_tables); i++)
		for (handler = handler_tables[i]; handler->handle; handler++)
			if (handler->request == request)
				return handler;
	return NULL;
}

static int check_access(struct nd_file *file, const struct nd_ioctl *call)
{
	struct neuron_device *nd = file->nd;

	if (call->access == ND_ACCESS_ANY)
		return 0;
	if (file->restricted) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: %s needs a descriptor opened O_RDWR, that of pid %d was opened O_WRONLY\n",
			nd->index, call->name, nd_current_pid());
		return -EINVAL;
	}
	if (call->access == ND_ACCESS_ATTACHED && !nd_file_is_attached(nd, nd_current_pid())) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: %s is for processes that opened the device, pid %d did not\n",
			nd->index, call->name, nd_current_pid());
		return -EACCES;
	}
	return 0;
}

/* The argument is copied whole before anything looks at it, and back when there is an answer. */
static int call_handler(struct nd_file *file, const struct nd_ioctl *call,
			const struct nd_handler *handler, void __user *user)
{
	u64 small[SMALL_ARGUMENT / sizeof(u64)];
	u32 size = call->argument_size;
	void *argument = small;
	int result;

	if (size > SMALL_ARGUMENT) {
		argument = kvmalloc(size, GFP_KERNEL);
		if (!argument)
			return -ENOMEM;
	}
	if (size && copy_from_user(argument, user, size)) {
		result = -EFAULT;
		goto done;
	}
	result = handler->handle(file, call, argument, user);
	if (size &&
	    (handler->output == ND_OUT_ALWAYS ||
	     (handler->output == ND_OUT_SUCCESS && result == 0)) &&
	    copy_to_user(user, argument, size))
		result = -EFAULT;
done:
	if (argument != small)
		kvfree(argument);
	return result;
}

long nd_file_ioctl(struct file *filp, unsigned int request, unsigned long argument)
{
	struct nd_file *file = filp->private_data;
	struct neuron_device *nd = file->nd;
	const struct nd_handler *handler;
	const struct nd_ioctl *call;
	int token;
	int result;

	if (request == nd_observe_call.request) {
		call = &nd_observe_call;
	} else if (nd_ioctl_find(request, &call)) {
		if (call)
			dev_warn_ratelimited(
				nd->dev,
				"neuron%u: call 0x%x has an argument of %u bytes; %s is 0x%x\n",
				nd->index, request, _IOC_SIZE(request), call->name, call->request);
		return -EINVAL;
	}
	result = check_access(file, call);
	if (result)
		return result;
	handler = find_handler(call->request);
	if (!handler)
		return -EOPNOTSUPP;
	result = nd_enter(nd, &token);
	if (result)
		return result;
	result = call_handler(file, call, handler, (void __user *)argument);
	nd_oplog_add(nd, ND_OP_IOCTL, request, result);
	nd_exit(nd, token);
	if (call->access == ND_ACCESS_ATTACHED)
		nd_file_clean_up_after_call(nd, nd_current_pid());
	return result;
}
