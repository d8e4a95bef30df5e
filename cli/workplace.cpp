#include "workplace.hpp"

#include "io/tile_table_file.hpp"
#include "launch.hpp"
#include "mesh/mesh_state.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <utility>

namespace shardsolve::cli {
namespace {

Mesh make_process_mesh(const Options& options) {
  Mesh mesh = options.backend == Backend::cuda
                  ? Mesh::mpi_cuda(
                        {.communicator = {}, .devices = options.gpus, .path = options.communicator})
                  : Mesh::mpi();
  const std::int64_t launched = launched_processes();
  if (launched > 1 && mesh.ranks() != launched) {
    throw Error(
        ErrorKind::device,
        fmt::format("{} processes were started together, and MPI connects {} of them: start them "
                    "with the mpirun of the MPI that shardsolve was built with, or with 'srun "
                    "--mpi=pmix' (see 'srun --mpi=list')",
                    launched, mesh.ranks()));
  }
  return mesh;
}

Mesh make_mesh(const Options& options) {
  if (options.mpi) {
    return make_process_mesh(options);
  }
  return options.backend == Backend::cuda ? Mesh::cuda(options.gpus) : Mesh::host(options.devices);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// "rank 2 has the argument '-o', rank 0 '--tile'": where two texts differ first.
std::string difference(const std::string& text, std::size_t rank, const std::string& first) {
  const auto ours = lines_of(text);
  const auto theirs = lines_of(first);
  const std::string nothing = "nothing more";
  for (std::size_t i = 0;; ++i) {
    const std::string& one = i < ours.size() ? ours[i] : nothing;
    const std::string& other = i < theirs.size() ? theirs[i] : nothing;
    if (one != other) {
      return fmt::format("rank {} has {}, rank 0 has {}", rank, one, other);
    }
  }
}

}  // namespace

Workplace::Workplace(Options options, std::stop_token stop,
                     std::shared_ptr<ProgressDisplay> progress)
    : options_(std::move(options)), mesh_(make_mesh(options_)) {
  options_.devices = mesh_.ranks();
  run_options_.cancel = std::move(stop);
  run_options_.silence_limit = std::chrono::duration<double>(options_.timeout);
  run_options_.progress = [display = std::move(progress)](const Progress& so_far) {
    display->show(so_far);
  };
  if (!options_.trace.empty()) {
    run_options_.trace = &trace_;
  }
}

std::string Workplace::whereabouts() const {
  if (!has_processes()) {
    return "";
  }
  std::int64_t own = 0;
  while (!mesh_.is_here(own)) {
    ++own;
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("rank {} of {}, on {}", own, mesh_.ranks(), host.data());
}

std::vector<std::string> Workplace::texts(const std::string& own) {
  if (!has_processes()) {
    return {own};
  }
  const auto all = std::make_shared<std::vector<std::string>>();
  run([all, own](mesh::Rank& rank) {
    // as many characters from each as the longest has
    const auto lengths = programs::gather_from_all(rank, std::vector<std::size_t>{own.size()});
    std::vector<char> padded(own.begin(), own.end());
    padded.resize(std::max_element(lengths.begin(), lengths.end())->front());
    const auto gathered = programs::gather_from_all(rank, padded);
    for (std::size_t r = 0; r < gathered.size(); ++r) {
      all->emplace_back(gathered[r].data(), lengths[r].front());
    }
  });
  return *all;
}

void Workplace::require_same(const std::string& text) {
  const std::vector<std::string> all = texts(text);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the processes were not given the same job: {}. Give all of them the "
                              "same arguments and files, or '--mpi off' to work on their own",
                              difference(all[rank], rank, all.front())));
    }
  }
}

double Workplace::run(std::function<void(mesh::Rank&)> program) {
  RunOptions options = run_options_;
  options.trace = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  mesh_.state().run(options, std::move(program));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Workplace::take_tile_table() {
  if (!options_.tile) {
    mesh_.use_tile_table(everywhere([option = options_.tile_table] {
      return io::read_tile_table(io::tile_table_path(option));
    }));
  }
}

TileChoice Workplace::tile_for(std::int64_t n, Dtype dtype, Routine routine) {
  TileChoice choice{.tile = options_.tile.value_or(0), .asked_for = options_.tile.has_value()};
  if (!choice.asked_for) {
    choice.tile = mesh_.default_tile(n, dtype, routine);
    choice.table = mesh_.tile_table().path();
    if (const TileEntry* entry = mesh_.tile_entry(n, dtype, routine)) {
      choice.entry = *entry;
    }
  }
  choice.tile = layout(n, choice).tile();
  // Processes on several machines may have tables of their own.
  require_same(
      fmt::format("the tile {} (tables of tile sizes: --tile-table, --tile)", choice.tile));
  return choice;
}

SlabLayout Workplace::layout(std::int64_t n, const std::optional<TileChoice>& tile) const {
  return SlabLayout::even(n, mesh_.ranks(), tile ? tile->tile : std::max<std::int64_t>(n, 1));
}

SlabLayout Workplace::layout_to_factor(std::int64_t n, Dtype dtype) const {
  return SlabLayout::even(n, mesh_.ranks(), mesh_.default_tile(n, dtype));
}

void Workplace::require_memory(const std::vector<Plan>& plans, const std::string& job) {
  Plan all = plans.front();
  for (const Plan& plan : plans) {
    all.right_hand_side_bytes = std::max(all.right_hand_side_bytes, plan.right_hand_side_bytes);
    all.workspace_bytes = std::max(all.workspace_bytes, plan.workspace_bytes);
  }
  everywhere([all, available = mesh_.available_memory(), job] {
    all.require(all.bytes(), available, job);
    return true;
  });
}

void leave_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Error(ErrorKind::cancelled, "interrupted");
  }
}

}  // namespace shardsolve::cli
