// SPDX-License-Identifier: GPL-2.0
/*
 * Work that asks the file system, and can be left behind (ask.h).
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "ask.h"
#include "image.h"

/* A question that takes longer waits for somebody, or for a very slow disk. */
#define PATIENCE	(5 * HZ)

/*
 * No other work waits for a place in this queue, or work without an answer
 * would be in the way of the works that stop it.
 */
static struct workqueue_struct *ask_wq;

static void free_ask(struct floop_ask *ask)
{
	fput(ask->file);
	/* Who queues the work holds rcu_read_lock(). */
	kfree_rcu(ask, rcu);
}

static void ask_work(struct work_struct *work)
{
	struct floop_ask *ask = container_of(to_delayed_work(work),
					     struct floop_ask, work);
	bool run, left;

	spin_lock_irq(&ask->lock);
	run = !ask->stopped;
	ask->running = run;
	spin_unlock_irq(&ask->lock);
	if (!run)
		return;

	ask->run(ask);

	spin_lock_irq(&ask->lock);
	ask->running = false;
	left = ask->left;
	wake_up_all(&ask->ended);
	spin_unlock_irq(&ask->lock);
	if (!left)
		return;
	free_ask(ask);
	/* floop_ask_exit() waits for the rest of this work. */
	module_put(THIS_MODULE);
}

/**
 * floop_ask_alloc() - prepare work
 * @image: the image
 * @run: the work
 *
 * Context: Process context. May sleep.
 * Return: the work, or NULL without memory.
 */
struct floop_ask *floop_ask_alloc(struct floop_image *image, floop_ask_fn *run)
{
	struct floop_ask *ask = kzalloc(sizeof(*ask), GFP_KERNEL);

	if (!ask)
		return NULL;
	INIT_DELAYED_WORK(&ask->work, ask_work);
	ask->run = run;
	ask->image = image;
	ask->file = get_file(image->file);
	spin_lock_init(&ask->lock);
	init_waitqueue_head(&ask->ended);
	return ask;
}

/**
 * floop_ask_queue() - queue work
 * @ask: the work
 * @delay: in jiffies, if it isn't pending already; 0: at once
 *
 * Context: Any, interrupts included.
 */
void floop_ask_queue(struct floop_ask *ask, unsigned long delay)
{
	floop_queue(ask_wq, &ask->work, delay);
}

/**
 * floop_ask_hasten() - queue work, or bring it forward
 * @ask: the work
 * @delay: in jiffies, even if it is pending with a longer one
 *
 * Context: Any, interrupts included.
 */
void floop_ask_hasten(struct floop_ask *ask, unsigned long delay)
{
	struct timer_list *timer = &ask->work.timer;

	/* Whoever is about to set the timer looks again (schedule_next()). */
	if (delayed_work_pending(&ask->work) &&
	    (!timer_pending(timer) ||
	     time_before_eq(READ_ONCE(timer->expires), jiffies + delay)))
		return;
	mod_delayed_work(ask_wq, &ask->work, delay);
}

/**
 * floop_ask_quit() - ask no more
 * @ask: the work; can still be queued, but doesn't run again
 *
 * Context: Any but interrupts. Doesn't wait.
 * Return: true if it is running.
 */
bool floop_ask_quit(struct floop_ask *ask)
{
	bool running;

	disable_delayed_work(&ask->work);
	spin_lock_irq(&ask->lock);
	ask->stopped = true;
	running = ask->running;
	spin_unlock_irq(&ask->lock);
	return running;
}

/**
 * floop_ask_stop() - wait for work, or leave it behind
 * @ask: the work; gone afterwards, but for readers with rcu_read_lock()
 *
 * Waits for as long as the work is busy with the image, but not much longer
 * than 5 s for one answer of the file system.
 *
 * Context: Process context. Sleeps. The caller keeps the module.
 */
void floop_ask_stop(struct floop_ask *ask)
{
	bool left = false;

	floop_ask_quit(ask);
	spin_lock_irq(&ask->lock);
	while (ask->running && !left) {
		wait_event_lock_irq_timeout(ask->ended, !ask->running,
					    ask->lock, PATIENCE);
		left = ask->running && ask->asking;
	}
	ask->left = left;
	if (left)
		__module_get(THIS_MODULE);
	spin_unlock_irq(&ask->lock);
	if (left)
		return;
	/* It has ended, but not returned yet. */
	cancel_delayed_work_sync(&ask->work);
	free_ask(ask);
}

/**
 * floop_ask_begin() - before a question
 * @ask: the work
 *
 * Context: In the work. Doesn't sleep.
 * Return: false if there is nothing to ask any more.
 */
bool floop_ask_begin(struct floop_ask *ask)
{
	bool stopped;

	spin_lock_irq(&ask->lock);
	stopped = ask->stopped;
	ask->asking = !stopped;
	spin_unlock_irq(&ask->lock);
	return !stopped;
}

/**
 * floop_ask_end() - after a question
 * @ask: the work
 *
 * Context: In the work. Doesn't sleep.
 * Return: false if the work was left behind: it may not access the image.
 */
bool floop_ask_end(struct floop_ask *ask)
{
	bool left;

	spin_lock_irq(&ask->lock);
	left = ask->left;
	ask->asking = false;
	spin_unlock_irq(&ask->lock);
	return !left;
}

/**
 * floop_ask_init() - allocate the workqueue that all images share
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_ask_init(void)
{
	ask_wq = alloc_workqueue("floop_ask", WQ_UNBOUND | WQ_FREEZABLE,
				 WQ_MAX_ACTIVE);
	return ask_wq ? 0 : -ENOMEM;
}

/**
 * floop_ask_exit() - undo floop_ask_init()
 *
 * Context: Process context. May sleep.
 */
void floop_ask_exit(void)
{
	destroy_workqueue(ask_wq);
}
