/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the program torture. See ../torture.c. */
#ifndef TESTS_TORTURE_H
#define TESTS_TORTURE_H

#include <pthread.h>

#include "../attack.h"

#define DONOR_BLOCKS DONOR_MOST
#define MOVE_MOST 64U		/* blocks at a time */
#define DEPTH_MOST 64U
#define JOBS_MOST 16U
#define OPS 22U

/* The options */
extern uint64_t seed;
extern unsigned int jobs, depth, discards_of_1000, slow, patience, grain;
extern bool read_only, broken_rules, at_once, openers_wait;

/*
 * The device's sectors are the image's. Up to prot they are protected, up to
 * others sacrificed by the device, up to size by those who change the image.
 */
extern const char *device, *image;
extern char dir[256], disk_stat[64];
extern uint64_t size, prot, others;
extern unsigned int chunks, sector_size;
extern struct file_handle *handle;	/* of the image */

/* How far the run is: operations first, then the device's I/O */
extern atomic_bool stopping, leaving;
extern atomic_bool calm;	/* the device's I/O makes room for the fill */
extern atomic_uint open_ops;	/* a bit for each that the burst allows */
extern atomic_int busy;

/* The generation of each protected sector: surely there, perhaps there */
extern _Atomic uint32_t *done, *issued;
extern atomic_uint *chunk_users, *chunk_taken;

/* What the report says */
extern atomic_ulong reads, writes, fuas, flushes, discards, nowaits, agains;
extern atomic_ulong stale_for_a_moment, operations;

struct hostile {
	unsigned int id;
	struct rng r;
	struct task *task;
	struct donor donor;	/* keeps the blocks that the image had */
	int copy;	/* a file for copies, dedupe's source */
	uint8_t *buf, *other;
};

enum where {
	ANY = 0,
	EXT4 = 1,
	XFS = 2,
	READS = 4,	/* also on a read-only device */
};

struct op {
	const char *name;
	/* 0 or -errno; what may not happen at all ends the run */
	int (*run)(struct hostile *h);
	unsigned int weight, where;
};

/* tasks.c */
struct task *task_new(const char *name, unsigned int id);
void *watchdog_thread(void *arg);

/* device.c */
/* Nobody writes to it until it is released. */
void chunk_take(uint32_t chunk);
void *io_thread(void *arg);
void *sacrifice_thread(void *arg);

/* vulture.c */
void *vulture_thread(void *arg);

/* operations.c */
extern const struct op ops[OPS];
void linger(struct hostile *h);
int open_image(struct hostile *h, int flags);
/* A part of the protected range, in blocks */
void pick(struct hostile *h, uint64_t *pos, size_t *len, uint32_t most);
/* A part of what lies behind @from, in blocks */
uint64_t pick_sacrificed(struct hostile *h, size_t *len, uint64_t from);
unsigned int ops_here(void);
void *hostile_thread(void *arg);
void report_operations(void);

/* read.c */
int op_open(struct hostile *h);
int op_read(struct hostile *h);
int op_read_direct(struct hostile *h);
int op_mmap_read(struct hostile *h);

/* space.c */
int op_truncate(struct hostile *h);
int op_ftruncate(struct hostile *h);
int op_hole(struct hostile *h);
int op_prealloc(struct hostile *h);
int op_shift(struct hostile *h);
int op_mmap_write(struct hostile *h);

/* remap.c */
int op_move(struct hostile *h);
int op_clone(struct hostile *h);
int op_dedupe(struct hostile *h);
int op_exchange(struct hostile *h);
int op_clone_in(struct hostile *h);
int op_copy_range(struct hostile *h);

/* around.c */
int op_sync(struct hostile *h);
int op_trim(struct hostile *h);
int op_inode(struct hostile *h);
int op_freeze(struct hostile *h);
int op_mapping(struct hostile *h);
int op_status(struct hostile *h);
/* Thaw the file system, for the end of the program: nobody freezes it again. */
void end_freezing(void);

#endif
