// SPDX-License-Identifier: GPL-2.0-only
/*
 * Power: the firmware gives a sample of utilization every now and then; each minute the lowest, the
 * highest and the average of those seen become what sysfs shows.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "driver/kmod/neuron.h"

#define FW_POWER_DIE0 0x54 /* 31:16 sample counter, 15:0 hundredths of a percent */
#define FW_POWER_DIE1 0x58
#define SAMPLE_PERIOD msecs_to_jiffies(50)
#define MINUTE msecs_to_jiffies(60000)
#define FEWEST_SAMPLES 60u
/* Firmware from this interface version on gives samples. */
#define FIRST_VERSION 3u
#define MOST 10000u

struct nd_metrics {
	struct neuron_device *nd;
	struct delayed_work work;
	unsigned long minute_ends;
	u32 counter; /* of the newest sample */
	u32 samples;
	u64 sum;
	u32 lowest;
	u32 highest;
	struct nd_power power; /* power_lock */
};

/* Guards nd->metrics and the power in it, of all devices. */
static DEFINE_MUTEX(power_lock);

static void start_minute(struct nd_metrics *metrics)
{
	metrics->minute_ends = jiffies + MINUTE;
	metrics->samples = 0;
	metrics->sum = 0;
	metrics->lowest = MOST;
	metrics->highest = 0;
}

static void end_minute(struct nd_metrics *metrics)
{
	struct nd_power *power = &metrics->power;

	mutex_lock(&power_lock);
	memset(power, 0, sizeof(*power));
	power->when = ktime_get_real_seconds();
	power->status = ND_POWER_NO_DATA;
	if (metrics->samples >= FEWEST_SAMPLES) {
		power->status = metrics->highest > MOST ? ND_POWER_INVALID : ND_POWER_VALID;
		power->lowest = metrics->lowest;
		power->highest = metrics->highest;
		power->average = div_u64(metrics->sum, metrics->samples);
	}
	mutex_unlock(&power_lock);
	start_minute(metrics);
}

static void take_sample(struct nd_metrics *metrics)
{
	struct neuron_device *nd = metrics->nd;
	u32 word = nd_firmware_word(nd, FW_POWER_DIE0);
	u32 value = word & 0xFFFF;

	if (word >> 16 == metrics->counter || nd_is_lost(nd))
		return;
	metrics->counter = word >> 16;
	if (nd->chip->power_dies > 1)
		value = max(value, nd_firmware_word(nd, FW_POWER_DIE1) & 0xFFFF);
	metrics->samples++;
	metrics->sum += value;
	metrics->lowest = min(metrics->lowest, value);
	metrics->highest = max(metrics->highest, value);
}

static void sample(struct work_struct *work)
{
	struct nd_metrics *metrics = container_of(work, struct nd_metrics, work.work);
	struct neuron_device *nd = metrics->nd;
	unsigned long period = SAMPLE_PERIOD;

	if (nd_is_lost(nd))
		return;
	/* Firmware without samples is asked again once a minute: it may be updated. */
	if (nd_firmware_word(nd, NEURON_FW_API_VERSION) >= FIRST_VERSION)
		take_sample(metrics);
	else
		period = MINUTE;
	if (time_after(jiffies, metrics->minute_ends))
		end_minute(metrics);
	queue_delayed_work(system_power_efficient_wq, &metrics->work, period);
}

int nd_metrics_create(struct neuron_device *nd)
{
	struct nd_metrics *metrics;

	/* Chip models have no power to measure. */
	if (nd->is_qemu || nd->is_emulator)
		return 0;
	metrics = kzalloc(sizeof(*metrics), GFP_KERNEL);
	if (!metrics)
		return -ENOMEM;
	metrics->nd = nd;
	metrics->power.status = ND_POWER_NO_DATA;
	start_minute(metrics);
	INIT_DELAYED_WORK(&metrics->work, sample);
	nd->metrics = metrics;
	/* Not while the device is being reset, which the first second is for. */
	queue_delayed_work(system_power_efficient_wq, &metrics->work, HZ);
	return 0;
}

void nd_metrics_destroy(struct neuron_device *nd)
{
	struct nd_metrics *metrics = nd->metrics;

	if (!metrics)
		return;
	cancel_delayed_work_sync(&metrics->work);
	mutex_lock(&power_lock);
	nd->metrics = NULL;
	mutex_unlock(&power_lock);
	kfree(metrics);
}

void nd_metrics_power(struct neuron_device *nd, struct nd_power *power)
{
	struct nd_metrics *metrics;

	mutex_lock(&power_lock);
	metrics = nd->metrics;
	if (metrics)
		*power = metrics->power;
	else
		*power = (struct nd_power){ .status = ND_POWER_NO_DATA };
	mutex_unlock(&power_lock);
}
