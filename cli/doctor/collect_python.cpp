// The `python3` on PATH: what its packages say of themselves.

#include "collect.hpp"
#include "program.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace shardsolve::cli::doctor {
namespace {

// Of a package that is there twice the first one counts, as it does for import. Nothing is taken
// from the working directory, which -c would look at first.
constexpr const char* question = R"(
import sys
sys.path[:] = [path for path in sys.path if path]
import importlib.metadata, json, platform

packages, jaxlib = {}, ""
for found in importlib.metadata.distributions():
    name = (found.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-")
    if name.startswith(("jax", "libtpu", "nvidia-", "shardsolve")) and name not in packages:
        packages[name] = found.version or ""
        if name == "jaxlib":
            jaxlib = str(found.locate_file("jaxlib"))
json.dump(
    {"path": sys.executable, "version": platform.python_version(), "packages": packages, "jaxlib": jaxlib},
    sys.stdout,
)
)";

/// A file as it lies on the disk, in addresses of this process.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status{};
    if (file >= 0 && ::fstat(file, &status) == 0 && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) {
      ::close(file);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != MAP_FAILED) {
      ::munmap(data_, size_);
    }
  }

  std::string_view contents() const {
    return data_ == MAP_FAILED ? std::string_view()
                               : std::string_view(static_cast<const char*>(data_), size_);
  }

 private:
  void* data_ = MAP_FAILED;
  std::size_t size_ = 0;
};

bool is_of_a_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

/// Whole strings of a library that are like names of flags: "xla_..." up to a zero byte. XLA's
/// flags are registered by such names, so what is not among them it does not know.
std::set<std::string> names_in(std::string_view library) {
  constexpr std::string_view prefix = "xla_";
  std::set<std::string> names;
  const char* const end = library.data() + library.size();
  for (const char* at = library.data();;) {
    at = static_cast<const char*>(
        ::memmem(at, static_cast<std::size_t>(end - at), prefix.data(), prefix.size()));
    if (at == nullptr) {
      return names;
    }
    const char* stop = at;
    while (stop < end && is_of_a_name(*stop)) {
      ++stop;
    }
    const bool begins = at == library.data() || !is_of_a_name(at[-1]);
    if (begins && stop < end && *stop == '\0') {
      names.emplace(at, stop);
    }
    at = stop;
  }
}

/// The library of a jaxlib that holds XLA is by far its largest.
std::filesystem::path xla_library(const std::string& jaxlib) {
  std::filesystem::path largest;
  std::uintmax_t size = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(jaxlib, error)) {
    const bool is_library = entry.path().extension() == ".so" && entry.is_regular_file(error);
    if (is_library && entry.file_size(error) > size) {
      size = entry.file_size(error);
      largest = entry.path();
    }
  }
  return largest;
}

void take_answer(const std::string& text, Python& python) {
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  if (!answer.is_object() || !answer.contains("packages")) {
    python.failure = "its answer could not be read";
    return;
  }
  python.path = answer.value("path", python.path);
  python.version = answer.value("version", "");
  python.jaxlib = answer.value("jaxlib", "");
  python.packages = answer["packages"].get<std::map<std::string, std::string>>();
}

}  // namespace

Python look_at_python(const Environment& environment, bool with_xla_flags) {
  Python python;
  python.path = find_program("python3", value_of(environment, "PATH"));
  if (python.path.empty()) {
    return python;
  }
  const ProgramAnswer answer = ask_program({python.path, "-c", question}, std::chrono::seconds(60));
  if (!answer.failure.empty()) {
    python.failure = answer.failure;
    return python;
  }
  take_answer(answer.out, python);
  if (with_xla_flags && !python.jaxlib.empty()) {
    const MappedFile library(xla_library(python.jaxlib));
    auto names = names_in(library.contents());
    if (!names.empty()) {
      python.xla_flags = std::move(names);
    }
  }
  return python;
}

}  // namespace shardsolve::cli::doctor
