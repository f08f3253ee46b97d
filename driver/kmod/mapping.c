// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap: memory of a device by its address, registers and HBM by the cookies of RESOURCE_MMAP_INFO.
 *
 * Pages are put in when they are touched, under nd_enter(), so that a device that goes away can
 * take them out of all processes at once: all files of a device share the address space of one
 * inode. A mapping counts its chunk; memory that is freed meanwhile stays until it is unmapped.
 */
#include <linux/fs_context.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

#define FILESYSTEM_MAGIC 0x4E44494E
/* Pages put in around the one that was touched: 2 MiB. */
#define FAULT_PAGES 512ul

/* ---- the inode whose address space the mappings of a device are in ---- */

static struct vfsmount *nd_mount;
static int nd_mount_count;

static int init_filesystem(struct fs_context *context)
{
	return init_pseudo(context, FILESYSTEM_MAGIC) ? 0 : -ENOMEM;
}

/* No owner: a mount held by the module must not keep the module. */
static struct file_system_type nd_filesystem = {
	.name = "neuron",
	.init_fs_context = init_filesystem,
	.kill_sb = kill_anon_super,
};

int nd_mapping_module_init(void)
{
	return simple_pin_fs(&nd_filesystem, &nd_mount, &nd_mount_count);
}

void nd_mapping_module_exit(void)
{
	simple_release_fs(&nd_mount, &nd_mount_count);
}

int nd_mapping_create(struct neuron_device *nd)
{
	struct inode *inode = alloc_anon_inode(nd_mount->mnt_sb);

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	nd->inode = inode;
	return 0;
}

void nd_mapping_revoke(struct neuron_device *nd)
{
	if (nd->inode)
		unmap_mapping_range(nd->inode->i_mapping, 0, 0, 1);
}

void nd_mapping_destroy(struct neuron_device *nd)
{
	if (nd->inode)
		iput(nd->inode);
	nd->inode = NULL;
}

/* ---- mappings ---- */

static void release_mapping(struct kref *refs)
{
	struct nd_mapping *mapping = container_of(refs, struct nd_mapping, refs);

	spin_lock(&mapping->nd->mappings_lock);
	list_del(&mapping->link);
	spin_unlock(&mapping->nd->mappings_lock);
	nd_chunk_put(mapping->chunk);
	nd_device_put(mapping->nd);
	kfree(mapping);
}

void nd_mapping_put(struct nd_mapping *mapping)
{
	kref_put(&mapping->refs, release_mapping);
}

struct nd_mapping *nd_mapping_find(struct neuron_device *nd, pid_t pid, u64 va, u64 size)
{
	struct nd_mapping *mapping;
	struct nd_mapping *found = NULL;

	spin_lock(&nd->mappings_lock);
	list_for_each_entry(mapping, &nd->mappings, link) {
		u64 offset = va - mapping->start;

		if (mapping->pid != pid || va < mapping->start || offset >= mapping->size ||
		    size > mapping->size - offset)
			continue;
		if (!kref_get_unless_zero(&mapping->refs))
			continue;
		found = mapping;
		break;
	}
	spin_unlock(&nd->mappings_lock);
	return found;
}

static void mapping_open(struct vm_area_struct *vma)
{
	struct nd_mapping *mapping = vma->vm_private_data;

	kref_get(&mapping->refs);
}

static void mapping_close(struct vm_area_struct *vma)
{
	nd_mapping_put(vma->vm_private_data);
}

/* The record says where the mapping is; it stays there. */
static int mapping_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static int page_of(struct nd_mapping *mapping, u64 byte, unsigned long *pfn)
{
	if (byte >= mapping->size)
		return -EINVAL;
	if (mapping->chunk && !mapping->chunk->scratchpad)
		return nd_chunk_pfn(mapping->chunk, mapping->offset + byte, pfn);
	*pfn = PHYS_PFN(mapping->address + byte);
	return 0;
}

static vm_fault_t mapping_fault(struct vm_fault *fault)
{
	struct vm_area_struct *vma = fault->vma;
	struct nd_mapping *mapping = vma->vm_private_data;
	unsigned long touched = fault->address & PAGE_MASK;
	unsigned long begin = max(ALIGN_DOWN(touched, FAULT_PAGES * PAGE_SIZE), vma->vm_start);
	unsigned long end = min(begin + FAULT_PAGES * PAGE_SIZE, vma->vm_end);
	vm_fault_t result = VM_FAULT_SIGBUS;
	unsigned long address;
	unsigned long pfn;
	int token;

	if (nd_enter(mapping->nd, &token))
		return VM_FAULT_SIGBUS;
	/* The page that is needed, then its neighbours, whose failure does not matter. */
	for (address = touched; address < end; address += PAGE_SIZE) {
		u64 page = vma->vm_pgoff + ((address - vma->vm_start) >> PAGE_SHIFT);
		vm_fault_t inserted;

		if (page_of(mapping, (page - mapping->first) << PAGE_SHIFT, &pfn))
			break;
		inserted = vmf_insert_pfn(vma, address, pfn);
		if (address == touched)
			result = inserted;
		if (inserted != VM_FAULT_NOPAGE)
			break;
	}
	for (address = begin; address < touched && result == VM_FAULT_NOPAGE;
	     address += PAGE_SIZE) {
		u64 page = vma->vm_pgoff + ((address - vma->vm_start) >> PAGE_SHIFT);

		if (page_of(mapping, (page - mapping->first) << PAGE_SHIFT, &pfn) ||
		    vmf_insert_pfn(vma, address, pfn) != VM_FAULT_NOPAGE)
			break;
	}
	nd_exit(mapping->nd, token);
	return result;
}

static const struct vm_operations_struct mapping_operations = {
	.open = mapping_open,
	.close = mapping_close,
	.mremap = mapping_mremap,
	.fault = mapping_fault,
};

/* ---- named parts ---- */

struct resource_place {
	u64 offset; /* the cookie */
	u64 size;
	u64 bar_offset; /* in the BAR */
	u8 bar;		/* 0 registers, 4 HBM */
	bool read_only;
};

static int find_resource(struct neuron_device *nd, u32 block, u32 id, u32 resource,
			 struct resource_place *place)
{
	const struct nd_chip *chip = nd->chip;

	memset(place, 0, sizeof(*place));
	switch (block) {
	case NEURON_DM_BLOCK_TPB:
		if (id >= chip->cores)
			return -EINVAL;
		place->offset = nd_chip_core_cookie(chip, id);
		place->bar_offset = nd_chip_core_window(chip, id);
		place->size = NEURON_CORE_SBUF_SIZE;
		if (resource == NEURON_DM_RESOURCE_SBUF)
			return 0;
		place->offset += NEURON_CORE_SEMAPHORES;
		place->bar_offset += NEURON_CORE_SEMAPHORES;
		place->size = NEURON_SEM_BLOCK_SIZE;
		return resource == NEURON_DM_RESOURCE_SEMAPHORE ? 0 : -EINVAL;
	case NEURON_DM_BLOCK_TOPSP:
		if (id >= chip->topsps)
			return -EINVAL;
		place->offset = nd_chip_topsp_cookie(chip, id);
		place->bar_offset = nd_chip_topsp_window(chip, id);
		place->size = NEURON_V2_TOPSP_WINDOW_SIZE;
		place->read_only = true;
		if (resource == NEURON_DM_RESOURCE_ALL)
			return 0;
		place->size = NEURON_SEM_BLOCK_SIZE;
		place->read_only = false;
		return resource == NEURON_DM_RESOURCE_SEMAPHORE ? 0 : -EINVAL;
	case NEURON_DM_BLOCK_HBM:
		if (!chip->maps_hbm || id >= chip->hbms || resource != NEURON_DM_RESOURCE_DMEM ||
		    !nd->bar4_start)
			return -EINVAL;
		place->offset = nd_chip_hbm_base(chip, id);
		place->bar_offset = id * nd->hbm_window;
		place->size = min(chip->hbm_bytes, nd->hbm_window);
		place->bar = 4;
		return 0;
	default:
		return -EINVAL;
	}
}

int nd_mapping_resource(struct neuron_device *nd, u32 block, u32 id, u32 resource, u64 *offset,
			u64 *size)
{
	struct resource_place place;
	int error = find_resource(nd, block, id, resource, &place);

	if (error)
		return error;
	*offset = place.offset;
	*size = place.size;
	return 0;
}

/* The part whose cookie and size these are. */
static int find_cookie(struct neuron_device *nd, u64 offset, u64 size, struct resource_place *place)
{
	static const u32 blocks[] = { NEURON_DM_BLOCK_TPB, NEURON_DM_BLOCK_TOPSP,
				      NEURON_DM_BLOCK_HBM };
	u32 block;
	u32 id;
	u32 resource;

	for (block = 0; block < ARRAY_SIZE(blocks); block++)
		for (id = 0; id < ND_MAX_TOPSPS; id++)
			for (resource = 0; resource <= NEURON_DM_RESOURCE_DMEM; resource++)
				if (!find_resource(nd, blocks[block], id, resource, place) &&
				    place->offset == offset && place->size == size)
					return 0;
	/* Any part of an HBM, for a process that may do raw I/O. */
	memset(place, 0, sizeof(*place));
	id = nd_chip_hbm_of(nd->chip, offset);
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (!nd->bar4_start || id >= nd->chip->hbms ||
	    size > min(nd->chip->hbm_bytes, nd->hbm_window) ||
	    offset - nd_chip_hbm_base(nd->chip, id) >
		    min(nd->chip->hbm_bytes, nd->hbm_window) - size)
		return -EINVAL;
	place->offset = offset;
	place->size = size;
	place->bar = 4;
	place->bar_offset = nd_chip_bar4_offset(nd->chip, offset, nd->hbm_window);
	return 0;
}

/* ---- mmap ---- */

static void set_caching(struct neuron_device *nd, struct vm_area_struct *vma, u8 bar)
{
	nd_vm_flags_set(vma, VM_IO);
	if (bar == 4 && nd->write_combined)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	else
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

static int map_chunk(struct neuron_device *nd, struct vm_area_struct *vma,
		     struct nd_mapping *mapping, u64 offset)
{
	struct nd_chunk *chunk = mapping->chunk;
	unsigned long pfn;
	int error;

	if (chunk->lifespan == ND_LIFE_PROCESS && chunk->pid != mapping->pid) {
		if (vma->vm_flags & VM_WRITE) {
			dev_warn_ratelimited(
				nd->dev,
				"neuron%u: pid %d may map memory of pid %d for reading only\n",
				nd->index, mapping->pid, chunk->pid);
			return -EPERM;
		}
		nd_vm_flags_clear(vma, VM_MAYWRITE);
	}
	if (chunk->scratchpad) {
		mapping->offset = offset - chunk->address;
		error = nd_chunk_check_range(chunk, mapping->offset, mapping->size);
		if (error)
			return error;
	} else if (mapping->size != chunk->size) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: memory at 0x%llx is mapped whole, %llu bytes, found %llu\n",
			nd->index, offset, chunk->size, mapping->size);
		return -EINVAL;
	}
	error = nd_chunk_pfn(chunk, mapping->offset + mapping->size - PAGE_SIZE, &pfn);
	if (!error)
		error = nd_chunk_pfn(chunk, mapping->offset, &pfn);
	if (error) {
		dev_warn_ratelimited(nd->dev,
				     "neuron%u: memory at 0x%llx lies outside BAR 4 (%llu bytes)\n",
				     nd->index, offset, nd->bar4_size);
		return -EINVAL;
	}
	mapping->address = PFN_PHYS(pfn);
	if (!chunk->host)
		set_caching(nd, vma, 4);
	return 0;
}

static int map_resource(struct neuron_device *nd, struct vm_area_struct *vma,
			struct nd_mapping *mapping, u64 offset)
{
	struct resource_place place;
	int error = find_cookie(nd, offset, mapping->size, &place);

	if (error) {
		dev_warn_ratelimited(
			nd->dev,
			"neuron%u: no memory and no part of the chip of %llu bytes at mapping offset 0x%llx\n",
			nd->index, mapping->size, offset);
		return error;
	}
	if (place.read_only) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		nd_vm_flags_clear(vma, VM_MAYWRITE);
	}
	mapping->address = (place.bar == 4 ? nd->bar4_start : nd->bar0_start) + place.bar_offset;
	set_caching(nd, vma, place.bar);
	return 0;
}

int nd_mapping_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct nd_file *file = filp->private_data;
	struct neuron_device *nd = file->nd;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct nd_mapping *mapping;
	int error;

	if (nd_fault_mmap())
		return -ENOMEM;
	if (!(vma->vm_flags & VM_SHARED)) {
		/* A private copy of device memory makes no sense; a private view does. */
		if (vma->vm_flags & VM_WRITE)
			return -EINVAL;
		nd_vm_flags_clear(vma, VM_MAYWRITE);
	}
	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
	if (!mapping)
		return -ENOMEM;
	kref_init(&mapping->refs);
	mapping->nd = nd;
	mapping->pid = nd_current_pid();
	mapping->start = vma->vm_start;
	mapping->size = vma->vm_end - vma->vm_start;
	mapping->first = vma->vm_pgoff;
	mapping->chunk = nd_chunk_pin_address(nd, offset, 1);
	if (mapping->chunk)
		error = map_chunk(nd, vma, mapping, offset);
	else
		error = map_resource(nd, vma, mapping, offset);
	if (error) {
		nd_chunk_put(mapping->chunk);
		kfree(mapping);
		return error;
	}
	nd_device_get(nd);
	spin_lock(&nd->mappings_lock);
	list_add(&mapping->link, &nd->mappings);
	spin_unlock(&nd->mappings_lock);
	nd_vm_flags_set(vma, VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = mapping;
	vma->vm_ops = &mapping_operations;
	return 0;
}
