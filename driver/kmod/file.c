// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/neuronN: open and close; ioctl_dispatch.c has its calls.
 *
 * A full descriptor (O_RDWR, O_RDONLY) attaches the process that opens it; when the process closes
 * its last one, what it holds is given back in a fixed order. A close counts when no other number
 * of the process stands for the same open file, so that dup() does no harm; a child's copies belong
 * to the parent. A restricted descriptor (O_WRONLY) attaches nobody and may make the calls that
 * need no device.
 *
 * files_lock is held for moments only. What a process gives back may take as long as a reset: it
 * does so without the lock, and only the same process waits for it when it opens the device anew.
 */
#include <linux/fdtable.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

pid_t nd_current_pid(void)
{
	return task_tgid_nr(current);
}

bool nd_file_is_attached(struct neuron_device *nd, pid_t pid)
{
	bool attached;

	mutex_lock(&nd->processes_lock);
	attached = nd_process_find(&nd->processes, pid);
	mutex_unlock(&nd->processes_lock);
	return attached;
}

int nd_file_reset_if_idle(struct neuron_device *nd)
{
	int error = 0;

	/* Under the lock the device turns to "being reset" before anybody opens it: see attach().
	 */
	mutex_lock(&nd->files_lock);
	if (nd->full_files == 0)
		error = nd_reset_request_internal(nd);
	mutex_unlock(&nd->files_lock);
	return error;
}

/* ---- processes that give back what they hold ---- */

struct leaving {
	struct list_head link; /* nd->leaving */
	pid_t pid;
};

static bool is_leaving(struct neuron_device *nd, pid_t pid)
{
	struct leaving *each;
	bool found = false;

	spin_lock(&nd->leaving_lock);
	list_for_each_entry(each, &nd->leaving, link)
		found |= each->pid == pid;
	spin_unlock(&nd->leaving_lock);
	return found;
}

/* files_lock is held, and no descriptor of the process is open. */
static void begin_leaving(struct neuron_device *nd, struct leaving *leaving)
{
	spin_lock(&nd->leaving_lock);
	list_add(&leaving->link, &nd->leaving);
	spin_unlock(&nd->leaving_lock);
}

/* Gives back what the process holds, after begin_leaving(). */
static void process_exit(struct neuron_device *nd, struct leaving *leaving)
{
	pid_t pid = leaving->pid;
	int token;
	bool here = !nd_enter(nd, &token);

	if (here)
		nd_reset_process_exit(nd, pid);
	/* Without the device only the tables are left, and those cope. */
	mutex_lock(&nd->exits_lock);
	if (here) {
		nd_copy_queues_process_exit(nd, pid);
		nd_dma_process_exit(nd, pid);
	}
	nd_core_process_exit(nd, pid);
	if (here) {
		nd_datastore_process_exit(nd, pid);
		nd_memory_process_exit(nd, pid);
		nd_exit(nd, token);
	}
	mutex_unlock(&nd->exits_lock);
	spin_lock(&nd->leaving_lock);
	list_del(&leaving->link);
	spin_unlock(&nd->leaving_lock);
	wake_up_all(&nd->leaving_wait);
}

/* ---- open and close ---- */

/* -EAGAIN: the device is being reset, or the process still gives back what it held before. */
static int attach(struct nd_file *file)
{
	struct neuron_device *nd = file->nd;
	struct nd_process *process;
	int error = 0;

	if (mutex_lock_killable(&nd->files_lock))
		return -EINTR;
	if (!file->restricted) {
		if (READ_ONCE(nd->reset.state) == ND_STATE_RESET || is_leaving(nd, file->pid)) {
			mutex_unlock(&nd->files_lock);
			return -EAGAIN;
		}
		mutex_lock(&nd->processes_lock);
		error = nd_process_attach(&nd->processes, file->pid);
		process = error ? NULL : nd_process_find(&nd->processes, file->pid);
		if (process && process->references == 1)
			nd_holder_set(&process->who, current->group_leader->comm,
				      ktime_get_real_seconds());
		mutex_unlock(&nd->processes_lock);
	}
	if (!error) {
		file->attached = true;
		if (!file->restricted)
			nd->full_files++;
		list_add(&file->link, &nd->files);
	}
	mutex_unlock(&nd->files_lock);
	if (error)
		dev_warn_ratelimited(nd->dev,
				     "neuron%u: pid %d cannot open it: %u processes have it open\n",
				     nd->index, file->pid, ND_PROCESSES);
	return error;
}

/* Waits until the device can be opened: for resets of the whole device, and for itself. */
static int attach_when_ready(struct nd_file *file)
{
	struct neuron_device *nd = file->nd;
	int error;

	if (file->restricted)
		return attach(file);
	do { /* ends when the device is ready, lost or removed, or when the process is killed */
		error = nd_reset_wait_ready(nd);
		if (!error && wait_event_killable(nd->leaving_wait, !is_leaving(nd, file->pid)))
			error = -EINTR;
		if (!error)
			error = attach(file);
	} while (error == -EAGAIN);
	return error;
}

static void detach(struct nd_file *file)
{
	struct neuron_device *nd = file->nd;
	struct leaving leaving = { .pid = file->pid };
	bool attached;
	bool last = false;

	nd_uring_file_exit(file);
	mutex_lock(&nd->files_lock);
	attached = file->attached;
	file->attached = false;
	if (attached && !file->restricted) {
		mutex_lock(&nd->processes_lock);
		last = nd_process_detach(&nd->processes, file->pid);
		mutex_unlock(&nd->processes_lock);
	}
	if (last)
		begin_leaving(nd, &leaving);
	mutex_unlock(&nd->files_lock);
	if (last)
		process_exit(nd, &leaving);
	if (attached)
		nd_core_file_exit(file);
}

/*
 * After a call of a process that had the device open when it began. Another thread may have closed
 * the last descriptor meanwhile, whose clean-up did not see what the call left.
 */
void nd_file_clean_up_after_call(struct neuron_device *nd, pid_t pid)
{
	struct leaving leaving = { .pid = pid };
	bool gone;

	if (nd_file_is_attached(nd, pid))
		return;
	mutex_lock(&nd->files_lock);
	gone = !nd_file_is_attached(nd, pid);
	if (gone)
		begin_leaving(nd, &leaving);
	mutex_unlock(&nd->files_lock);
	if (gone)
		process_exit(nd, &leaving);
}

static int file_open(struct inode *inode, struct file *filp)
{
	struct neuron_device *nd = nd_device_by_index(iminor(inode) - MINOR(nd_region));
	struct nd_file *file;
	int token;
	int error;

	if (!nd)
		return -ENODEV;
	error = nd_enter(nd, &token);
	if (error)
		goto put;
	file = kzalloc(sizeof(*file), GFP_KERNEL);
	if (!file) {
		error = -ENOMEM;
		goto leave;
	}
	file->nd = nd;
	file->file = filp;
	file->pid = nd_current_pid();
	file->restricted = filp->f_flags & O_WRONLY;
	error = attach_when_ready(file);
	if (error) {
		kfree(file);
		goto leave;
	}
	filp->private_data = file;
	filp->f_mapping = nd->inode->i_mapping;
	nd_oplog_add(nd, ND_OP_OPEN, filp->f_flags, 0);
	nd_exit(nd, token);
	return 0;

leave:
	nd_exit(nd, token);
put:
	nd_device_put(nd);
	return error;
}

static int is_same_file(const void *wanted, struct file *filp, unsigned int number)
{
	return wanted == filp;
}

static int file_flush(struct file *filp, fl_owner_t files)
{
	struct nd_file *file = filp->private_data;

	/* A child closes what its parent opened: nothing of the parent's may go. */
	if (nd_current_pid() != file->pid)
		return 0;
	/* The number is out of the table already; is there another for this file? */
	if (files && iterate_fd(files, 0, is_same_file, filp))
		return 0;
	nd_oplog_add(file->nd, ND_OP_FLUSH, 0, 0);
	detach(file);
	return 0;
}

static int file_release(struct inode *inode, struct file *filp)
{
	struct nd_file *file = filp->private_data;
	struct neuron_device *nd = file->nd;
	bool last = false;
	int token;

	/* The process may have ended without closing it, because another one held it too. */
	detach(file);
	mutex_lock(&nd->files_lock);
	list_del(&file->link);
	if (!file->restricted)
		last = --nd->full_files == 0;
	if (last && !nd_enter(nd, &token)) {
		nd_datastore_clear_all(nd);
		nd_exit(nd, token);
	}
	mutex_unlock(&nd->files_lock);
	nd_uring_file_free(file);
	kfree(file);
	nd_device_put(nd);
	return 0;
}

static int file_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct nd_file *file = filp->private_data;
	struct neuron_device *nd = file->nd;
	int token;
	int result = nd_enter(nd, &token);

	if (result)
		return result;
	/* As for calls that reach memory: see nd_ioctl_access. */
	result = file->restricted || !nd_file_is_attached(nd, nd_current_pid())
			 ? -EACCES
			 : nd_mapping_mmap(filp, vma);
	nd_oplog_add(nd, ND_OP_MMAP, vma->vm_pgoff, result);
	nd_exit(nd, token);
	return result;
}

const struct file_operations nd_file_operations = {
	.owner = THIS_MODULE,
	.open = file_open,
	.flush = file_flush,
	.release = file_release,
	.unlocked_ioctl = nd_file_ioctl,
	.mmap = file_mmap,
	.uring_cmd = nd_uring_cmd,
};
