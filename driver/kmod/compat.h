/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel interfaces that changed between 6.1 and 6.12, under one name each.
 */
#ifndef DRIVER_KMOD_COMPAT_H
#define DRIVER_KMOD_COMPAT_H

#include <linux/device.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/version.h>

/* Pages of the largest piece that the kernel gives, as a power of two. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define ND_LARGEST_ORDER MAX_PAGE_ORDER
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define ND_LARGEST_ORDER MAX_ORDER
#else
#define ND_LARGEST_ORDER (MAX_ORDER - 1)
#endif

static inline struct class *nd_class_create(const char *name)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return class_create(name);
#else
	return class_create(THIS_MODULE, name);
#endif
}

static inline void nd_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void nd_vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

#endif
