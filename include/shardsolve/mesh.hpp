/// The devices that work on one problem together.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/tile_table.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve {

/// Where a matrix lies: in memory of the host or of the GPUs of a mesh.
enum class Memory : std::uint8_t { host, device };

namespace mesh {
class MeshState;
}

/// How GPUs of different processes exchange data.
enum class GpuCommunicator : std::uint8_t {
  automatic,  ///< ipc where it can be had, else nccl
  ipc,        ///< copy engines, through CUDA IPC: all processes on one machine
  nccl        ///< kernels of NVIDIA's NCCL (2.13 or newer for CUDA 13), also between machines
};

/// What a mesh of processes with a GPU each is made of.
struct GpuProcesses {
  /// MPI_Comm_c2f of a communicator, copied; MPI_COMM_WORLD if none is given.
  std::optional<int> communicator;
  /// CUDA's numbers of the GPUs of this host, for the processes of the mesh on it in the order of
  /// their ranks. Empty: 0, 1, 2, ...; where a process sees one GPU only, that one.
  std::vector<int> devices;
  /// The same in all processes.
  GpuCommunicator path = GpuCommunicator::automatic;
};

/// A fixed set of ranks, each one device with its queues. Calls on one mesh run one after another,
/// also when several threads make them; results do not depend on the load of the machine. A mesh
/// keeps the workspace of its calls (see Plan) for the next ones, until it is destroyed.
class SHARDSOLVE_EXPORT Mesh {
 public:
  /// `ranks` CPU devices inside this process: each rank has a few threads of its own that sleep
  /// when there is nothing to do, so more ranks than cores is fine. Throws Error(invalid_argument)
  /// unless 1 <= ranks <= max_host_ranks, Error(device) if the system has not so many threads to
  /// spare.
  static Mesh host(std::int64_t ranks);
  static constexpr std::int64_t max_host_ranks = 64;
  /// One CPU device without threads of its own: calls compute in the thread that makes them, kernel
  /// by kernel, to the same bits as host(1). For small systems, which take less time than to wake
  /// other threads: up to about 500 rows.
  static Mesh serial();
  /// One rank on each of these GPUs, by CUDA's numbers (CUDA_VISIBLE_DEVICES renumbers them).
  /// Matrices then lie in their memory (device_memory.hpp). Throws Error(device) with the reason if
  /// the CUDA library of shardsolve, a driver that is new enough or one of the GPUs is not there,
  /// Error(invalid_argument) if one is listed twice or none is.
  static Mesh cuda(const std::vector<int>& devices);
  /// One rank in each process of an MPI program, a CPU device with the number that the process has
  /// in MPI. `communicator`: MPI_Comm_c2f of one, copied here; MPI_COMM_WORLD if none is given.
  ///
  /// All its processes call this, and then every function that takes the mesh, in the same order
  /// and with the same arguments but for the memory: matrices and right-hand sides have the slab of
  /// the rank that is here, the views of the others are empty (make_matrix of device_memory.hpp
  /// makes such). Outcomes, factors and errors are then the same in all processes, but for the
  /// seconds, which each counts itself.
  ///
  /// Starts MPI if the program has not, and ends it at the end of the process then. Threads of the
  /// mesh call MPI, one at a time and only while a call runs on the mesh: a program that starts MPI
  /// itself asks for MPI_THREAD_SERIALIZED at least, and for MPI_THREAD_MULTIPLE if other threads
  /// of it use MPI meanwhile. Destroying the mesh takes all processes too.
  ///
  /// A process that dies or stops is reported in the others (RunOptions::silence_limit, at least
  /// 0.2 s); later calls on the mesh then throw. After other failures it can be used again.
  ///
  /// Throws Error(device) if the MPI library of shardsolve or MPI is not there, Error(unsupported)
  /// if MPI was started with less than MPI_THREAD_SERIALIZED or has been ended.
  static Mesh mpi(std::optional<int> communicator = std::nullopt);

  /// One rank in each process of an MPI program, each on a GPU of its own, which becomes the
  /// current one of the calling thread. For the rest as mpi(), with matrices in the memory of GPUs
  /// as for cuda(); results are the same bits as those of cuda() with as many GPUs.
  ///
  /// GPUs reach each other's memory through CUDA IPC where all processes are on one machine, each
  /// sees the GPUs of all (CUDA_VISIBLE_DEVICES) and these have peer access; matrices then come
  /// from cudaMalloc, as make_matrix() takes it. Elsewhere NCCL is loaded (libnccl.so.2, at run
  /// time). Solves of one right-hand side are faster with IPC.
  ///
  /// Throws, the same in all processes, as mpi() does; Error(device) if one of them has no GPU of
  /// its own, or not what `path` needs; Error(invalid_argument) if `devices` is too short.
  static Mesh mpi_cuda(const GpuProcesses& processes = {});

  /// What is left of the other one throws Error(invalid_argument) in every call.
  Mesh(Mesh&&) noexcept;
  Mesh& operator=(Mesh&&) noexcept;
  ~Mesh();

  std::int64_t ranks() const;
  /// Whether a rank is in this process: always, but on a mesh of several processes.
  bool is_here(std::int64_t rank) const;
  /// Where its matrices have to lie.
  Memory memory() const;
  /// The tile size that a routine uses on these devices when none is asked for: a function of their
  /// kind, of the shape and of the table that the mesh was given, if any, so that results are the
  /// same bits everywhere.
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine = Routine::cholesky) const;
  /// From now on default_tile() looks there first; TileTable::find() is what `shardsolve tune` has
  /// written for this user. Processes give all the same one. Not while another thread uses the
  /// mesh.
  void use_tile_table(TileTable table);
  const TileTable& tile_table() const;
  /// The entry of the table that default_tile() takes its answer from; null if there is none.
  const TileEntry* tile_entry(std::int64_t n, Dtype dtype,
                              Routine routine = Routine::cholesky) const;
  /// The devices as tables know them: the CPU's model and its BLAS kernels, or the GPUs' name.
  std::string device_kind() const;
  /// Bytes that each rank's device can still take, all at the same time; what the mesh keeps for
  /// its next call counts as free.
  std::int64_t available_memory() const;

  /// Inside shardsolve only: ranks that were set up in another way, and what the algorithms need.
  explicit Mesh(std::shared_ptr<mesh::MeshState> state);
  mesh::MeshState& state() const;

 private:
  std::shared_ptr<mesh::MeshState> state_;
};

}  // namespace shardsolve
