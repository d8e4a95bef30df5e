/// What a run leaves in a folder, for NumPy: the history as CSV, frames as .npy.
#pragma once

#include "box_mesh.hpp"
#include "cases.hpp"
#include "csr.hpp"
#include "simulation.hpp"

#include <shardsolve/krylov.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <stdexcept>
#include <string>
#include <vector>

namespace beam {

namespace files {

inline std::ofstream opened(const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot write " + path.string());
  return file;
}

inline void close(std::ofstream& file, const std::filesystem::path& path) {
  file.close();
  if (!file)
    throw std::runtime_error("cannot write all of " + path.string() + "; is the disk full?");
}

}  // namespace files

/// An array of float64 in C order, in the byte order of this machine, which is taken to be little
/// endian. Throws std::runtime_error if the file cannot be written.
inline void write_npy(const std::filesystem::path& path, const std::vector<std::int64_t>& shape,
                      const Vector& data) {
  std::string sizes;
  for (const std::int64_t size : shape) {
    sizes += std::to_string(size) + ",";
  }
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // With the 10 bytes before it, a header has a multiple of 64 bytes and ends with a new line.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file = files::opened(path);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(header.size() & 0xff));
  file.put(static_cast<char>(header.size() >> 8));
  file << header;
  file.write(reinterpret_cast<const char*>(data.data()),
             static_cast<std::streamsize>(data.size() * sizeof(double)));
  files::close(file, path);
}

/// A line for each step. Throws std::runtime_error if the file cannot be written.
inline void write_history(const std::filesystem::path& path, const History& history) {
  std::ofstream file = files::opened(path);
  file << "t,tip_x,tip_y,tip_z,elastic_energy,kinetic_energy,newton_iterations,"
          "linear_iterations,max_linear_iterations\n"
       << std::setprecision(17);
  for (const Record& r : history.records) {
    file << r.t << ',' << r.tip[0] << ',' << r.tip[1] << ',' << r.tip[2] << ',' << r.elastic_energy
         << ',' << r.kinetic_energy << ',' << r.newton_iterations << ',' << r.linear_iterations
         << ',' << r.max_linear_iterations << '\n';
  }
  files::close(file, path);
}

/// Tips of reference, a line for each of its times. Throws std::runtime_error if the file cannot be
/// written.
inline void write_reference(const std::filesystem::path& path, const Reference& reference) {
  std::ofstream file = files::opened(path);
  file << "t,tip_y,tip_z\n";
  for (std::size_t i = 0; i < reference_times.size(); ++i) {
    const Tip& at = reference.tips[i];
    file << reference_times[i] << ',' << at.y << ',' << at.z << '\n';
  }
  files::close(file, path);
}

/// A line for each record of a Krylov method's log: its relative residual, and whether that was
/// recomputed from b - A x. Throws std::runtime_error if the file cannot be written.
inline void write_log(const std::filesystem::path& path,
                      const std::vector<shardsolve::krylov::LogRecord>& log) {
  std::ofstream file = files::opened(path);
  file << "iteration,residual,recomputed\n" << std::setprecision(17);
  for (const auto& record : log) {
    const bool is_recomputed = record.event != shardsolve::krylov::Event::none;
    file << record.iteration << ',' << record.residual << ',' << is_recomputed << '\n';
  }
  files::close(file, path);
}

/// Makes the folder, and in it: history.csv; frame_times.npy, (frames,); nodes.npy, the positions
/// at rest, (nodes along x, along y, along z, 3); frames.npy, displacements, (frames, and the
/// same). Throws std::runtime_error or std::filesystem::filesystem_error if one cannot be written.
inline void write_folder(const std::filesystem::path& folder, const BoxMesh& mesh,
                         const History& history) {
  std::filesystem::create_directories(folder);
  write_history(folder / "history.csv", history);

  const Counts along = mesh.nodes_along();
  Vector positions;
  for (std::int64_t node = 0; node < mesh.nodes(); ++node) {
    const Point position = mesh.position(node);
    positions.insert(positions.end(), position.begin(), position.end());
  }
  write_npy(folder / "nodes.npy", {along[0], along[1], along[2], 3}, positions);

  Vector times;
  Vector displacements;
  for (const Frame& frame : history.frames) {
    times.push_back(frame.t);
    displacements.insert(displacements.end(), frame.displacements.begin(),
                         frame.displacements.end());
  }
  const std::int64_t frames = std::ssize(times);
  write_npy(folder / "frame_times.npy", {frames}, times);
  write_npy(folder / "frames.npy", {frames, along[0], along[1], along[2], 3}, displacements);
}

}  // namespace beam
