/// The command line: what is asked for.
#pragma once

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/mesh.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::cli {

struct Verb;

enum class Backend : std::uint8_t { cpu, cuda };

/// What is asked of a Krylov solve; for what is not given there is a default, or a capture.
struct KrylovOptions {
  std::optional<std::string> method;          ///< its name, or "auto"
  std::optional<std::string> preconditioner;  ///< name of a krylov::Recipe's kind
  std::optional<std::int64_t> blocks;         ///< of the preconditioner
  std::optional<std::int64_t> degree;         ///< of chebyshev
  std::optional<double> rtol;
  std::optional<double> atol;
  std::optional<std::int64_t> max_iterations;
  std::optional<std::int64_t> restart;        ///< vectors of a basis of fgmres
  std::string levels;                         ///< folder of a multigrid hierarchy; empty for none
  std::string guess;                          ///< path of x0; empty for none, as are the next
  std::string best;                           ///< where the best iterate of a failed solve goes
  std::string log;                            ///< path of the log
  std::string capture;                        ///< folder for a solve that fails
  std::optional<std::int64_t> capture_limit;  ///< of that folder, in MB
};

struct Options {
  const Verb* verb = nullptr;       ///< the command; null if none was given
  std::string matrix;               ///< path of A
  std::string right_hand_sides;     ///< path of b; solve and lstsq only
  std::string second_matrix;        ///< path of B of A z = w B z; eigh only
  std::array<std::string, 2> logs;  ///< paths; compare-logs only
  std::string captured;             ///< path of the folder; replay only
  std::string output;  ///< path of x or of the inverse, prefix of eigh and svd; empty for logdet
  std::string trace;   ///< path of the trace; empty for none
  Backend backend = Backend::cpu;
  std::int64_t devices = 1;     ///< that share the work
  bool devices_chosen = false;  ///< by --devices
  bool mpi = false;             ///< each device is a process, started by an MPI launcher
  std::vector<int> gpus;        ///< CUDA's numbers of them, if that is the backend
  GpuCommunicator communicator = GpuCommunicator::automatic;  ///< between GPUs of processes
  std::optional<std::int64_t> tile;                           ///< default_tile() if not given
  std::string tile_table;                      ///< path of it, or "none"; empty for this user's
  std::vector<std::int64_t> sizes;             ///< rows of the matrices that tune and bench make
  std::vector<Dtype> dtypes;                   ///< of tune and bench; bench takes one
  double budget = 120.0;                       ///< seconds that tune may take
  std::string bench_job;                       ///< what bench times
  Routine routine = Routine::cholesky;         ///< what tune times
  std::int64_t runs = 5;                       ///< of each of its calls
  double timeout = 300.0;                      ///< seconds without a sign of life from a device
  EighRequest eigh;                            ///< which eigenvalues; eigh only
  bool singular_vectors = true;                ///< beside the values; svd only
  bool rcond = true;                           ///< estimated; solve only
  bool in_place = false;                       ///< LU overwrites A; solve only
  std::optional<double> singular_value_limit;  ///< relative to the largest; lstsq only
  Assume assume = Assume::positive_definite;   ///< of solve, inverse and logdet
  bool assume_chosen = false;                  ///< by --assume
  KrylovOptions krylov;                        ///< of a sparse A
  bool force = false;
  bool json = false;
  bool quiet = false;
  bool measure = false;  ///< rates of the devices; doctor only
};

/// What the user is told where there is nothing more to do: help, version, or what was wrong.
struct Answer {
  int code = 0;
  std::string text;
};

struct CommandLine {
  Options options;
  std::optional<Answer> answer;  ///< if there is one, only `mpi` of the options has a meaning
  /// The same in all processes of a job, or they were started wrongly.
  std::string summary;
};

CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace shardsolve::cli
