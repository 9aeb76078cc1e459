// SPDX-License-Identifier: Apache-2.0
/*
 * A program that is not linked with libibverbs: it loads it as NCCL does, by whichever name there is, and
 * looks each function up with its version. Without an argument it opens the device and prints what it is;
 * with one it loads that library, which only its RUNPATH leads to, and calls it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void *library;
static int missing;

static void *function(const char *name, const char *version)
{
	void *found = dlvsym(library, name, version);

	if (!found) {
		printf("%s@%s is missing\n", name, version);
		missing = 1;
	}
	return found;
}

#define LOAD(name) __typeof__(name) *name##_ = (__typeof__(name) *)function(#name, "IBVERBS_1.1")
/* A macro of the header has the name of each of these. */
#undef ibv_query_port
#undef ibv_reg_mr

static int open_device(void)
{
	/* In the order of NCCL's loader. */
	LOAD(ibv_get_device_list);
	LOAD(ibv_free_device_list);
	LOAD(ibv_get_device_name);
	LOAD(ibv_open_device);
	LOAD(ibv_close_device);
	LOAD(ibv_query_device);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *) =
		(int (*)(struct ibv_context *, uint8_t, struct ibv_port_attr *))function("ibv_query_port",
											 "IBVERBS_1.1");
	LOAD(ibv_query_gid);
	LOAD(ibv_alloc_pd);
	LOAD(ibv_dealloc_pd);
	LOAD(ibv_create_cq);
	LOAD(ibv_destroy_cq);
	LOAD(ibv_event_type_str);
	static const char *const others[][2] = {
		{"ibv_get_async_event", "IBVERBS_1.1"},	 {"ibv_ack_async_event", "IBVERBS_1.1"},
		{"ibv_query_qp", "IBVERBS_1.1"},	 {"ibv_reg_mr", "IBVERBS_1.1"},
		{"ibv_reg_mr_iova2", "IBVERBS_1.8"},	 {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
		{"ibv_dereg_mr", "IBVERBS_1.1"},	 {"ibv_create_qp", "IBVERBS_1.1"},
		{"ibv_modify_qp", "IBVERBS_1.1"},	 {"ibv_destroy_qp", "IBVERBS_1.1"},
		{"ibv_fork_init", "IBVERBS_1.1"},	 {"ibv_create_comp_channel", "IBVERBS_1.0"},
		{"ibv_query_ece", "IBVERBS_1.10"},	 {"ibv_set_ece", "IBVERBS_1.10"},
	};
	struct ibv_device **list;
	struct ibv_device_attr device;
	struct ibv_context *nic;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	int count;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		function(others[i][0], others[i][1]);
	if (missing)
		return 1;
	list = ibv_get_device_list_(&count);
	printf("%d device\n", count);
	if (!count)
		return 1;
	nic = ibv_open_device_(list[0]);
	printf("%s\n", ibv_get_device_name_(list[0]));
	ibv_free_device_list_(list);
	if (!nic || ibv_query_device_(nic, &device) || query_port(nic, 1, &port) || ibv_query_gid_(nic, 1, 0, &gid))
		return 1;
	printf("port %s, gid of %d bytes\n", port.state == IBV_PORT_ACTIVE ? "active" : "down", (int)sizeof(gid));
	pd = ibv_alloc_pd_(nic);
	cq = ibv_create_cq_(nic, 16, NULL, NULL, 0);
	if (!pd || !cq || ibv_destroy_cq_(cq) || ibv_dealloc_pd_(pd) || ibv_close_device_(nic))
		return 1;
	printf("%s\n", ibv_event_type_str_(IBV_EVENT_PORT_ERR)); /* the genuine library's */
	return 0;
}

int main(int argc, char **argv)
{
	int (*number)(void);

	if (argc > 1) {
		library = dlopen(argv[1], RTLD_NOW);
		if (!library) {
			printf("%s\n", dlerror());
			return 1;
		}
		number = (int (*)(void))dlsym(library, "number");
		printf("%d\n", number());
		return 0;
	}
	library = dlopen("libibverbs.so", RTLD_NOW);
	if (!library)
		library = dlopen("libibverbs.so.1", RTLD_NOW);
	return library ? open_device() : 1;
}
