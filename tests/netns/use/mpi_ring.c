// SPDX-License-Identifier: Apache-2.0
/* `mpi_ring [ROUNDS]`: a ring of sends and receives, all-reduces, and puts, gets and sums of one side, of 4 B to
 * 1 MiB, on every rank; every value is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES_MAX = 1 << 20, NUMBERS_MAX = BYTES_MAX / sizeof(int) };

static int rank, size, wrong;

static void pass_on(int *out, int *in, int numbers)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;

	for (int i = 0; i < numbers; i++)
		out[i] = rank * 1000003 + i;
	if (rank % 2) {
		MPI_Recv(in, numbers, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, numbers, MPI_INT, next, 1, MPI_COMM_WORLD);
	} else {
		MPI_Send(out, numbers, MPI_INT, next, 1, MPI_COMM_WORLD);
		MPI_Recv(in, numbers, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	for (int i = 0; i < numbers; i++)
		wrong += in[i] != previous * 1000003 + i;
}

static void reduce(int *out, int *in, int numbers)
{
	for (int i = 0; i < numbers; i++)
		out[i] = rank + i;
	MPI_Allreduce(out, in, numbers, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < numbers; i++)
		wrong += in[i] != size * (size - 1) / 2 + size * i;
}

static void reach_over(int *mine, int *in, int numbers)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	MPI_Win window;

	for (int i = 0; i < numbers; i++)
		in[i] = mine[i] = rank + i;
	MPI_Win_create(mine, BYTES_MAX, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	MPI_Accumulate(in, numbers, MPI_INT, next, 0, numbers, MPI_INT, MPI_SUM, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < numbers; i++)
		wrong += mine[i] != rank + previous + 2 * i;
	MPI_Win_fence(0, window);
	MPI_Put(in, numbers, MPI_INT, next, 0, numbers, MPI_INT, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < numbers; i++)
		wrong += mine[i] != previous + i;
	MPI_Get(in, numbers, MPI_INT, next, 0, numbers, MPI_INT, window);
	MPI_Win_fence(0, window);
	MPI_Win_free(&window);
	for (int i = 0; i < numbers; i++)
		wrong += in[i] != rank + i;
}

int main(int argc, char **argv)
{
	int *out = malloc(BYTES_MAX), *in = malloc(BYTES_MAX), all, rounds = argc > 1 ? atoi(argv[1]) : 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	while (rounds--)
		for (int numbers = 1; numbers <= NUMBERS_MAX; numbers *= 8) {
			pass_on(out, in, numbers);
			reduce(out, in, numbers);
			reach_over(out, in, numbers);
		}
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %d wrong\n", size, all);
	MPI_Finalize();
	return all != 0;
}
