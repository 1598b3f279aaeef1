/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the program adversary. See ../adversary.c. */
#ifndef TESTS_ADVERSARY_H
#define TESTS_ADVERSARY_H

#include <pthread.h>
#include <sys/stat.h>

#include "../attack.h"

#define DONOR_BLOCKS 32U
#define SLOTS 8			/* descriptors that an adversary holds */
#define ADVERSARIES 3
#define OPS_MOST 64
#define OWNER 1000		/* uids */
#define OTHER 1001
#define NOT_TRIED 1		/* makes no sense with this descriptor */

/* How a descriptor was asked for. The middle three are counted as openers. */
enum access { NEITHER, RDONLY, WRONLY, RDWR, PATH, ACCESSES };
/* How it was come by */
enum how { PLAIN, REOPENED, RECEIVED, RING, OVERLAY, HOWS };
/* What an adversary may do now */
enum gate { CLOSED, OBTAIN, UNCOUNTED, ANY };

struct count {
	atomic_ulong ok, refused;
	atomic_int last;
};

/* Shared by all processes. */
struct arena {
	atomic_int gate, busy, ready, nr_tasks;
	atomic_bool stopping, leaving, failed, attached;
	atomic_ulong round;
	_Atomic uint64_t ops;		/* a bit for each that is allowed */
	atomic_ulong operations, granted;
	/* Cuts of the image: under way, and made good again */
	atomic_ulong cutting, cuts;
	/* Taken: the image's name may be away, its mode and owner another */
	atomic_uint names;
	struct task tasks[64];
	struct count counts[OPS_MOST][ACCESSES];
	atomic_ulong took[OPS_MOST];	/* microseconds */
	atomic_ulong by_how[HOWS][2][2];	/* before/after, ok/refused */
	atomic_ulong by_whom[ADVERSARIES][2];
	/* Overlays over it: mounted, not mounted */
	atomic_ulong mounts[2];
	atomic_ulong stale;
	/* Of each protected sector: surely there, perhaps there */
	_Atomic uint32_t *done, *issued;
	atomic_uint *taken;	/* chunks that somebody else writes to */
	char failure[512];
};

/*
 * The device's sectors are the image's. Up to prot they are protected. Then
 * come three parts that are sacrificed: up to cut, holes and direct writes;
 * up to cached, what truncates cut off; up to size, the page cache's.
 */
struct place {
	uint64_t prot, cut, cached, size;
};

struct desc {
	enum access access;
	enum how how;
	bool used, before, direct;
	bool lower;	/* of an overlay: another file once it is copied up */
	int fd;
};

struct ring;

struct adversary {
	unsigned int id;
	const char *name;
	pid_t pid;
	struct rng r;
	struct task *task;
	struct desc slots[SLOTS];
	struct desc *d;			/* the one in use */
	struct ring *ring;
	int inbox;			/* others send descriptors to it */
	struct donor donor;		/* a file of its own */
	uint8_t *buf, *other;
	bool overlay[2];		/* the image's folder is upper, lower */
	int from_parent, to_parent;
};

struct op {
	const char *name;
	/* 0 or -errno; @fd: the descriptor, installed if it is a ring's */
	int (*run)(struct adversary *a, int fd);
	unsigned int weight;
	unsigned int where;		/* FS_*; 0: on both */
	bool loud;			/* the VFS breaks leases for it */
};

#define FS_EXT4 1U
#define FS_XFS 2U

extern struct arena *arena;
extern struct place place;
extern const char *device, *image;	/* the name that nobody changes */
extern char dir[200], home[256], home_image[280];
extern uint64_t seed;
extern ino_t image_ino;
extern unsigned int fs_kind, sector_size;
extern int outboxes[ADVERSARIES];

extern const struct op remap_ops[], space_ops[], attr_ops[], misc_ops[];

/* adversary.c */
struct task *task_new(const char *name, unsigned int id);

/* device.c */
void *device_thread(void *arg);
void *vulture_thread(void *arg);
void device_attach(void);
void device_capacity(void);
void device_detach(void);
extern atomic_ulong reads, writes, flushes, discards, cut_short;
extern atomic_bool device_stopping;

/* descriptors.c */
void descriptors_begin(struct adversary *a);
int descriptor_obtain(struct adversary *a, struct desc *d, bool before,
		      enum gate gate);
void descriptor_release(struct adversary *a, struct desc *d);
void inbox_drain(struct adversary *a);
bool is_counted(const struct desc *d);
int descriptor_of(struct adversary *a, struct desc *d, bool *installed);
void send_fd(int sock, int fd);
int ring_do(struct adversary *a, uint8_t opcode, uint64_t off, void *addr,
	    uint32_t len, uint32_t flags);
void names_take(void);
void names_let_go(void);

/* helpers of the operations, in remap.c */
void donor_begin(struct adversary *a);
void chunk_take(uint32_t chunk);
void chunk_let_go(uint32_t chunk);
/* What the protected range holds, whose chunk is taken */
void known(void *buf, uint64_t pos, size_t len);
void linger(struct adversary *a);
/* A part of one protected chunk, in blocks */
uint32_t pick(struct adversary *a, uint64_t *pos, size_t *len);
/* A part of what lies between, in blocks */
void pick_between(struct adversary *a, uint64_t from, uint64_t to,
		  uint64_t *pos, size_t *len);
void copy_end(int copy);
int own_file(struct adversary *a, const char *name, int flags);

/* space.c */
int read_and_check(struct adversary *a, int fd, int how);

#endif
