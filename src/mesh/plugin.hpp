/// Parts of shardsolve that are libraries of their own, loaded when they are asked for.
#pragma once

#include <string>

namespace shardsolve::mesh {

/// libshardsolve_<name>.so.
class Plugin {
 public:
  /// Looks for it beside this code and where the system does. It stays loaded. Its functions are
  /// called shardsolve_<prefix>_..., or shardsolve_<name>_... without a prefix.
  explicit Plugin(const std::string& name, const std::string& prefix = "");

  /// Why it cannot be used; empty if it can.
  const std::string& failure() const { return failure_; }
  /// The file that was loaded; empty if none was.
  const std::string& path() const { return path_; }
  /// Whether it was built with this code; the system may have it all the same.
  bool lies_beside() const { return lies_beside_; }
  /// A function of it; null if it has none of that name.
  template <class Function>
  Function* function(const char* symbol) const {
    return reinterpret_cast<Function*>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  void* handle_ = nullptr;
  bool lies_beside_ = false;
  std::string path_;
  std::string failure_;
};

/// Whether libshardsolve_<name>.so lies where a Plugin looks first, beside this code.
bool plugin_lies_beside(const std::string& name);

/// Whether this code is part of the Python package.
bool in_python_package();

}  // namespace shardsolve::mesh
