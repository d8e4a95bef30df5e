/// A folder that appears under its name complete or not at all.
#pragma once

#include "io/output_file.hpp"

#include <functional>
#include <string>

namespace shardsolve::krylov::files {

/// A folder in the making, ".shardsolve-*.tmp" beside its target. If the object is destroyed before
/// commit(), it is removed with all that is in it; only SIGKILL or a power cut leaves it behind.
class NewDirectory {
 public:
  /// Throws Error: invalid_argument if there is something at the target, unless `overwrite` allows
  /// to replace it and it is a folder with a file called `mark` that has nothing else but files
  /// whose names belong(name); io if no folder can be made there.
  NewDirectory(std::string target, io::Overwrite overwrite, std::string mark,
               std::function<bool(const std::string& name)> belongs);
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory();

  /// Where to write a file of the folder.
  std::string path_of(const std::string& name) const { return temporary_ + "/" + name; }

  /// Gives the folder its name; what it replaces is gone then. Throws as the constructor does.
  void commit();

 private:
  void require_free() const;
  void require_nothing_else() const;

  std::string target_;
  io::Overwrite overwrite_;
  std::string mark_;
  std::function<bool(const std::string&)> belongs_;
  std::string temporary_;  // empty once it has its name
};

}  // namespace shardsolve::krylov::files
