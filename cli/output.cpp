#include "output.hpp"

#include "comm/process_group.hpp"
#include "core/each_dtype.hpp"
#include "io/tile_table_file.hpp"
#include "krylov_files/capture_index.hpp"
#include "runtime/host/conjugate.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsolve::cli {
namespace {

using Seconds = std::chrono::duration<double>;

struct NamedFile {
  std::string_view role;
  const std::string& path;
};

/// The path without links and dots, as far as it exists; empty if the system cannot tell.
std::filesystem::path place_of(const std::string& path) {
  std::error_code error;
  auto place = std::filesystem::absolute(path, error);
  if (!error) {
    place = std::filesystem::weakly_canonical(place, error);
  }
  return error ? std::filesystem::path() : place;
}

/// Whether two paths lead to one file, or will once it is written.
bool same_place(const std::string& a, const std::string& b) {
  const std::filesystem::path place = place_of(a);
  return io::same_file(a, b) || (!place.empty() && place == place_of(b));
}

void require_distinct(const NamedFile& output, const NamedFile& other) {
  if (!output.path.empty() && !other.path.empty() && same_place(output.path, other.path)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' ({}) and '{}' ({}) are the same file, and outputs replace no "
                            "input and no other output, not even with --force: choose another name",
                            output.path, output.role, other.path, other.role));
  }
}

bool lies_in(const std::string& path, const std::string& folder) {
  const std::filesystem::path way = place_of(path).lexically_relative(place_of(folder));
  return !way.empty() && *way.begin() != ".." && *way.begin() != ".";
}

/// An input that is a folder keeps its files.
void require_outside_input(const NamedFile& output, const NamedFile& folder) {
  const std::string name = std::filesystem::path(output.path).filename().string();
  if (!output.path.empty() && !folder.path.empty() && lies_in(output.path, folder.path) &&
      krylov::files::is_name_of_capture(name)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' ({}) would be a file of '{}' ({}), and outputs replace no input, "
                            "not even with --force: choose another name",
                            output.path, output.role, folder.path, folder.role));
  }
}

/// The folder of a capture is replaced as a whole.
void require_outside_capture(const NamedFile& file, const std::string& capture) {
  if (!file.path.empty() && !capture.empty() && lies_in(file.path, capture)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' ({}) lies in '{}' (the capture), a folder that is written as a "
                            "whole: choose another place",
                            file.path, file.role, capture));
  }
}

io::Overwrite overwrite(const Options& options) { return {options.force, "--force"}; }

void sync(const ArrayFiles& results) {
  for (const auto& result : results) {
    result->file.sync();
  }
}

/// What fails here fails late: something else has taken the name, or the disk is gone.
void commit_last(io::OutputFile& text, const ArrayFiles& results) {
  try {
    text.commit();
  } catch (const Error& error) {
    std::vector<std::string> paths;
    for (const auto& result : results) {
      paths.push_back(result->file.path());
    }
    throw Error(error.kind(), paths.empty() ? error.what()
                                            : fmt::format("{}; {} all the same", error.what(),
                                                          are_complete(paths)));
  }
}

/// All get their names, or none.
void publish(const ArrayFiles& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    try {
      results[i]->file.publish();
    } catch (const Error&) {
      while (i > 0) {
        results[--i]->file.retract();
      }
      throw;
    }
  }
  for (const auto& result : results) {
    result->file.settle();
  }
}

/// One process's share in a file that several processes write.
struct SharedFile {
  std::shared_ptr<ArrayFile> file;
  std::exception_ptr failure;  ///< why this process has not joined in
};

/// Rank 0 makes the file by make(temporary); the other processes join in by make(its shared name).
template <class Make>
SharedFile share_file(Workplace& workplace, io::OutputFile::Temporary temporary, const Make& make) {
  SharedFile shared;
  shared.file = workplace.on_rank_0([=] { return make(temporary); }).value_or(nullptr);
  const std::string name =
      workplace.texts(shared.file ? shared.file->file.shared_name() : "").front();
  if (!shared.file) {
    try {
      shared.file = make(name);
    } catch (const Error&) {
      shared.failure = std::current_exception();
    }
  }
  return shared;
}

/// Claims the name of one result.
std::shared_ptr<ArrayFile> open_result(Workplace& workplace, const Result& result) {
  const auto make = [=, &options = workplace.options()](const auto& origin) {
    return std::make_shared<ArrayFile>(result, overwrite(options), origin);
  };
  using Temporary = io::OutputFile::Temporary;
  if (!workplace.has_processes()) {
    return workplace.everywhere([make] { return make(Temporary::unnamed); });
  }
  SharedFile shared = share_file(workplace, Temporary::unnamed, make);
  // Not all processes can open what has no name.
  const auto failures = workplace.texts(shared.failure ? "it cannot be opened here" : "");
  if (std::any_of(failures.begin(), failures.end(),
                  [](const auto& text) { return !text.empty(); })) {
    shared = share_file(workplace, Temporary::named, make);
  }
  return workplace.everywhere([shared] {
    if (shared.failure) {
      std::rethrow_exception(shared.failure);
    }
    return shared.file;
  });
}

/// Throws Error(communication) if more than `limit` has passed since `since`: the others wait while
/// rank 0 finishes the outputs, and have given up by then.
void require_awaited(std::chrono::steady_clock::time_point since, Seconds limit) {
  if (std::chrono::steady_clock::now() - since > limit) {
    throw Error(ErrorKind::communication,
                fmt::format("this process was stopped for more than {:g} s while it finished the "
                            "outputs, and the others have given up: nothing was written",
                            limit.count()));
  }
}

/// The same numbers in memory of the host.
template <Scalar T>
RightHandSides<T> on_host(Workplace& workplace, const RightHandSides<T>& x) {
  if (x.memory() == Memory::host) {
    return x;
  }
  RightHandSides<T> copied(x.layout(), x.columns());
  copy(workplace.mesh(), x, copied);
  return copied;
}

template <Scalar T>
std::int64_t bytes_of_line(std::int64_t elements) {
  return elements * std::int64_t{sizeof(T)};
}

}  // namespace

std::string are_complete(const std::vector<std::string>& paths) {
  return fmt::format("'{}' {} complete", fmt::join(paths, "' and '"),
                     paths.size() == 1 ? "is" : "are");
}

void require_distinct_files(Workplace& workplace, const std::vector<Result>& results) {
  workplace.everywhere([results, &options = workplace.options()] {
    std::vector<NamedFile> outputs;
    for (const Result& result : results) {
      outputs.push_back({"the output", result.path});
    }
    outputs.push_back({"the trace", options.trace});
    outputs.push_back({"the best iterate", options.krylov.best});
    outputs.push_back({"the log", options.krylov.log});
    outputs.push_back({"the capture", options.krylov.capture});
    const std::string table = io::tile_table_path(options.tile_table).path;
    const std::array inputs = {NamedFile{"the matrix", options.matrix},
                               NamedFile{"the second matrix", options.second_matrix},
                               NamedFile{"the right-hand sides", options.right_hand_sides},
                               NamedFile{"the guess", options.krylov.guess},
                               NamedFile{"the tile table", table}};
    const std::array folders = {NamedFile{"the levels", options.krylov.levels},
                                NamedFile{"the captured solve", options.captured}};
    for (const NamedFile& input : inputs) {
      require_outside_capture(input, options.krylov.capture);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      require_outside_capture(outputs[i], options.krylov.capture);
      for (const NamedFile& input : inputs) {
        require_distinct(outputs[i], input);
      }
      for (const NamedFile& folder : folders) {
        require_distinct(outputs[i], folder);
        require_outside_input(outputs[i], folder);
      }
      for (std::size_t j = 0; j < i; ++j) {
        require_distinct(outputs[i], outputs[j]);
      }
    }
    return true;
  });
}

ArrayFiles open_results(Workplace& workplace, const std::vector<Result>& results) {
  ArrayFiles files;
  for (const Result& result : results) {
    files.push_back(open_result(workplace, result));
  }
  return files;
}

void begin_results(Workplace& workplace, const ArrayFiles& files,
                   const std::vector<Result>& results) {
  workplace.everywhere([files, results] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      files[i]->begin(results[i]);
    }
    return true;
  });
}

std::shared_ptr<io::OutputFile> open_text_file(Workplace& workplace, const std::string& path) {
  if (path.empty()) {
    return nullptr;
  }
  return workplace
      .on_rank_0([path, &options = workplace.options()] {
        return std::make_shared<io::OutputFile>(path, overwrite(options));
      })
      .value_or(nullptr);
}

std::shared_ptr<io::OutputFile> open_trace(Workplace& workplace) {
  return open_text_file(workplace, workplace.options().trace);
}

template <Scalar T>
double write_solution(Workplace& workplace, const RightHandSides<T>& solution,
                      std::shared_ptr<ArrayFile> to) {
  return workplace.run([x = on_host(workplace, solution), to = std::move(to)](mesh::Rank& rank) {
    const MatrixView<const T> block = x.block(rank.index());
    const GlobalIndex begin = x.layout().segment(rank.index()).begin;
    in_pieces(rank, "write", block.rows(), bytes_of_line<T>(block.columns()),
              [&](std::int64_t first, std::int64_t count) {
                to->writer().write_rows<T>({begin + first, begin + first + count},
                                           block.block(first, 0, count, block.columns()));
              });
  });
}

template <Scalar T>
double write_adjoint(Workplace& workplace, const RightHandSides<T>& x,
                     std::shared_ptr<ArrayFile> to) {
  return workplace.run([x = on_host(workplace, x), to = std::move(to)](mesh::Rank& rank) {
    const MatrixView<const T> block = x.block(rank.index());
    const GlobalIndex begin = x.layout().segment(rank.index()).begin;
    std::vector<T> turned;
    in_pieces(rank, "write", block.rows(), bytes_of_line<T>(block.columns()),
              [&](std::int64_t first, std::int64_t count) {
                turned.clear();
                for (std::int64_t i = first; i < first + count; ++i) {
                  for (std::int64_t j = 0; j < block.columns(); ++j) {
                    turned.push_back(runtime::host::conjugate(block(i, j)));
                  }
                }
                to->writer().write_columns<T>(
                    {begin + first, begin + first + count},
                    MatrixView<const T>(turned.data(), block.columns(), count));
              });
  });
}

template <Scalar T>
double write_hermitian(Workplace& workplace, const ShardedMatrix<T>& x,
                       std::shared_ptr<ArrayFile> to) {
  return workplace.run([x, to = std::move(to)](mesh::Rank& rank) {
    const MatrixView<T> slab = x.slab(rank.index());
    const GlobalIndex begin = x.layout().segment(rank.index()).begin;
    Staging<T> staging;
    in_pieces(rank, "write", slab.columns(), bytes_of_line<T>(slab.rows()),
              [&](std::int64_t first, std::int64_t count) {
                const MatrixView<T> piece = slab.columns_from(first, count);
                const MatrixView<T> room = staging.room(piece, x.memory());
                Staging<T>::move(rank, piece, room);
                to->writer().write_hermitian_columns<T>({begin + first, begin + first + count},
                                                        room);
              });
  });
}

template <Scalar T>
double write_columns(Workplace& workplace, const ShardedMatrix<T>& x,
                     std::shared_ptr<ArrayFile> to) {
  return workplace.run([x, to = std::move(to)](mesh::Rank& rank) {
    const GlobalIndex begin = x.layout().segment(rank.index()).begin;
    const std::int64_t all = to->writer().header().shape.at(1);
    const MatrixView<T> slab = x.slab(rank.index());
    const MatrixView<T> own =
        slab.columns_from(0, std::clamp<std::int64_t>(all - begin.value(), 0, slab.columns()));
    Staging<T> staging;
    in_pieces(rank, "write", own.columns(), bytes_of_line<T>(own.rows()),
              [&](std::int64_t first, std::int64_t count) {
                const MatrixView<T> piece = own.columns_from(first, count);
                const MatrixView<T> room = staging.room(piece, x.memory());
                Staging<T>::move(rank, piece, room);
                to->writer().write_columns<T>({begin + first, begin + first + count}, room);
              });
  });
}

template <Scalar T>
double write_numbers(Workplace& workplace, std::vector<T> numbers, std::shared_ptr<ArrayFile> to) {
  return workplace.run([numbers = std::move(numbers), to = std::move(to)](mesh::Rank& rank) {
    if (rank.index() == 0) {
      const std::int64_t count = std::ssize(numbers);
      to->writer().write_rows<T>({GlobalIndex(0), GlobalIndex(count)},
                                 MatrixView<const T>(numbers.data(), count, 1));
    }
  });
}

double commit(Workplace& workplace, const ArrayFiles& results,
              const std::shared_ptr<io::OutputFile>& trace,
              const std::shared_ptr<io::OutputFile>& log) {
  const auto begin = std::chrono::steady_clock::now();
  workplace.on_rank_0([trace, &spans = workplace.trace()] {
    if (trace != nullptr) {
      const std::string text = spans.to_json();
      trace->pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
    }
    return true;
  });
  const std::stop_token stop = workplace.run_options().cancel;
  if (!results.empty() && workplace.has_processes()) {
    workplace.everywhere(
        [results, stop] {
          leave_if_stopped(stop);
          sync(results);
          return true;
        },
        "sync");
  }
  const auto last_check = [stop, others_wait = workplace.has_processes(),
                           limit = workplace.run_options().silence_limit,
                           since = std::chrono::steady_clock::now()] {
    leave_if_stopped(stop);
    if (others_wait) {  // all have brought their bytes to the disk, so what is left takes no time
      require_awaited(since, std::max<Seconds>(limit, comm::ProcessGroup::least_silence_limit));
    }
  };
  workplace.on_rank_0(
      [results, trace, log, last_check] {
        last_check();
        sync(results);  // before the names: after a power cut a name must not lead to missing bytes
        last_check();
        publish(results);
        for (const auto& text : {trace, log}) {
          if (text != nullptr) {
            commit_last(*text, results);
          }
        }
        return true;
      },
      "commit");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template double write_solution(Workplace&, const RightHandSides<T>&,                             \
                                 std::shared_ptr<ArrayFile>);                                      \
  template double write_adjoint(Workplace&, const RightHandSides<T>&, std::shared_ptr<ArrayFile>); \
  template double write_hermitian(Workplace&, const ShardedMatrix<T>&,                             \
                                  std::shared_ptr<ArrayFile>);                                     \
  template double write_columns(Workplace&, const ShardedMatrix<T>&, std::shared_ptr<ArrayFile>);  \
  template double write_numbers(Workplace&, std::vector<T>, std::shared_ptr<ArrayFile>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli
