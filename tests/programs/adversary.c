// SPDX-License-Identifier: GPL-2.0
/*
 * The guard against an image's own unprivileged owner, and his like.
 *
 *   adversary -i [-s SEED] IMAGE SIZE
 *	make the image of a device of SIZE bytes
 *   adversary [-s SEED] [-t SECONDS] [-n OPERATIONS] [-k OP,OP..] [-K OP,OP..]
 *	[-a gate] [-W SECONDS] DEVICE IMAGE
 *	attach it to DEVICE, a free loop device, again and again
 *
 * Three processes use every kind of descriptor of the image: one has the uid
 * of the image's owner, one another's, one is root in a user namespace where
 * it owns the image. They obtain descriptors before the image is attached and
 * after, in all access modes (3 and O_PATH, too: they don't count as opening
 * it), through /proc/self/fd, from each other, registered in an io_uring, in
 * an overlay. On each they try all that a file system has to offer. Meanwhile
 * the device is written, read, flushed and discarded, and root writes files of
 * its own to what becomes free.
 *
 * Every sector of 512 bytes says whose it is (stamp.h). The first three
 * quarters of the device are protected: operations there keep the content
 * (they share, move or exchange blocks), and each sector holds what the device
 * wrote last. The rest is sacrificed. Nothing of another's may be read
 * anywhere, and root's files must stay what they are. The device may report
 * EIO only where the image was cut.
 *
 * Between bursts the adversaries close what counts as an opener, until the
 * image is mapped again, if it is to be at all. -a uncounted: descriptors of
 * modes 3 and O_PATH only. -W: how long an operation may take.
 */
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <linux/falloc.h>

#include "adversary/adversary.h"

uint64_t run;
struct arena *arena;
struct place place;
const char *device, *image;
char sysfs[256], dir[200], home[256], home_image[280];
uint64_t seed = 1;
ino_t image_ino;
unsigned int fs_kind, sector_size, nr_ops;
int mount_fd, outboxes[ADVERSARIES];

static const char * const accesses[] = { "3", "0", "1", "2", "path" };
static const char * const hows[] = {
	"plain", "reopened", "received", "io_uring", "overlay",
};
static const char * const names[] = { "owner", "other", "container root" };
static struct adversary advs[ADVERSARIES];
static pid_t parent;
static double began;
static struct op ops[OPS_MOST];
static unsigned int patience = 120;
static uint64_t silent_ops;	/* of which the VFS tells no lease */
static bool uncounted_only, wants_mapping;
static unsigned long bursts, rounds;
static double waited;
static uint64_t ios[2];	/* mapped, by the file */

/* What they have mounted and open goes with them. */
__attribute__((noreturn))
static void end_now(void)
{
	unsigned int i;

	for (i = 0; i < ADVERSARIES; i++)
		if (advs[i].pid > 0)
			kill(advs[i].pid, SIGKILL);
	for (i = 0; i < ADVERSARIES; i++)
		if (advs[i].pid > 0)
			waitpid(advs[i].pid, NULL, 0);
	_exit(1);
}

/* Say what is wrong, and end all of it. */
__attribute__((format(printf, 1, 2), noreturn))
void fail(const char *fmt, ...)
{
	va_list ap;

	if (atomic_exchange(&arena->failed, true))
		for (;;)
			pause();
	printf("ADVERSARY FAILED after %.1f s: ", seconds() - began);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (seed %ju, after %lu operations)\n", (uintmax_t)seed,
	       arena->operations);
	fflush(stdout);
	if (getpid() == parent)
		end_now();
	_exit(1);
}

struct task *task_new(const char *name, unsigned int id)
{
	struct task *t = &arena->tasks[atomic_fetch_add(&arena->nr_tasks, 1)];

	task_begin(t, name, id);
	return t;
}

/* The adversaries */

const char *op_name(unsigned int op)
{
	return ops[op].name;
}

unsigned int op_weight(unsigned int op)
{
	return ops[op].weight;
}

static void count(struct adversary *a, unsigned int op, int err)
{
	struct count *c = &arena->counts[op][a->d->access];

	arena->by_how[a->d->how][!a->d->before][!!err]++;
	arena->by_whom[a->id][!!err]++;
	arena->operations++;
	if (err) {
		c->refused++;
		c->last = -err;
	} else {
		c->ok++;
		arena->granted++;
	}
}

static struct desc *some_descriptor(struct adversary *a, enum gate gate)
{
	struct desc *d = &a->slots[below(&a->r, SLOTS)];

	/* To open the image would break the lease. */
	if (gate == UNCOUNTED)
		return d->used && !is_counted(d) ? d : NULL;
	if (d->used && !below(&a->r, 6))
		descriptor_release(a, d);
	if (!d->used)
		descriptor_obtain(a, d, false, gate);
	return d->used ? d : NULL;
}

static void act(struct adversary *a, enum gate gate)
{
	struct desc *d = some_descriptor(a, gate);
	bool installed;
	unsigned int i;
	int fd, err;

	if (!d)
		return;
	a->d = d;
	i = pick_op(&a->r, arena->ops);
	if (i == nr_ops)
		return;
	doing(a->task, ops[i].name);
	fd = descriptor_of(a, d, &installed);
	err = ops[i].run(a, fd);
	if (installed)
		close(fd);
	arena->took[i] += (unsigned long)(1e6 * (seconds() - a->task->since));
	a->task->doing = NULL;
	if (err != NOT_TRIED)
		count(a, i, err);
}

static void obtain_all(struct adversary *a)
{
	unsigned int i;

	doing(a->task, "obtaining descriptors");
	for (i = 0; i < SLOTS; i++) {
		descriptor_release(a, &a->slots[i]);
		descriptor_obtain(a, &a->slots[i], true, ANY);
	}
	/* From one, so that there is something to receive */
	for (i = 0; i < SLOTS; i++)
		if (a->slots[i].used && a->slots[i].fd >= 0 &&
		    !a->slots[i].lower)
			send_fd(outboxes[i % ADVERSARIES], a->slots[i].fd);
	a->task->doing = NULL;
}

/* Only what isn't counted is kept; and there is some of it. */
static void be_quiet(struct adversary *a)
{
	unsigned int i;

	doing(a->task, "being quiet");
	for (i = 0; i < SLOTS; i++) {
		struct desc *d = &a->slots[i];

		if (is_counted(d) || (d->access == PATH && below(&a->r, 2)))
			descriptor_release(a, d);
		if (!d->used && below(&a->r, 2))
			descriptor_obtain(a, d, false, UNCOUNTED);
	}
	a->task->doing = NULL;
}

static void attack(struct adversary *a)
{
	unsigned long obtained = 0;
	bool quiet = false;
	enum gate gate;

	for (;;) {
		arena->busy++;
		gate = (enum gate)arena->gate;
		if (arena->leaving)
			break;
		if (gate == OBTAIN && obtained < arena->round) {
			obtain_all(a);
			obtained = arena->round;
			quiet = false;
			arena->ready++;
		} else if (gate == UNCOUNTED || gate == ANY) {
			act(a, gate);
			quiet = false;
			arena->busy--;
			continue;
		}
		/* Others may have been busy with sending. */
		if (gate == CLOSED)
			inbox_drain(a);
		if (gate == CLOSED && !quiet) {
			be_quiet(a);
			quiet = true;
		}
		arena->busy--;
		usleep(1000);
	}
	doing(a->task, "the last look at its own file");
	donor_check(&a->donor, a->buf, 0, DONOR_BLOCKS);
	a->task->doing = NULL;
}

/* Uids of a namespace: its root is the image's owner. */
static void write_map(pid_t pid, const char *which)
{
	static const char map[] = "0 1000 1\n1 2000 100\n";
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, sizeof(map) - 1) != sizeof(map) - 1)
		fail("%s: %s", path, strerror(errno));
	close(fd);
}

static void become(struct adversary *a)
{
	uid_t uid = a->id == 1 ? OTHER : OWNER;
	char byte = 0;

	if (setgroups(0, NULL) || setresgid(uid, uid, uid) ||
	    setresuid(uid, uid, uid))
		fail("%s: %s", a->name, strerror(errno));
	/* So that /proc/self is its own */
	prctl(PR_SET_DUMPABLE, 1);
	if (a->id != 2)
		return;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		fail("unshare: %s", strerror(errno));
	if (write(a->to_parent, &byte, 1) != 1 ||
	    read(a->from_parent, &byte, 1) != 1)
		fail("the parent is gone");
	if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
		fail("root of a namespace: %s", strerror(errno));
}

__attribute__((noreturn))
static void child(struct adversary *a)
{
	signal(SIGIO, SIG_IGN);
	become(a);
	/* Forgotten with every change of credentials */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	a->r.state = mix(seed * 100 + 200 + a->id);
	a->task = task_new(a->name, a->id);
	a->buf = aligned(BUF);
	a->other = aligned(BUF);
	donor_begin(a);
	descriptors_begin(a);
	arena->ready++;
	attack(a);
	exit(0);
}

static void start(struct adversary *a, unsigned int id, int inbox)
{
	int down[2], up[2];
	char byte;

	a->id = id;
	a->name = names[id];
	a->inbox = inbox;
	if (pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	a->from_parent = down[0];
	a->to_parent = up[1];
	fflush(stdout);
	a->pid = fork();
	if (a->pid < 0)
		fail("fork: %s", strerror(errno));
	if (!a->pid)
		child(a);
	close(down[0]);
	close(up[1]);
	if (id == 2 && read(up[0], &byte, 1) == 1) {
		write_map(a->pid, "uid_map");
		write_map(a->pid, "gid_map");
		if (write(down[1], &byte, 1) != 1)
			fail("%s is gone", a->name);
	}
}

/* A child ends early only if it has said why, or was killed. */
static void look_after_children(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid > 0 && !arena->leaving && !arena->failed)
		fail("process %d ended with status %#x", pid, status);
}

/* The parent */

static void *watchdog_thread(void *arg)
{
	int i;

	(void)arg;
	for (;;) {
		double now = seconds();

		if (arena->failed) {
			usleep(300000);
			end_now();
		}
		for (i = 0; i < arena->nr_tasks; i++) {
			struct task *t = &arena->tasks[i];
			const char *what = t->doing;

			if (!what || now - t->since < patience)
				continue;
			say_stack(t);
			fail("%s: %s: hangs for %.0f s", t->name, what,
			     now - t->since);
		}
		usleep(200000);
	}
	return NULL;
}

static void set_mapping(const char *value)
{
	if (write_attr("mapping", value))
		fail("%s/mapping can't be set to %s", sysfs, value);
}

/*
 * What is shared is not mapped: on xfs, as long as the inode has the flag. It
 * loses it once nothing is shared, and nothing dirty.
 */
static void unshare_image(void)
{
	off_t len = (off_t)(place.size + TAIL);
	int fd;

	if (fs_kind != FS_XFS)
		return;
	fd = open(image, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("%s: %s", image, strerror(errno));
	fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, len);
	syncfs(fd);
	fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, len);
	close(fd);
}

static bool is_mapped(uint64_t enough)
{
	return read_attr("mapped") && read_stat("mapped_bytes") >= enough;
}

static void say_why_not(void)
{
	char path[300], buf[128] = "?";
	int fd;

	snprintf(path, sizeof(path), "%s/mapped_reason", sysfs);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0)
		buf[strcspn(buf, "\n")] = 0;
	close(fd);
	printf("not mapped: %s (%ju bytes)\n", buf,
	       (uintmax_t)read_stat("mapped_bytes"));
}

static bool wait_mapped(uint64_t enough)
{
	double begin = seconds(), ask = begin + 0.1, now;

	if (!wants_mapping)
		return false;

	while ((now = seconds()) < begin + 3 && !is_mapped(enough)) {
		look_after_children();
		if (now > ask) {
			unshare_image();
			/* It waits longer and longer; from the start not. */
			if (!read_attr("mapped")) {
				set_mapping("0");
				set_mapping("1");
			}
			ask = now + 1;
		}
		usleep(3000);
	}
	waited += now - begin;
	if (!is_mapped(enough))
		say_why_not();
	return is_mapped(enough);
}

static void close_gate(void)
{
	arena->gate = CLOSED;
	while (arena->busy > 0) {
		look_after_children();
		usleep(500);
	}
}

/* One thing; through what isn't counted, rather one that was ever granted */
static uint64_t one_op(struct rng *r, enum gate gate, uint64_t allowed)
{
	unsigned int i, tries;

	for (tries = 0; tries < 8; tries++) {
		i = pick_op(r, allowed);
		if (gate != UNCOUNTED || arena->counts[i][NEITHER].ok)
			break;
	}
	return 1ULL << i;
}

/* Let them do what they like for a while, or one thing again and again. */
static void burst(struct rng *r, enum gate gate, uint64_t allowed)
{
	uint64_t silent = allowed & silent_ops;
	/* Without an opener the image stays mapped meanwhile. */
	uint64_t number = 1 + below(r, gate == UNCOUNTED ? 600 : 100);
	unsigned long most = arena->granted + number;
	unsigned long end = arena->operations + 4 * number;
	double begin = seconds();

	/* Mostly what needs no open and breaks no delegation */
	if (gate == UNCOUNTED && silent && below(r, 4))
		allowed = silent;
	arena->ops = below(r, 3) ? allowed : one_op(r, gate, allowed);
	arena->gate = (int)gate;
	while (arena->granted < most && arena->operations < end &&
	       seconds() < begin + 2) {
		look_after_children();
		usleep(1000);
	}
	close_gate();
	bursts++;
}

/* With time for what is stale to be found, before anybody opens the image */
static void mapped_burst(struct rng *r, uint64_t allowed)
{
	uint64_t enough;
	double begin;
	enum gate gate = uncounted_only || below(r, 2) ? UNCOUNTED : ANY;

	wait_mapped(below(r, 4) ? place.size / 4 : below(r, 2));
	enough = read_stat("ios_mapped") + below(r, 40);
	for (begin = seconds(); seconds() < begin + 0.2;) {
		if (read_stat("ios_mapped") >= enough)
			break;
		usleep(1000);
	}
	burst(r, gate, allowed);
	if (below(r, 2))
		usleep((useconds_t)below(r, 150000));
}

/* Detached to detached: 4 seconds or so */
static void round_of(struct rng *r, uint64_t allowed)
{
	double until = seconds() + 4;

	arena->ready = 0;
	arena->round++;
	arena->gate = OBTAIN;
	while (arena->ready < ADVERSARIES) {
		look_after_children();
		usleep(1000);
	}
	arena->ops = allowed;
	if (!uncounted_only && below(r, 2))
		arena->gate = ANY;
	device_attach();
	arena->attached = true;
	wants_mapping = read_attr("mapping");
	/* With what was obtained before, and is still there */
	if (!uncounted_only && below(r, 2))
		arena->gate = ANY;
	usleep((useconds_t)below(r, 30000));
	close_gate();
	device_capacity();
	rounds++;
	do {
		mapped_burst(r, allowed);
	} while (seconds() < until);
	ios[0] += read_stat("ios_mapped");
	ios[1] += read_stat("ios_file");
	device_detach();
	arena->attached = false;
}

static void report(double took)
{
	unsigned int i, j;

	printf("seed %ju: %.1f s: %lu operations, %lu granted (%.0f a second) in %lu bursts, attached %lu times; mapped I/O %ju, by the file %ju\n",
	       (uintmax_t)seed, took, arena->operations, arena->granted,
	       (double)arena->operations / took, bursts, rounds,
	       (uintmax_t)ios[0], (uintmax_t)ios[1]);
	printf("the device: %lu reads, %lu writes, %lu flushes, %lu discards; %lu cut short, by right; root wrote %lu MiB; a page was older for a moment %lu times; no space at once: %lu times; waited %.1f s\n",
	       reads, writes, flushes, discards, cut_short, kept_bytes >> 20,
	       arena->stale, no_space, waited);
	printf("done/refused by descriptors, obtained before and after:\n");
	for (i = 0; i < HOWS; i++)
		printf("  %-10s %lu/%lu %lu/%lu\n", hows[i],
		       arena->by_how[i][0][0], arena->by_how[i][0][1],
		       arena->by_how[i][1][0], arena->by_how[i][1][1]);
	for (i = 0; i < ADVERSARIES; i++)
		printf("%s %lu/%lu%s", names[i], arena->by_whom[i][0],
		       arena->by_whom[i][1], i < 2 ? ", " : "\n");
	printf("overlays: %lu mounted, %lu refused\n", arena->mounts[0],
	       arena->mounts[1]);
	printf("done/refused by access mode:\n  %-13s", "");
	for (j = 0; j < ACCESSES; j++)
		printf("%14s", accesses[j]);
	puts("       ms  last error");
	for (i = 0; i < nr_ops; i++) {
		int last = 0;

		printf("  %-13s", ops[i].name);
		for (j = 0; j < ACCESSES; j++) {
			struct count *c = &arena->counts[i][j];
			char text[32];

			snprintf(text, sizeof(text), "%lu/%lu", c->ok,
				 c->refused);
			printf("%14s", text);
			last = c->last ? c->last : last;
		}
		printf("%9lu  %s\n", arena->took[i] / 1000,
		       last ? strerrorname_np(last) : "");
	}
	fflush(stdout);
}

/* What must have happened, or such a run shows nothing */
static const struct {
	const char *op;
	enum access access;
} demands[] = {
	{ "advise", NEITHER }, { "dedupe", NEITHER }, { "dedupe", RDWR },
	{ "exchange", RDWR }, { "clone", RDWR }, { "move", RDWR },
	{ "ftruncate", RDWR }, { "hole", RDWR }, { "write-direct", RDWR },
	{ "chmod", PATH }, { "read", RDONLY },
};

static uint64_t op_bit(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_ops; i++)
		if (!strcmp(ops[i].name, name))
			return 1ULL << i;
	return 0;
}

/* The first that has not, or -1 */
static int unmet(uint64_t allowed)
{
	unsigned int i;

	for (i = 0; i < sizeof(demands) / sizeof(*demands); i++) {
		uint64_t bit = allowed & op_bit(demands[i].op);
		enum access access = demands[i].access;

		if (uncounted_only && access != NEITHER && access != PATH)
			continue;
		if (bit && !arena->counts[__builtin_ctzll(bit)][access].ok)
			return (int)i;
	}
	return -1;
}

static void demand_all(uint64_t allowed)
{
	int i = unmet(allowed);

	if (i >= 0)
		fail("no %s through a descriptor of mode %s was granted: such a run shows nothing",
		     demands[i].op, accesses[demands[i].access]);
	if (wants_mapping && !ios[0])
		fail("nothing was mapped: such a run shows nothing");
}

static void add_ops(const struct op *list)
{
	for (; list->name; list++)
		if (!list->where || list->where & fs_kind) {
			silent_ops |= (uint64_t)!list->loud << nr_ops;
			ops[nr_ops++] = *list;
		}
}

static void *shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory");
	return p;
}

static void own_dir(const char *path, uid_t uid, mode_t mode)
{
	if ((mkdir(path, 0700) && errno != EEXIST) || chown(path, uid, uid) ||
	    chmod(path, mode))
		die("%s: %s", path, strerror(errno));
}

/* The places of the image, and what is shared about them */
static void begin_image(uint64_t size)
{
	uint64_t rest, i;

	place.size = size / CHUNK * CHUNK;
	place.prot = place.size / 4 * 3 / CHUNK * CHUNK;
	rest = (place.size - place.prot) / 3 / CHUNK * CHUNK;
	place.cut = place.prot + rest;
	place.cached = place.cut + rest;
	if (rest < 2 * CHUNK)
		die("too small a device");
	arena = shared(sizeof(*arena));
	arena->done = shared(place.prot / SECTOR * sizeof(*arena->done));
	arena->issued = shared(place.prot / SECTOR * sizeof(*arena->issued));
	arena->taken = shared(place.prot / CHUNK * sizeof(*arena->taken));
	for (i = 0; i < place.prot / SECTOR; i++)
		arena->done[i] = arena->issued[i] = 2;
}

static void find_out(void)
{
	const char *slash = strrchr(image, '/');
	char path[280];
	struct statfs fs;
	struct stat st;

	if (!slash)
		die("%s: not a whole path", image);
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - image), image);
	snprintf(home, sizeof(home), "%s/home", dir);
	snprintf(home_image, sizeof(home_image), "%s/image", home);
	snprintf(sysfs, sizeof(sysfs), "/sys/block/%s/loop",
		 strrchr(device, '/') + 1);
	mount_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0 || fstatfs(mount_fd, &fs) || stat(image, &st))
		die("%s: %s", image, strerror(errno));
	fs_kind = fs.f_type == 0xef53 ? FS_EXT4 : FS_XFS;
	/* What is shared takes whole blocks only. */
	sector_size = fs_kind == FS_XFS ? BLOCK : SECTOR;
	image_ino = st.st_ino;
	own_dir(home, OWNER, 0777);
	snprintf(path, sizeof(path), "%s/work", dir);
	own_dir(path, OWNER, 0777);
	snprintf(path, sizeof(path), "%s/root", dir);
	own_dir(path, 0, 0700);
	unlink(home_image);
	if (link(image, home_image))
		die("%s: %s", home_image, strerror(errno));
	begin_image((uint64_t)st.st_size - TAIL);
}

static void start_all(void)
{
	int boxes[ADVERSARIES][2];
	unsigned int i;

	for (i = 0; i < ADVERSARIES; i++) {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, boxes[i]))
			fail("socketpair: %s", strerror(errno));
		outboxes[i] = boxes[i][1];
	}
	for (i = 0; i < ADVERSARIES; i++)
		start(&advs[i], i, boxes[i][0]);
	while (arena->ready < ADVERSARIES) {
		look_after_children();
		usleep(1000);
	}
}

static void end_all(void)
{
	unsigned int i;

	arena->leaving = true;
	for (i = 0; i < ADVERSARIES; i++) {
		int status;

		if (waitpid(advs[i].pid, &status, 0) != advs[i].pid || status)
			fail("%s ended with status %#x", names[i], status);
	}
}

static bool is_over(double begin, double limit, uint64_t most, uint64_t allowed)
{
	double took = seconds() - begin;

	if (took < limit && arena->operations < most)
		return false;
	/* A slow machine takes longer to show anything. */
	return unmet(allowed) < 0 || took > 8 * limit;
}

static void run_all(double limit, uint64_t most, uint64_t allowed)
{
	pthread_t watchdog, vulture;
	double begin = seconds();
	struct rng r = { mix(seed * 100 + 55) };

	pthread_create(&watchdog, NULL, watchdog_thread, NULL);
	pthread_create(&vulture, NULL, vulture_thread, task_new("vulture", 0));
	while (!is_over(begin, limit, most, allowed)) {
		uint64_t late = 0;

		if (seconds() > begin + limit || arena->operations >= most)
			late = op_bit(demands[unmet(allowed)].op);
		round_of(&r, late ? late : allowed);
	}
	arena->stopping = true;
	pthread_join(vulture, NULL);
	end_all();
	last_look(image, place.prot, arena->done, aligned(CHUNK));
	report(seconds() - begin);
	demand_all(allowed);
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"adversary -i [-s SEED] IMAGE SIZE\n"
		"adversary [-s SEED] [-t SECONDS] [-n OPERATIONS] [-k OP,OP..] [-K OP,OP..] [-a uncounted] [-W SECONDS] DEVICE IMAGE";
	char *only = NULL, *without = NULL;
	uint64_t most = UINT64_MAX, allowed;
	double limit = 20;
	bool init = false;
	int opt;

	while ((opt = getopt(argc, argv, "is:t:n:k:K:a:W:")) != -1) {
		switch (opt) {
		case 'i': init = true; break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 't': limit = atof(optarg); break;
		case 'n': most = strtoull(optarg, NULL, 0); break;
		case 'k': only = optarg; break;
		case 'K': without = optarg; break;
		case 'a': uncounted_only = true; break;
		case 'W': patience = (unsigned int)atoi(optarg); break;
		default: die("%s", usage);
		}
	}
	if (optind + 2 != argc)
		die("%s", usage);
	run = mix(seed);
	if (init) {
		image = argv[optind];
		begin_image(bytes(argv[optind + 1]));
		prepare_image(image, place.prot, place.size, aligned(CHUNK));
		if (chown(image, OWNER, OWNER))
			die("%s: %s", image, strerror(errno));
		return 0;
	}
	device = argv[optind];
	image = argv[optind + 1];
	find_out();
	add_ops(remap_ops);
	add_ops(space_ops);
	add_ops(attr_ops);
	add_ops(misc_ops);
	allowed = (1ULL << nr_ops) - 1;
	if (only)
		allowed &= parse_ops(only);
	if (without)
		allowed &= ~parse_ops(without);
	if (!allowed)
		die("adversary: none of these operations can be had here");
	parent = getpid();
	began = seconds();
	start_all();
	run_all(limit, most, allowed);
	return 0;
}
