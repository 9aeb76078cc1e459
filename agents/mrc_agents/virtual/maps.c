// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Memory of the maps. Those of a NIC lie one after the other; entering a NIC points its maps there,
 * so that programs find them as if they were alone.
 */
#include <sys/mman.h>
#include "api.h"

enum {
	PAGE_BYTES = 4096,
	HUGE_BYTES = 2 << 20,
};

static struct virtual_map_entry *nic_maps[64];
static __u32 nic_map_count, nic_count, entered;

void *virtual_allocate(__u64 bytes)
{
	void *found = mmap(0, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (found == MAP_FAILED)
		return 0;
	if (bytes >= HUGE_BYTES)
		madvise(found, bytes, MADV_HUGEPAGE);
	return found;
}

void virtual_release(void *memory, __u64 bytes)
{
	if (memory)
		munmap(memory, bytes);
}

struct virtual_map_entry *virtual_find_map(const char *name)
{
	for (__u32 i = 0; i < virtual_map_count; i++)
		if (!strcmp(virtual_maps[i].name, name))
			return &virtual_maps[i];
	return 0;
}

int mrc_virtual_set_entries(const char *map, __u32 count)
{
	struct virtual_map_entry *entry = virtual_find_map(map);

	if (!entry)
		return -1;
	entry->count = count;
	return 0;
}

__u64 virtual_bytes_of(const struct virtual_map_entry *entry)
{
	return entry->instance_bytes * (entry->kind == VIRTUAL_NIC ? nic_count : 1);
}

static int make_maps(const struct mrc_virtual_lab *lab)
{
	nic_count = lab->nic_count;
	nic_map_count = 0;
	for (__u32 i = 0; i < virtual_map_count; i++) {
		struct virtual_map_entry *entry = &virtual_maps[i];
		struct virtual_map *map = entry->map;

		map->count = entry->count ? entry->count : entry->declared_count;
		map->stride = (entry->value_bytes + 7) & ~7U;
		if (!strcmp(entry->name, "queue_frames"))
			map->stride = virtual_frame_stride(map->stride, lab->payload);
		entry->instance_bytes =
		    ((__u64)map->count * map->stride + PAGE_BYTES - 1) & ~(__u64)(PAGE_BYTES - 1);
		entry->base = virtual_allocate(virtual_bytes_of(entry));
		if (!entry->base)
			return -1;
		/* Of each NIC's a few are used, at the beginning. */
		if (!strcmp(entry->name, "regions"))
			madvise(entry->base, virtual_bytes_of(entry), MADV_NOHUGEPAGE);
		map->base = entry->base;
		if (entry->kind == VIRTUAL_NIC)
			nic_maps[nic_map_count++] = entry;
	}
	entered = 0;
	return 0;
}

int mrc_virtual_begin(const struct mrc_virtual_lab *lab)
{
	virtual_now_ns = 1;
	virtual_set_config((const void *)lab->config, lab->config_bytes);
	if (make_maps(lab) || virtual_begin_payload(lab->payload) ||
	    virtual_begin_rates(lab->port_count)) {
		mrc_virtual_end();
		return -1;
	}
	virtual_begin_events(lab->seed, lab->shuffles_ties);
	virtual_begin_reports(lab->nic_count);
	virtual_begin_messages(lab->nic_count);
	virtual_begin_frames((const void *)lab->nic_of_port, lab->port_count);
	return 0;
}

void mrc_virtual_end(void)
{
	mrc_virtual_trace(0);
	virtual_end_rates();
	virtual_end_payload();
	virtual_end_frames();
	virtual_end_reports();
	virtual_end_messages();
	virtual_end_events();
	for (__u32 i = 0; i < virtual_map_count; i++) {
		struct virtual_map_entry *entry = &virtual_maps[i];

		virtual_release(entry->base, virtual_bytes_of(entry));
		memset(entry->map, 0, sizeof(*entry->map));
		entry->base = 0;
		entry->count = 0;
	}
}

int mrc_virtual_find_map(const char *name, __u32 nic, struct mrc_virtual_map *found)
{
	struct virtual_map_entry *entry = virtual_find_map(name);

	if (!entry || !entry->base || (entry->kind == VIRTUAL_NIC && nic >= nic_count))
		return -1;
	found->address =
	    (__u64)entry->base + (entry->kind == VIRTUAL_NIC ? entry->instance_bytes * nic : 0);
	found->type = entry->type;
	found->value_bytes = entry->value_bytes;
	found->count = entry->map->count;
	found->stride = entry->map->stride;
	return 0;
}

void virtual_enter_nic(__u32 nic)
{
	if (nic == entered)
		return;
	entered = nic;
	for (__u32 i = 0; i < nic_map_count; i++)
		nic_maps[i]->map->base = nic_maps[i]->base + nic_maps[i]->instance_bytes * nic;
}

__u32 virtual_entered_nic(void)
{
	return entered;
}
