// SPDX-License-Identifier: GPL-2.0-only
/*
 * The firmware: its RAM, the mailbox, the reset registers. One request at a time (firmware.lock);
 * all waits sleep, have deadlines, and end when the device no longer answers.
 */
#include <linux/crc32.h>
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "driver/kmod/neuron.h"

#define NOT_READY 0xDEADBEEFu
#define RESET_IN_PROGRESS BIT(3)
#define RESET_DEVICE 1u
#define RESET_CORES 2u

#define COMMAND_READ_REGISTERS 1
#define COMMAND_POST_METRIC 2
#define REQUEST_HEADER 8u
#define RESPONSE_HEADER 4u
#define MAX_REGISTERS 100u
#define METRIC_BUFFER 0x100u
#define METRIC_BYTES 128u

#define READY_SECONDS 320
#define ANSWER_SECONDS 15
#define ANSWER_RETRY_MS 1000
/* A model that runs in an interpreter, or a gate-level emulator, may take this much longer. */
#define SLOW_FACTOR 10

struct nd_request_header {
	u8 sequence;
	u8 command;
	__le16 size; /* with this header */
	__le32 crc;
} __packed;

struct nd_response_header {
	u8 sequence; /* written last */
	u8 error;
	__le16 size; /* with this header */
} __packed;

static_assert(sizeof(struct nd_request_header) == REQUEST_HEADER);
static_assert(sizeof(struct nd_response_header) == RESPONSE_HEADER);

u32 nd_firmware_word(struct neuron_device *nd, u32 offset)
{
	return nd_read(nd, nd->chip->misc_ram + offset);
}

static void firmware_write(struct neuron_device *nd, u32 offset, u32 value)
{
	nd_write(nd, nd->chip->misc_ram + offset, value);
}

/* Sleeps a little longer each time: 1 ms at first, 100 ms at most. */
static void pause(unsigned int *ms)
{
	usleep_range(*ms * 1000, *ms * 1250);
	*ms = min(*ms * 2, 100u);
}

int nd_firmware_routing_id(struct neuron_device *nd, u32 *id)
{
	unsigned long deadline = jiffies + READY_SECONDS * HZ;
	unsigned int ms = 1;

	while ((*id = nd_firmware_word(nd, NEURON_FW_ROUTING_ID)) == NOT_READY) {
		if (time_after(jiffies, deadline)) {
			dev_err(nd->dev, "the firmware gave no routing id in %u s\n",
				READY_SECONDS);
			return -ETIMEDOUT;
		}
		pause(&ms);
	}
	return *id == ND_ALL_ONES ? -ENODEV : 0;
}

int nd_firmware_create(struct neuron_device *nd)
{
	struct nd_firmware *firmware = &nd->firmware;
	int error = nd_memory_allocate_hidden(nd, PAGE_SIZE, 0, NEURON_MEMALLOC_TYPE_NCDEV_HOST,
					      &firmware->request);

	if (!error)
		error = nd_memory_allocate_hidden(nd, PAGE_SIZE, 0, NEURON_MEMALLOC_TYPE_NCDEV_HOST,
						  &firmware->response);
	return error;
}

void nd_firmware_destroy(struct neuron_device *nd)
{
	mutex_lock(&nd->firmware.lock);
	nd_chunk_free(nd->firmware.request);
	nd_chunk_free(nd->firmware.response);
	nd->firmware.request = NULL;
	nd->firmware.response = NULL;
	mutex_unlock(&nd->firmware.lock);
}

/* ---- reset ---- */

/* Until the register reads 0 (under `mask`); `again` re-sends the request now and then. */
static int await_zero(struct neuron_device *nd, u64 offset, u32 mask, unsigned int seconds,
		      unsigned int again_seconds, void (*again)(struct neuron_device *, u32 map),
		      u32 map)
{
	unsigned long deadline = jiffies + seconds * HZ;
	unsigned long next = jiffies + again_seconds * HZ;
	unsigned int ms = 1;

	while (nd_read(nd, offset) & mask) {
		if (nd_is_lost(nd))
			return -ENODEV;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		if (again && time_after(jiffies, next)) {
			again(nd, map);
			next = jiffies + again_seconds * HZ;
		}
		pause(&ms);
	}
	return nd_is_lost(nd) ? -ENODEV : 0;
}

static void send_reset(struct neuron_device *nd, u32 map)
{
	bool whole = map == NEURON_NC_MAP_DEVICE;

	if (!whole)
		firmware_write(nd, NEURON_FW_RESET_MAP, nd_chip_reset_map(nd->chip, map));
	firmware_write(nd, NEURON_FW_RESET, whole ? RESET_DEVICE : RESET_CORES);
	firmware_write(nd, NEURON_FW_TRIGGER, 1);
}

static int reset_by_firmware(struct neuron_device *nd, u32 map)
{
	unsigned int seconds = nd->chip->reset_seconds;
	unsigned int status_seconds = nd->is_qemu || nd->is_emulator ? 1000 : 5;
	u64 ram = nd->chip->misc_ram;
	int error;

	send_reset(nd, map);
	error = await_zero(nd, ram + NEURON_FW_RESET, ~0u, seconds,
			   map == NEURON_NC_MAP_DEVICE ? 30 : 10, send_reset, map);
	if (!error)
		error = await_zero(nd, ram + NEURON_FW_STATUS, RESET_IN_PROGRESS, status_seconds, 0,
				   NULL, 0);
	return error;
}

int nd_firmware_reset(struct neuron_device *nd, u32 core_map)
{
	bool whole = core_map == NEURON_NC_MAP_DEVICE;
	int error = 0;

	mutex_lock(&nd->firmware.lock);
	if (nd->is_qemu && nd->chip->model_resets_at_once) {
		/* This write is the reset, whatever its value; 0 is the whole device. */
		nd_write(nd, nd->chip->sim_reset,
			 whole ? 0 : nd_chip_reset_map(nd->chip, core_map));
		error = await_zero(nd, nd->chip->sim_reset, ~0u, 480, 0, NULL, 0);
	} else {
		if (nd->is_qemu)
			nd_write(nd, nd->chip->sim_reset, 1);
		error = reset_by_firmware(nd, core_map);
		if (!error && nd->is_qemu)
			error = await_zero(nd, nd->chip->sim_reset, ~0u, 120, 0, NULL, 0);
	}
	if (error)
		dev_err(nd->dev,
			"neuron%u: reset of core map 0x%x failed: %d (request word 0x%x, status 0x%x)\n",
			nd->index, core_map, error, nd_firmware_word(nd, NEURON_FW_RESET),
			nd_firmware_word(nd, NEURON_FW_STATUS));
	mutex_unlock(&nd->firmware.lock);
	return error;
}

/* ---- mailbox ---- */

static void send_request(struct neuron_device *nd, u8 command, u32 size)
{
	struct nd_firmware *firmware = &nd->firmware;
	struct nd_request_header *header = firmware->request->va;
	struct nd_response_header *answer = firmware->response->va;

	if (++firmware->sequence == 0)
		firmware->sequence = 1;
	header->sequence = firmware->sequence;
	header->command = command;
	header->size = cpu_to_le16(size);
	header->crc = 0;
	header->crc = cpu_to_le32(~__crc32c_le(~0u, firmware->request->va, size));
	/*
	 * The request is in memory before the firmware is told: pairs with its read of it; the
	 * doorbell's writel() orders it.
	 */
	WRITE_ONCE(answer->sequence, 0);
	firmware_write(nd, NEURON_FW_REQUEST_LO, lower_32_bits(firmware->request->address));
	firmware_write(nd, NEURON_FW_REQUEST_HI, upper_32_bits(firmware->request->address));
	firmware_write(nd, NEURON_FW_RESPONSE_LO, lower_32_bits(firmware->response->address));
	firmware_write(nd, NEURON_FW_RESPONSE_HI, upper_32_bits(firmware->response->address));
	firmware_write(nd, NEURON_FW_TRIGGER, 1);
}

static int await_answer(struct neuron_device *nd, u8 command, u32 size)
{
	struct nd_response_header *answer = nd->firmware.response->va;
	unsigned int factor = nd->is_qemu || nd->is_emulator ? SLOW_FACTOR : 1;
	unsigned long deadline = jiffies + ANSWER_SECONDS * factor * HZ;
	unsigned long next = jiffies + msecs_to_jiffies(ANSWER_RETRY_MS * factor);

	/* Pairs with the firmware's write of byte 0, which it makes last. */
	while (smp_load_acquire(&answer->sequence) != nd->firmware.sequence) {
		/* No register is read while waiting: look whether the device is still there. */
		if (nd_is_lost(nd) || nd_firmware_word(nd, NEURON_FW_ROUTING_ID) == ND_ALL_ONES)
			return -ENODEV;
		if (time_after(jiffies, deadline)) {
			dev_err(nd->dev,
				"neuron%u: the firmware did not answer command %u in %u s\n",
				nd->index, command, ANSWER_SECONDS * factor);
			return -ETIMEDOUT;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, next)) {
			send_request(nd, command, size);
			next = jiffies + msecs_to_jiffies(ANSWER_RETRY_MS * factor);
		}
		usleep_range(1000, 1250);
	}
	return 0;
}

int nd_firmware_command(struct neuron_device *nd, u8 command, const void *payload, u32 size,
			void *answer, u32 answer_size)
{
	struct nd_response_header *header;
	u32 answered;
	int error;

	if (size > PAGE_SIZE - REQUEST_HEADER || answer_size > PAGE_SIZE - RESPONSE_HEADER)
		return -E2BIG;
	error = mutex_lock_killable(&nd->firmware.lock);
	if (error)
		return -EINTR;
	if (!nd->firmware.request || !nd->firmware.response) {
		mutex_unlock(&nd->firmware.lock);
		return -ENODEV;
	}
	header = nd->firmware.response->va;
	memcpy(nd->firmware.request->va + REQUEST_HEADER, payload, size);
	send_request(nd, command, REQUEST_HEADER + size);
	error = await_answer(nd, command, REQUEST_HEADER + size);
	answered = le16_to_cpu(READ_ONCE(header->size));
	if (!error &&
	    (header->error || (answer_size && answered < RESPONSE_HEADER + answer_size))) {
		dev_err_ratelimited(
			nd->dev,
			"neuron%u: the firmware answered command %u with error %u and %u bytes, expected 0 and %u\n",
			nd->index, command, header->error, answered, RESPONSE_HEADER + answer_size);
		error = -EIO;
	}
	if (!error && answer_size)
		memcpy(answer, nd->firmware.response->va + RESPONSE_HEADER, answer_size);
	mutex_unlock(&nd->firmware.lock);
	return error;
}

int nd_firmware_read_registers(struct neuron_device *nd, const u64 *addresses, u32 count,
			       u32 *values)
{
	if (count == 0 || count > MAX_REGISTERS)
		return -EINVAL;
	if (nd_fault_firmware_read())
		return -EIO;
	return nd_firmware_command(nd, COMMAND_READ_REGISTERS, addresses, count * sizeof(u64),
				   values, count * sizeof(u32));
}

int nd_firmware_post_metric(struct neuron_device *nd, const void *data, u32 size)
{
	u32 i;

	if (size > METRIC_BYTES)
		return -E2BIG;
	if (nd_fault_post_metric())
		return -EIO;
	for (i = 0; i < size; i += 4) {
		u32 word = 0;

		memcpy(&word, data + i, min(size - i, 4u));
		firmware_write(nd, METRIC_BUFFER + i, word);
	}
	return nd_firmware_command(nd, COMMAND_POST_METRIC, data, size, NULL, 0);
}
