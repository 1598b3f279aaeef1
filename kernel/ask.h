/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Background work of an image that asks the file system where blocks are. Each
 * question takes the inode's lock. The image's owner can hold that for as long
 * as they like: FS_IOC_FIEMAP holds it while it copies to memory whose page
 * fault the owner answers, or doesn't. So the work can be left behind in the
 * middle of a question. It lets go of the file when the answer comes.
 */
#ifndef FLOOP_ASK_H
#define FLOOP_ASK_H

#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct file;
struct floop_ask;
struct floop_image;

typedef void floop_ask_fn(struct floop_ask *ask);

/**
 * struct floop_ask - work that asks the file system
 * @work: calls @run
 * @run: the work
 * @image: the image; gone when the work is left behind
 * @file: its file; our reference
 * @rcu: frees it
 * @lock: @running, @asking, @stopped, @left
 * @running: in @run
 * @asking: in the file system
 * @stopped: no more questions
 * @left: left behind: @run may access nothing of @image, and frees this
 * @ended: waiters for @running to become false
 */
struct floop_ask {
	struct delayed_work work;
	floop_ask_fn *run;
	struct floop_image *image;
	struct file *file;
	struct rcu_head rcu;
	/* protects the flags */
	spinlock_t lock;
	bool running;
	bool asking;
	bool stopped;
	bool left;
	wait_queue_head_t ended;
};

int floop_ask_init(void);
void floop_ask_exit(void);
struct floop_ask *floop_ask_alloc(struct floop_image *image,
				  floop_ask_fn *run);
void floop_ask_queue(struct floop_ask *ask, unsigned long delay);
void floop_ask_hasten(struct floop_ask *ask, unsigned long delay);
bool floop_ask_quit(struct floop_ask *ask);
void floop_ask_stop(struct floop_ask *ask);
bool floop_ask_begin(struct floop_ask *ask);
bool floop_ask_end(struct floop_ask *ask);

#endif /* FLOOP_ASK_H */
