// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an operator asks from outside (uapi/neuron_observe.h): state, links, memory, holders and
 * datastores of any device, through a descriptor of any mode of any device. Attaches nobody, waits
 * for no reset and changes nothing.
 */
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/kmod/neuron.h"
#include "uapi/neuron_observe.h"

/* The holder's entry, made if there is room; else NULL. */
static struct ndl_holder *holder_entry(struct ndl_observation *out, s32 pid,
				       const struct nd_holder *who)
{
	struct ndl_holder *entry;
	u32 i;

	for (i = 0; i < min_t(u32, out->holder_count, NDL_OBSERVED_HOLDERS); i++)
		if (out->holders[i].pid == pid)
			return &out->holders[i];
	if (out->holder_count++ >= NDL_OBSERVED_HOLDERS)
		return NULL;
	entry = &out->holders[out->holder_count - 1];
	entry->pid = pid;
	entry->since = who->since;
	BUILD_BUG_ON(sizeof(entry->command) != sizeof(who->command));
	memcpy(entry->command, who->command, sizeof(entry->command));
	return entry;
}

static void describe_holders(struct neuron_device *nd, struct ndl_observation *out)
{
	struct ndl_holder *entry;
	struct nd_claim claim;
	u32 i, slot;

	mutex_lock(&nd->processes_lock);
	for (i = 0; i < ND_PROCESSES; i++) {
		const struct nd_process *process = &nd->processes.slot[i];

		entry = process->pid ? holder_entry(out, process->pid, &process->who) : NULL;
		if (entry)
			entry->flags |= NDL_HOLDER_ATTACHED;
	}
	mutex_unlock(&nd->processes_lock);
	for (i = 0; i < nd->cores; i++) {
		u32 core = nd_chip_physical_core(nd->chip, nd->index, i);

		nd_core_claim(nd, i, &claim);
		entry = claim.owner ? holder_entry(out, claim.owner, &claim.who) : NULL;
		if (entry)
			entry->cores |= 1ull << core;
	}
	for (i = 0; i < min_t(u32, out->holder_count, NDL_OBSERVED_HOLDERS); i++) {
		u64 host = 0;
		u64 device = 0;

		entry = &out->holders[i];
		nd_memory_usage(nd, entry->pid, &host, &device);
		entry->host_bytes = host;
		entry->device_bytes = device;
		mutex_lock(&nd->datastore_lock);
		if (!nd_datastore_acquire(&nd->datastores, entry->pid, false, &slot))
			entry->flags |= NDL_HOLDER_RECORD;
		mutex_unlock(&nd->datastore_lock);
	}
}

static void describe_chip(struct neuron_device *nd, struct ndl_observation *out)
{
	u32 neighbours[8];
	u32 i;

	BUILD_BUG_ON(NDL_OBSERVED_CORES < ND_MAX_CORES || NDL_OBSERVED_LINKS < 8);
	out->architecture = nd->chip->generation;
	out->revision = nd->revision;
	out->state = nd_is_lost(nd) ? NDL_DEVICE_OFF : (u32)READ_ONCE(nd->reset.state);
	out->cores = nd->cores;
	out->pci_domain = pci_domain_nr(nd->pdev->bus);
	out->pci_bus = nd->pdev->bus->number;
	out->pci_slot = PCI_SLOT(nd->pdev->devfn);
	out->pci_function = PCI_FUNC(nd->pdev->devfn);
	out->numa_node = dev_to_node(nd->dev);
	out->connected_count = nd_topology_neighbours(nd, neighbours);
	for (i = 0; i < out->connected_count; i++)
		out->connected[i] = neighbours[i];
	out->memory_bytes = nd->chip->hbms * nd->chip->hbm_bytes;
	mutex_lock(&nd->memory.lock);
	out->memory_used = nd->memory.accounting.device.total;
	mutex_unlock(&nd->memory.lock);
	for (i = 0; i < nd->cores; i++) {
		u32 core = nd_chip_physical_core(nd->chip, nd->index, i);

		if (core < NDL_OBSERVED_CORES)
			out->logical[core] = i;
		out->resets[i] = atomic64_read(&nd->core[i].reset_requests);
		out->failed_resets[i] = atomic64_read(&nd->core[i].reset_failures);
	}
}

static int observe_device(struct neuron_device *nd, struct neuron_ioctl_observe *question)
{
	struct ndl_observation *out = kzalloc(sizeof(*out), GFP_KERNEL);
	int result = 0;

	if (!out)
		return -ENOMEM;
	out->size = sizeof(*out);
	describe_chip(nd, out);
	describe_holders(nd, out);
	question->size = min_t(u64, question->size, sizeof(*out));
	if (copy_to_user((void __user *)question->answer, out, question->size))
		result = -EFAULT;
	kfree(out);
	return result;
}

/* Through a copy: user memory is not touched under the lock. */
static int observe_datastore(struct neuron_device *nd, struct neuron_ioctl_observe *question)
{
	void *block = kvmalloc(ND_DATASTORE_BYTES, GFP_KERNEL);
	int result;
	u32 slot;

	if (!block)
		return -ENOMEM;
	mutex_lock(&nd->datastore_lock);
	result = nd_datastore_acquire(&nd->datastores, question->pid, false, &slot);
	if (!result && !nd->datastore_memory[slot])
		result = -ENOENT;
	if (!result)
		memcpy(block, nd->datastore_memory[slot]->va, ND_DATASTORE_BYTES);
	mutex_unlock(&nd->datastore_lock);
	question->size = min_t(u64, question->size, ND_DATASTORE_BYTES);
	if (!result && copy_to_user((void __user *)question->answer, block, question->size))
		result = -EFAULT;
	kvfree(block);
	return result;
}

static int observe(struct nd_file *file, const struct nd_ioctl *call, void *argument,
		   void __user *user)
{
	struct neuron_ioctl_observe *question = argument;
	struct neuron_device *nd = nd_device_by_index(question->device);
	int result, token;

	if (!nd)
		return -ENODEV;
	result = nd_enter(nd, &token);
	if (!result) {
		switch (question->kind) {
		case NEURON_EMULATOR_ASK_DEVICE:
			result = observe_device(nd, question);
			break;
		case NEURON_EMULATOR_ASK_DATASTORE:
			result = question->pid ? observe_datastore(nd, question) : -EINVAL;
			break;
		default:
			result = -EOPNOTSUPP;
		}
		nd_exit(nd, token);
	}
	nd_device_put(nd);
	return result;
}

/*
 * Not among the calls that every host of this driver serves: emulated devices are asked without a
 * descriptor.
 */
const struct nd_ioctl nd_observe_call = { NEURON_IOCTL_OBSERVE, sizeof(struct neuron_ioctl_observe),
					  ND_ACCESS_ANY, "OBSERVE" };

const struct nd_handler nd_observe_handlers[] = {
	{ NEURON_IOCTL_OBSERVE, ND_OUT_SUCCESS, observe },
	{ 0, ND_OUT_NONE, NULL },
};
