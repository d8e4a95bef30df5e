// Started by mpirun. With SHARDSOLVE_TEST_OWN_MPI the program starts MPI itself, and the mesh is
// made of a communicator that numbers the processes the other way round.

#include "mpi/processes.hpp"

#include <gtest/gtest.h>

#include <mpi.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool own_mpi = std::getenv("SHARDSOLVE_TEST_OWN_MPI") != nullptr;
  MPI_Comm reversed = MPI_COMM_NULL;
  if (own_mpi) {
    int level = 0;
    int rank = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    shardsolve::testing::test_communicator() = MPI_Comm_c2f(reversed);
  }
  const int result = RUN_ALL_TESTS();
  if (own_mpi) {
    MPI_Comm_free(&reversed);
    MPI_Finalize();
  }
  return result;
}
