/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Questions about a device that is not opened, and their answers, for both sides of
 * ndl/ndl_observe.h. No public driver has them. Emulated devices answer all of them; this project's
 * module answers those that no sysfs tree does.
 *
 * Values only, in host order. Fields are only ever added at the end of ndl_observation_t.
 */
#ifndef NEURON_UAPI_OBSERVE_H
#define NEURON_UAPI_OBSERVE_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_ioctl.h"

#define NDL_OBSERVED_CORES 16
#define NDL_OBSERVED_LINKS 16
#define NDL_OBSERVED_HOLDERS 48

/* flags of ndl_holder_t */
#define NDL_HOLDER_ATTACHED 1u /* has the device open: takes one of its process slots */
#define NDL_HOLDER_RECORD 2u   /* publishes a datastore */

typedef struct ndl_holder {
  __s32 pid;
  __u32 flags;
  __u64 since; /* seconds since 1970; 0: not known */
  __u64 cores; /* bit n: marked physical core n of this device as its own */
  __u64 host_bytes;
  __u64 device_bytes;
  char command[16]; /* at the time of opening; may be cut, or empty */
} ndl_holder_t;

enum ndl_device_state {
  NDL_DEVICE_RESETTING = 0,
  NDL_DEVICE_READY = 1,
  NDL_DEVICE_INVALID = 2, /* its last reset failed */
  NDL_DEVICE_OFF = 3,     /* does not answer */
  NDL_DEVICE_UNKNOWN = 4,
};

typedef struct ndl_observation {
  __u32 size;         /* of this struct as the caller knows it */
  __u32 architecture; /* 2 Trn1 and Inf2, 3 Trn2 */
  __u32 revision;
  __u32 state; /* enum ndl_device_state */
  __u32 cores; /* physical ones */
  __u32 pci_domain, pci_bus, pci_slot, pci_function;
  __s32 numa_node;       /* -1: not known */
  __u32 emulated;        /* 1: no chip of this machine */
  __u32 connected_count; /* links, also to itself */
  __u8 connected[NDL_OBSERVED_LINKS];
  __u32 links_down;            /* bit n: connected[n] */
  __u32 fault_count;           /* planted ones that wait or are armed; emulated devices */
  __u64 link_bytes_per_second; /* each direction of a link; 0: not known */
  __u64 memory_bytes;          /* of all HBMs */
  __u64 memory_used;           /* of these, also by the driver */
  /* place of a physical core among the device's cores, as processes count them */
  __u8 logical[NDL_OBSERVED_CORES];
  __u32 resets[NDL_OBSERVED_CORES];
  __u32 failed_resets[NDL_OBSERVED_CORES];
  __u32 hung_engines[NDL_OBSERVED_CORES]; /* bits in the order PE, Activation, Pool, DVE, SP */
  __u32 holder_count;                     /* there may be more than fit */
  __s32 holders_error;                    /* 0; or why holders are not known: an errno value */
  ndl_holder_t holders[NDL_OBSERVED_HOLDERS];
} ndl_observation_t;

/* What an operator asks of a device without opening it; the answers are those of ndl/ndl_observe.h.
 */
enum neuron_emulator_question_kind {
  NEURON_EMULATOR_ASK_DEVICE = 1, /* ndl_observation_t */
  NEURON_EMULATOR_ASK_DATASTORE =
      2, /* of `pid`: pieces, each neuron_emulator_piece and its bytes, from `offset` on */
  NEURON_EMULATOR_ASK_READ = 3,  /* the attribute at `path` */
  NEURON_EMULATOR_ASK_LIST = 4,  /* names in the folder at `path` */
  NEURON_EMULATOR_ASK_TREE = 5,  /* "path value" of all below the folder, from number `offset` on */
  NEURON_EMULATOR_ASK_WRITE = 6, /* `text` to the attribute at `path` */
  NEURON_EMULATOR_ASK_ALL =
      7, /* every device from number `offset` on: neuron_emulator_told, and what it announces;
            `path`: folders of attributes, a space between them, or "" */
  NEURON_EMULATOR_ASK_ADAPTER = 8, /* PCI address of the network adapter nearest to the device, as
                                      text; ENOENT: the host has none */
};

struct neuron_emulator_question {
  __u32 kind;
  __u32 device;
  __s32 pid;
  __u32 reserved;
  __u64 offset;   /* 0, or where the answer before said that it goes on */
  char path[200]; /* NUL-terminated, as the next */
  char text[56];
};

/* Bytes that are not zero; what no piece has is. */
struct neuron_emulator_piece {
  __u32 offset;
  __u32 bytes;
};

/* Of one device: its ndl_observation_t, without entries of holders that are not used, and "path
 * value" lines of its attributes follow. */
struct neuron_emulator_told {
  __u32 device;
  __u32 observation_bytes;
  __u32 text_bytes;
  __u32 reserved;
};

/*
 * The question to a kernel's driver, an addition of this project's: on a descriptor of any device
 * and of any mode, also O_WRONLY, which takes no process slot. Any other driver answers EINVAL.
 */
struct neuron_ioctl_observe {
  __u32 kind;   /* NEURON_EMULATOR_ASK_DEVICE, NEURON_EMULATOR_ASK_DATASTORE */
  __u32 device; /* by its number, whichever is open */
  __s32 pid;    /* whose datastore */
  __u32 reserved;
  __u64 answer; /* address of an ndl_observation_t, or of a block for the datastore */
  __u64 size;   /* of that, and then how much of it was written */
};

#define NEURON_IOCTL_OBSERVE _IOWR(NEURON_IOCTL_BASE, 228, struct neuron_ioctl_observe)

#endif /* NEURON_UAPI_OBSERVE_H */
