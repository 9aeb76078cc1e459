/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "pins.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bpf/bpf.h>

static const char program_pin[] = "forward";
static const char drainer_pin[] = "queue_drainer";
static const char wakes_pin[] = "queue_wakes";
static const char cpus_pin[] = "queue_cpus";

enum {
	WAKE_RING_BYTES = 4096,
};

static bool pin_path(char *path, const char *folder, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static int pin_open(const char *folder, const char *name)
{
	char path[PATH_MAX];
	int fd;

	if (!pin_path(path, folder, name)) {
		fprintf(stderr, "mrc-drainer: %s: path too long\n", folder);
		return -1;
	}
	fd = bpf_obj_get(path);
	if (fd < 0)
		fprintf(stderr, "mrc-drainer: cannot open the pin %s: %s\n", path, strerror(errno));
	return fd;
}

/* Checks that the map of drainers is of this build and has an element for this one. */
static bool check_map(int fd, unsigned index, struct bpf_map_info *info)
{
	__u32 info_bytes = sizeof(*info);

	if (bpf_obj_get_info_by_fd(fd, info, &info_bytes)) {
		fprintf(stderr, "mrc-drainer: cannot get the info of map %s: %s\n", drainer_pin,
			strerror(errno));
		return false;
	}
	if (info->value_size != sizeof(struct mrc_queue_drainer)) {
		fprintf(stderr,
			"mrc-drainer: map %s has elements of %u bytes, this program expects %zu: "
			"the BPF objects and the drainer are of different builds\n",
			drainer_pin, info->value_size, sizeof(struct mrc_queue_drainer));
		return false;
	}
	if (index < info->max_entries)
		return true;
	fprintf(stderr, "mrc-drainer: the lab has %u drainers, numbered from 0: there is no %u\n",
		info->max_entries, index);
	return false;
}

/*
 * Two drainers would take each other's frames. A bound name in the abstract socket space is held by
 * one process at a time and goes with it, however it ends; the map's id names the lab.
 */
static int claim_map(__u32 map_id, unsigned index)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int name_bytes = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
				  "mrc-drainer/map/%u/%u", map_id, index);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address,
			     offsetof(struct sockaddr_un, sun_path) + 1 + name_bytes))
		return fd;
	if (errno == EADDRINUSE)
		fprintf(stderr, "mrc-drainer: another process drains this lab\n");
	else
		fprintf(stderr, "mrc-drainer: cannot claim the lab: %s\n", strerror(errno));
	return -1;
}

static struct mrc_queue_drainer *map_drainer(int fd, unsigned index, unsigned count)
{
	struct mrc_queue_drainer *drainers = mmap(NULL, count * sizeof(struct mrc_queue_drainer),
						  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (drainers == MAP_FAILED) {
		fprintf(stderr, "mrc-drainer: cannot map %s: %s\n", drainer_pin, strerror(errno));
		return NULL;
	}
	return drainers + index;
}

/* Makes the ring that wakes this drainer known. Returns its descriptor, or -1. */
static int make_wake_ring(const char *folder, __u32 index)
{
	int wakes_fd = pin_open(folder, wakes_pin), fd;
	bool is_known;

	if (wakes_fd < 0)
		return -1;
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "queue_wake", 0, 0, WAKE_RING_BYTES, NULL);
	is_known = fd >= 0 && !bpf_map_update_elem(wakes_fd, &index, &fd, BPF_ANY);
	if (!is_known)
		fprintf(stderr, "mrc-drainer: cannot make the wake-up ring: %s\n", strerror(errno));
	close(wakes_fd);
	return is_known ? fd : -1;
}

/*
 * The program knows several drainers by their CPUs, so each keeps to one: that of its number among
 * those it may run on.
 */
static bool keep_to_cpu(const char *folder, __u32 index)
{
	int cpus_fd = pin_open(folder, cpus_pin), error;
	cpu_set_t allowed, own;
	__u32 cpu, left = index;

	if (cpus_fd < 0)
		return false;
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		CPU_ZERO(&allowed);
	if (index >= (unsigned)CPU_COUNT(&allowed)) {
		fprintf(stderr, "mrc-drainer: %d CPUs to run on, too few for drainer %u\n",
			CPU_COUNT(&allowed), index);
		close(cpus_fd);
		return false;
	}
	for (cpu = 0; !CPU_ISSET(cpu, &allowed) || left; cpu++)
		left -= CPU_ISSET(cpu, &allowed) != 0;
	CPU_ZERO(&own);
	CPU_SET(cpu, &own);
	error = bpf_map_update_elem(cpus_fd, &cpu, &index, BPF_ANY) ||
		sched_setaffinity(0, sizeof(own), &own);
	if (error)
		fprintf(stderr, "mrc-drainer: cannot keep to CPU %u: %s\n", cpu, strerror(errno));
	close(cpus_fd);
	return !error;
}

static int watch_folder(const char *folder)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0 ||
	    inotify_add_watch(fd, folder, IN_DELETE | IN_DELETE_SELF | IN_MOVED_FROM) < 0) {
		fprintf(stderr, "mrc-drainer: cannot watch %s: %s\n", folder, strerror(errno));
		return -1;
	}
	return fd;
}

bool pins_open(struct pins *pins, const char *folder, unsigned index)
{
	struct bpf_map_info info = {0};
	int drainer_fd;

	pins->folder = folder;
	/* watched first, so that a pin removed while the others are opened is noticed */
	pins->watch_fd = watch_folder(folder);
	if (pins->watch_fd < 0)
		return false;
	pins->program_fd = pin_open(folder, program_pin);
	drainer_fd = pin_open(folder, drainer_pin);
	if (pins->program_fd < 0 || drainer_fd < 0)
		return false;
	if (!check_map(drainer_fd, index, &info))
		return false;
	pins->claim_fd = claim_map(info.id, index);
	if (pins->claim_fd < 0)
		return false;
	pins->drainer = map_drainer(drainer_fd, index, info.max_entries);
	close(drainer_fd);
	pins->wake_fd = make_wake_ring(folder, index);
	return pins->drainer && pins->wake_fd >= 0 &&
	       (info.max_entries == 1 || keep_to_cpu(folder, index));
}

bool pins_remain(struct pins *pins)
{
	char events[4096];
	char path[PATH_MAX];

	/* which event it was does not matter, only what is there now */
	while (read(pins->watch_fd, events, sizeof(events)) > 0)
		;
	return pin_path(path, pins->folder, program_pin) && access(path, F_OK) == 0;
}
