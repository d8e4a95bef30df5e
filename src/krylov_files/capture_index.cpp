#include "krylov_files/capture_index.hpp"

#include "io/checksum.hpp"
#include "io/file_descriptor.hpp"
#include "krylov_files/json.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace shardsolve::krylov::files {
namespace {

constexpr std::int64_t capture_format = 1;
constexpr std::int64_t capture_format_of_products = 2;  // A or M is known by its products
constexpr std::string_view capture_kind = "krylov capture";
constexpr std::int64_t longest_index = std::int64_t{1} << 30;

CaptureIndex index_of(const JsonObject& object, const std::string& path) {
  if (object.text("kind") != capture_kind) {
    object.reject("kind", fmt::format("\"{}\"", capture_kind));
  }
  CaptureIndex index;
  index.version = object.text("version");
  const std::int64_t format = object.integer("format", 1, 1'000'000);
  if (format > capture_format_of_products) {
    throw Error(ErrorKind::unsupported,
                fmt::format("'{}' was written by shardsolve {} in format {}; this version, {}, "
                            "reads formats up to {}: replay it with that one",
                            path, index.version, format, SHARDSOLVE_VERSION_STRING,
                            capture_format_of_products));
  }
  index.request = request_of(object.object("request"));
  index.result = verdict_of(object.object("verdict"));
  for (const Json& value : object.list("files")) {
    const JsonObject file(value, fmt::format("file {}", index.files.size()));
    constexpr std::int64_t max_checksum = std::numeric_limits<std::uint32_t>::max();
    index.files.push_back({file.text("name"),
                           file.integer("bytes", 0, std::numeric_limits<std::int64_t>::max()),
                           static_cast<std::uint32_t>(file.integer("crc32", 0, max_checksum))});
  }
  return index;
}

/// Throws io::JsonFault unless the list has what the request says.
void require_files(const CaptureIndex& index) {
  const auto require = [&](std::string_view name) {
    if (!index.has(name)) {
      throw io::JsonFault(fmt::format("\"files\" has no {}", name));
    }
  };
  require(index.is_of_products() ? operator_products.y : matrix_name);
  require(rhs_name);
  require(log_name);
  if (index.request.preconditioner.kind == Recipe::Kind::recorded) {
    require(preconditioner_products.x);
    require(preconditioner_products.y);
  }
  if (index.request.options.use_guess != index.has(guess_name)) {
    throw io::JsonFault(fmt::format("\"guess\" does not fit {} in \"files\"", guess_name));
  }
}

void require_whole(const std::string& directory, const CapturedFile& file) {
  const std::string path = directory + "/" + file.name;
  const CapturedFile found = captured_file(path, file.name);
  if (found.bytes != file.bytes || found.checksum != file.checksum) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' is not the file that was captured: it has {} bytes and checksum "
                            "{:08x}, {} bytes and {:08x} were written; copy the folder again",
                            path, found.bytes, found.checksum, file.bytes, file.checksum));
  }
}

}  // namespace

std::string level_matrix_name(std::size_t level) { return fmt::format("A{}.npz", level); }
std::string prolongation_name(std::size_t level) { return fmt::format("P{}.npz", level); }

bool is_name_of_capture(std::string_view name) {
  constexpr std::array all = {std::string_view(index_name),
                              std::string_view(matrix_name),
                              std::string_view(rhs_name),
                              std::string_view(guess_name),
                              std::string_view(log_name),
                              std::string_view(operator_products.x),
                              std::string_view(operator_products.y),
                              std::string_view(preconditioner_products.x),
                              std::string_view(preconditioner_products.y)};
  constexpr std::string_view ending = ".npz";
  const bool is_of_level = name.size() > 1 + ending.size() && name.ends_with(ending) &&
                           (name.front() == 'A' || name.front() == 'P');
  const std::string_view number =
      is_of_level ? name.substr(1, name.size() - 1 - ending.size()) : std::string_view();
  return std::find(all.begin(), all.end(), name) != all.end() ||
         (is_of_level && number.find_first_not_of("0123456789") == std::string_view::npos);
}

bool CaptureIndex::has(std::string_view name) const {
  return std::any_of(files.begin(), files.end(),
                     [&](const CapturedFile& file) { return file.name == name; });
}

std::string index_text(const CaptureIndex& index) {
  const bool has_products = index.is_of_products() || index.has(preconditioner_products.x);
  Json files = Json::array();
  for (const CapturedFile& file : index.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32", file.checksum}});
  }
  const Json object = {{"kind", capture_kind},
                       {"format", has_products ? capture_format_of_products : capture_format},
                       {"version", index.version},
                       {"request", to_json(index.request)},
                       {"verdict", verdict_to_json(index.result)},
                       {"files", files}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

CaptureIndex read_capture_index(const std::string& directory) {
  const std::string path = directory + "/" + index_name;
  const io::FileDescriptor file = io::open_for_reading(path);
  std::string text(static_cast<std::size_t>(std::min(io::file_size(file, path), longest_index)),
                   '\0');
  io::read_exactly(file, text.data(), static_cast<std::int64_t>(text.size()), 0, path);
  CaptureIndex index;
  try {
    const Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded()) {
      throw io::JsonFault("it is no JSON");
    }
    index = index_of(JsonObject(value, "it"), path);
    require_files(index);
  } catch (const io::JsonFault& fault) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("'{}': {}; give a folder that --capture has written", path, fault.what()));
  }
  for (const CapturedFile& of_capture : index.files) {
    if (of_capture.name.find('/') != std::string::npos) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}': the name of a file in it leads out of the folder", path));
    }
    require_whole(directory, of_capture);
  }
  return index;
}

CapturedFile captured_file(const std::string& path, std::string name) {
  const io::FileDescriptor file = io::open_for_reading(path);
  CapturedFile captured{std::move(name), io::file_size(file, path), 0};
  constexpr std::int64_t most = std::int64_t{1} << 20;
  std::vector<char> piece(static_cast<std::size_t>(std::min(most, captured.bytes)));
  io::Crc32 checksum;
  for (std::int64_t at = 0; at < captured.bytes; at += most) {
    const std::int64_t count = std::min(most, captured.bytes - at);
    io::read_exactly(file, piece.data(), count, at, path);
    checksum.update(piece.data(), count);
  }
  captured.checksum = checksum.value();
  return captured;
}

}  // namespace shardsolve::krylov::files
