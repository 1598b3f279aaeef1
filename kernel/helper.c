// SPDX-License-Identifier: GPL-2.0
/*
 * The helper. Of a file that shares blocks, xfs tells where they are by
 * ->fiemap() only, which writes to the memory of a process. So the module has
 * a program started (parameter helper) when it has questions. It maps a buffer
 * of ours from the control node and lends us its context, by FLOOP_CTL_HELP:
 * the file system writes to the buffer at the program's address, and we read it
 * at ours. The program sees nothing but zeroes and extents, and decides
 * nothing. It ends soon after the last question.
 *
 * Only the process that was started can be the helper, and maps its buffer
 * once, where nobody else gets at it (VM_IO). Without the program, or if it
 * fails, or does nothing, there is no answer, and the blocks aren't mapped.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/fiemap.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>
#include <linux/umh.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "fiemap.h"
#include "helper.h"
#include "names.h"

/*
 * Each can be stuck in a file system, where an image's owner holds a lock. The
 * others go on. One more is started only if there is none for a question.
 */
#define HELPERS		16
/* A helper that isn't asked for so long ends. */
#define IDLE		HZ
/* How long a question waits for a helper. */
#define PATIENCE	(5 * HZ)
/* How long nobody is started after that. */
#define BROKEN		(60 * HZ)

/* Attempts to find an inode's lock free. */
#define LOCK_TRIES	100

#define EXTENTS		(FLOOP_HELPER_BYTES / sizeof(struct fiemap_extent))

/*
 * A question. @node is in the list until a helper takes it. @result is valid
 * when it is @answered.
 */
struct question {
	struct list_head node;
	struct file *file;
	u64 pos;
	u64 size;
	struct fiemap_extent *found;
	unsigned int max;
	int result;
	bool answered;
};

/*
 * A helper. @pid is the process that was started for it. It has @served if it
 * has come for questions; one of its threads is @inside.
 */
struct helper {
	struct work_struct work;
	bool busy;
	bool served;
	bool inside;
	struct pid *pid;
};

/*
 * @running counts the processes, and those that are being started. Of these
 * @idle wait for a question, and @serving are in a file system.
 */
static struct {
	spinlock_t lock; /* protects all but the works */
	char path[256];
	struct list_head questions;
	wait_queue_head_t asked;
	wait_queue_head_t answered;
	wait_queue_head_t gone;
	struct helper all[HELPERS];
	unsigned int running;
	unsigned int idle;
	unsigned int serving;
	unsigned long dismissals;
	unsigned long broken_until;
	bool broken;
	bool suspended;
} helpers = {
	.lock = __SPIN_LOCK_UNLOCKED(helpers.lock),
	/* Both packages and `make install` have it there. */
	.path = "/usr/sbin/floop-extents",
};

static struct workqueue_struct *helper_wq;

static int set_path(const char *val, const struct kernel_param *kp)
{
	size_t length = strcspn(val, "\n");

	/* It is run as root in the initial namespaces. */
	if (!capable(CAP_SYS_MODULE))
		return -EPERM;
	if (length >= sizeof(helpers.path) || (length && *val != '/'))
		return -EINVAL;
	spin_lock(&helpers.lock);
	memcpy(helpers.path, val, length);
	helpers.path[length] = '\0';
	helpers.broken = false;
	spin_unlock(&helpers.lock);
	return 0;
}

static int get_path(char *buf, const struct kernel_param *kp)
{
	int length;

	spin_lock(&helpers.lock);
	length = sysfs_emit(buf, "%s\n", helpers.path);
	spin_unlock(&helpers.lock);
	return length;
}

const struct kernel_param_ops floop_helper_ops = {
	.set	= set_path,
	.get	= get_path,
};

/* Start nobody for some time. */
static void note_broken(void)
{
	lockdep_assert_held(&helpers.lock);
	helpers.broken = true;
	helpers.broken_until = jiffies + BROKEN;
}

/* There is nobody to answer: let all who wait know. */
static void fail_all(int err)
{
	struct question *question, *next;

	lockdep_assert_held(&helpers.lock);
	list_for_each_entry_safe(question, next, &helpers.questions, node) {
		list_del_init(&question->node);
		question->result = err;
		WRITE_ONCE(question->answered, true);
	}
	wake_up_all(&helpers.answered);
}

static bool is_in_order(void)
{
	lockdep_assert_held(&helpers.lock);
	return *helpers.path && !helpers.suspended &&
	       !(helpers.broken &&
		 time_before(jiffies, helpers.broken_until));
}

/* Start one more, if there is a question and nobody is free for it. */
static void start_if_asked(void)
{
	unsigned int i;

	lockdep_assert_held(&helpers.lock);
	if (list_empty(&helpers.questions) || helpers.idle || !is_in_order())
		return;
	for (i = 0; i < HELPERS; i++) {
		struct helper *helper = &helpers.all[i];

		if (helper->busy)
			continue;
		/* Until it has ended, open control node or not. */
		if (!try_module_get(THIS_MODULE))
			return;
		helper->busy = true;
		helper->served = false;
		helpers.running++;
		queue_work(helper_wq, &helper->work);
		return;
	}
}

/* In the process, before it becomes the program. */
static int note_process(struct subprocess_info *info, struct cred *new)
{
	struct helper *helper = info->data;

	spin_lock(&helpers.lock);
	helper->pid = get_pid(task_tgid(current));
	spin_unlock(&helpers.lock);
	return 0;
}

/* Run a helper, until it ends. */
static void helper_work(struct work_struct *work)
{
	struct helper *helper = container_of(work, struct helper, work);
	char *control = floop_drop_in ? "/dev/loop-control" :
					"/dev/floop-control";
	char *envp[3] = { "HOME=/", "PATH=/usr/sbin:/usr/bin:/sbin:/bin" };
	char path[sizeof(helpers.path)];
	char *argv[3] = { path, control, NULL };
	struct subprocess_info *info;
	struct pid *pid;
	int status = -ENOMEM;

	spin_lock(&helpers.lock);
	strscpy(path, helpers.path);
	spin_unlock(&helpers.lock);
	info = call_usermodehelper_setup(path, argv, envp, GFP_KERNEL,
					 note_process, NULL, helper);
	if (info)
		status = call_usermodehelper_exec(info, UMH_WAIT_PROC |
							UMH_KILLABLE);
	/* floop_helper_exit() waits for this work all the same. */
	module_put(THIS_MODULE);
	spin_lock(&helpers.lock);
	pid = helper->pid;
	helper->pid = NULL;
	helper->busy = false;
	helpers.running--;
	if (!helper->served && !list_empty(&helpers.questions)) {
		/* Nor would the next one serve. */
		note_broken();
		/* Is there nobody else who will? */
		if (helpers.running == helpers.serving)
			fail_all(-ENXIO);
		pr_info_once("%s: %d; images that share blocks aren't mapped\n",
			     path, status);
	}
	start_if_asked();
	wake_up_all(&helpers.gone);
	spin_unlock(&helpers.lock);
	put_pid(pid);
}

/**
 * floop_helper_is_set() - is there a helper to ask?
 *
 * Context: Any.
 * Return: false if the parameter names none.
 */
bool floop_helper_is_set(void)
{
	return READ_ONCE(*helpers.path);
}

/**
 * floop_helper_is_there() - does a helper wait for questions?
 *
 * To start one takes five million instructions.
 *
 * Context: Any.
 * Return: true if one does, at this moment.
 */
bool floop_helper_is_there(void)
{
	return READ_ONCE(helpers.idle);
}

/**
 * floop_helper_ask() - list a file's extents
 * @file: the file
 * @pos: from where on, in bytes
 * @size: how much of it, in bytes
 * @found: gets the extents, in order
 * @max: how many there is room for
 *
 * Context: Process context, with no lock that the file system takes. Sleeps as
 * long as the file system takes, and seconds for a helper.
 * Return: the number of extents; -ENXIO or -ETIMEDOUT without a helper; or the
 * file system's error.
 */
int floop_helper_ask(struct file *file, u64 pos, u64 size,
		     struct fiemap_extent *found, unsigned int max)
{
	struct question question = {
		.file = file, .pos = pos, .size = size,
		.found = found, .max = max,
	};
	bool taken;

	spin_lock(&helpers.lock);
	if (!is_in_order()) {
		spin_unlock(&helpers.lock);
		return -ENXIO;
	}
	list_add_tail(&question.node, &helpers.questions);
	start_if_asked();
	wake_up(&helpers.asked);
	spin_unlock(&helpers.lock);

	wait_event_idle_timeout(helpers.answered,
				READ_ONCE(question.answered), PATIENCE);
	spin_lock(&helpers.lock);
	taken = list_empty(&question.node);
	if (!taken) {
		list_del(&question.node);
		note_broken();
	}
	spin_unlock(&helpers.lock);
	if (!taken)
		return -ETIMEDOUT;
	wait_event_idle(helpers.answered, READ_ONCE(question.answered));
	/* The helper has let go of it. */
	spin_lock(&helpers.lock);
	spin_unlock(&helpers.lock);
	return question.result;
}

static bool is_wanted(unsigned long dismissals)
{
	return !list_empty_careful(&helpers.questions) ||
	       READ_ONCE(helpers.dismissals) != dismissals;
}

/* Returns NULL if there is no question for some time, or none is wanted. */
static struct question *take_question(void)
{
	struct question *question;
	unsigned long dismissals;

	spin_lock(&helpers.lock);
	WRITE_ONCE(helpers.idle, helpers.idle + 1);
	dismissals = helpers.dismissals;
	spin_unlock(&helpers.lock);
	wait_event_interruptible_timeout(helpers.asked, is_wanted(dismissals),
					 IDLE);
	spin_lock(&helpers.lock);
	WRITE_ONCE(helpers.idle, helpers.idle - 1);
	question = list_first_entry_or_null(&helpers.questions,
					    struct question, node);
	if (question) {
		list_del_init(&question->node);
		helpers.serving++;
		start_if_asked();
	}
	spin_unlock(&helpers.lock);
	return question;
}

static void answer(struct question *question, int result)
{
	spin_lock(&helpers.lock);
	helpers.serving--;
	question->result = result;
	WRITE_ONCE(question->answered, true);
	wake_up_all(&helpers.answered);
	spin_unlock(&helpers.lock);
}

/*
 * Is the inode's lock to be had, at least now and then? Who waits for it behind
 * a reader that is stuck keeps it from us for as long as that takes.
 */
static bool lock_is_free(struct inode *inode)
{
	unsigned int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (inode_trylock_shared(inode)) {
			inode_unlock_shared(inode);
			return true;
		}
		usleep_range(1000, 2000);
	}
	return false;
}

/*
 * Ask the file system. It writes to @buffer, at the address @user of the
 * current process. The device may wait for it, so its memory must not come from
 * I/O.
 */
static int list_extents(struct question *question,
			struct fiemap_extent *buffer, unsigned long user)
{
	struct inode *inode = file_inode(question->file);
	struct fiemap_extent_info info = {
		.fi_extents_max = min_t(unsigned int, question->max, EXTENTS),
		.fi_extents_start = (struct fiemap_extent __user *)user,
	};
	size_t bytes = info.fi_extents_max * sizeof(*buffer);
	unsigned int memflags;
	int err;

	if (!lock_is_free(inode))
		return -EBUSY;
	memset(buffer, 0, bytes);
	flush_kernel_vmap_range(buffer, bytes);
	memflags = memalloc_noio_save();
	err = floop_fiemap(inode, &info, question->pos, question->size);
	memalloc_noio_restore(memflags);
	if (err)
		return err;
	invalidate_kernel_vmap_range(buffer, bytes);
	info.fi_extents_mapped = min(info.fi_extents_mapped,
				     info.fi_extents_max);
	memcpy(question->found, buffer,
	       info.fi_extents_mapped * sizeof(*buffer));
	return info.fi_extents_mapped;
}

/* The helper that is the current process, or NULL. */
static struct helper *current_helper(void)
{
	struct helper *found = NULL;
	unsigned int i;

	spin_lock(&helpers.lock);
	for (i = 0; i < HELPERS; i++)
		if (helpers.all[i].pid == task_tgid(current))
			found = &helpers.all[i];
	spin_unlock(&helpers.lock);
	return found;
}

/**
 * floop_helper_serve() - FLOOP_CTL_HELP: answer questions
 * @control: the control node
 * @user: the address of its buffer, see floop_helper_mmap()
 *
 * Context: A helper. Sleeps.
 * Return: 0 when there is no question any more; -EFAULT if the buffer isn't
 * there; -EBUSY for a second thread, which would write to the same buffer;
 * -ENOSYS, as in-tree, if the caller isn't a helper.
 */
long floop_helper_serve(struct file *control, unsigned long user)
{
	struct fiemap_extent *buffer = READ_ONCE(control->private_data);
	struct helper *helper = current_helper();
	struct vm_area_struct *vma;
	struct question *question;
	bool there;

	if (!helper)
		return -ENOSYS;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, user);
	there = buffer && vma && vma->vm_file == control &&
		vma->vm_start == user &&
		vma->vm_end - vma->vm_start == FLOOP_HELPER_BYTES;
	mmap_read_unlock(current->mm);
	if (!there)
		return -EFAULT;
	if (xchg(&helper->inside, true))
		return -EBUSY;
	spin_lock(&helpers.lock);
	helper->served = true;
	spin_unlock(&helpers.lock);
	while ((question = take_question()))
		answer(question, list_extents(question, buffer, user));
	WRITE_ONCE(helper->inside, false);
	return 0;
}

/**
 * floop_helper_mmap() - map the buffer that extents are written to
 * @control: the control node
 * @vma: where to
 *
 * Context: Process context. May sleep.
 * Return: 0 or a negative errno; -ENODEV, as in-tree, if the caller isn't a
 * helper.
 */
int floop_helper_mmap(struct file *control, struct vm_area_struct *vma)
{
	void *buffer;
	int err;

	if (!current_helper())
		return -ENODEV;
	if (vma->vm_pgoff || !(vma->vm_flags & VM_SHARED) ||
	    vma->vm_end - vma->vm_start != FLOOP_HELPER_BYTES)
		return -EINVAL;
	buffer = vmalloc_user(FLOOP_HELPER_BYTES);
	if (!buffer)
		return -ENOMEM;
	/* Once: nobody else has it. */
	if (cmpxchg(&control->private_data, NULL, buffer)) {
		vfree(buffer);
		return -EBUSY;
	}
	err = remap_vmalloc_range(vma, buffer, 0);
	vm_flags_set(vma, VM_IO | VM_DONTCOPY);
	return err;
}

/**
 * floop_helper_release() - free the buffer of a control node
 * @control: the control node, which is closed and mapped nowhere
 *
 * Context: Process context. May sleep.
 */
void floop_helper_release(struct file *control)
{
	vfree(control->private_data);
}

/* Have those end that wait for a question. Returns false if there are none. */
static bool dismiss(void)
{
	bool any;

	spin_lock(&helpers.lock);
	any = helpers.running > helpers.serving;
	helpers.dismissals++;
	wake_up_all(&helpers.asked);
	spin_unlock(&helpers.lock);
	return any;
}

/**
 * floop_helper_settle() - wait until helpers that nobody needs have ended
 *
 * Each has the module in use. One that is stuck isn't waited for.
 *
 * Context: Process context. Sleeps for half a second at most.
 */
void floop_helper_settle(void)
{
	if (dismiss())
		wait_event_idle_timeout(helpers.gone,
					READ_ONCE(helpers.running) <=
					READ_ONCE(helpers.serving) ||
					!list_empty_careful(&helpers.questions),
					HZ / 2);
}

/* A suspend waits for all helpers of the kernel, and fails after 5 s. */
static int note_suspend(struct notifier_block *nb, unsigned long what,
			void *data)
{
	bool suspended = what == PM_SUSPEND_PREPARE ||
			 what == PM_HIBERNATION_PREPARE ||
			 what == PM_RESTORE_PREPARE;

	spin_lock(&helpers.lock);
	helpers.suspended = suspended;
	spin_unlock(&helpers.lock);
	if (suspended)
		dismiss();
	return NOTIFY_DONE;
}

static struct notifier_block suspend_block = {
	.notifier_call = note_suspend,
};

/**
 * floop_helper_init() - prepare for questions
 *
 * Context: Module init. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_helper_init(void)
{
	unsigned int i;

	INIT_LIST_HEAD(&helpers.questions);
	init_waitqueue_head(&helpers.asked);
	init_waitqueue_head(&helpers.answered);
	init_waitqueue_head(&helpers.gone);
	for (i = 0; i < HELPERS; i++)
		INIT_WORK(&helpers.all[i].work, helper_work);
	helper_wq = alloc_workqueue("floop_helper", WQ_UNBOUND, HELPERS);
	if (!helper_wq)
		return -ENOMEM;
	register_pm_notifier(&suspend_block);
	return 0;
}

/**
 * floop_helper_exit() - undo floop_helper_init()
 *
 * Context: Module exit. Sleeps until all helpers have ended.
 */
void floop_helper_exit(void)
{
	unregister_pm_notifier(&suspend_block);
	destroy_workqueue(helper_wq);
}
