// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A rank of benchmarks/launched.py: all-reduces by libmrc_coll; rank 0 prints bytes and the median
 * in ns. */
#include <mrc_coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS_MAX = 64, PORT = 7471, REPETITIONS = 60, TIMEOUT_MS = 60000, COUNT_MAX = 1 << 18 };

static float data[COUNT_MAX];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

static struct mrc_coll *connect_ranks(int rank, int size, int *ranks)
{
	const struct mrc_coll_options options = {.port = PORT};
	char why[256], *host = strtok(getenv("RANK_HOSTS"), ",");
	struct mrc_coll *coll = mrc_coll_open(rank, &options, why, sizeof(why));
	struct mrc_coll_peer peers[RANKS_MAX];

	for (int i = 0; i < size; i++, host = strtok(NULL, ",")) {
		ranks[i] = i;
		peers[i] = (struct mrc_coll_peer){i, host, PORT};
	}
	if (!coll || mrc_coll_connect(coll, peers, size, TIMEOUT_MS)) {
		fprintf(stderr, "%s\n", coll ? mrc_coll_error(coll) : why);
		exit(1);
	}
	return coll;
}

int main(void)
{
	const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
	int ranks[RANKS_MAX];
	struct mrc_coll *coll = connect_ranks(rank, size, ranks);
	struct mrc_coll_group *all = mrc_coll_group(coll, ranks, size, 1);
	int64_t times[REPETITIONS];
	struct mrc_coll_done done;
	uint64_t number = 0;

	for (size_t count = 1; count <= COUNT_MAX; count *= COUNT_MAX) {
		for (int i = 0; i < REPETITIONS; i++) {
			const int64_t began_ns = now_ns();

			if (mrc_coll_all_reduce(all, number++, data, count, MRC_COLL_F32,
						MRC_COLL_SUM, TIMEOUT_MS, 0))
				return 1;
			while (!mrc_coll_wait(coll, -1, &done))
				;
			if (done.failed) {
				fprintf(stderr, "%s\n", mrc_coll_error(coll));
				return 1;
			}
			times[i] = now_ns() - began_ns;
		}
		qsort(times, REPETITIONS, sizeof(*times), compare);
		if (!rank)
			printf("%zu %lld\n", count * sizeof(float),
			       (long long)times[REPETITIONS / 2]);
	}
	mrc_coll_close(coll);
	return 0;
}
