// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a part of the module that is left out of a build does: nothing.
 */
#include "driver/kmod/neuron.h"

int __weak nd_mapping_module_init(void)
{
	return 0;
}
void __weak nd_mapping_module_exit(void)
{
}
int __weak nd_uring_module_init(void)
{
	return 0;
}
void __weak nd_uring_module_exit(void)
{
}
int __weak nd_fault_module_init(void)
{
	return 0;
}
void __weak nd_fault_module_exit(void)
{
}
int __weak nd_sysfs_module_init(void)
{
	return 0;
}
void __weak nd_sysfs_module_exit(void)
{
}
int __weak nd_pci_register(void)
{
	return 0;
}
void __weak nd_pci_unregister(void)
{
}
