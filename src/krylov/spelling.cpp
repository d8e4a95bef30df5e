#include "krylov/spelling.hpp"

#include <algorithm>
#include <atomic>

namespace shardsolve::krylov {
namespace spelling {
namespace {

std::atomic<Reader>& reader() {
  static std::atomic<Reader> one{Reader::caller};
  return one;
}

std::string with_hyphens(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace
}  // namespace spelling

void speak_to(Reader reader) { spelling::reader() = reader; }

std::string_view spelled(std::string_view for_caller, std::string_view for_command) {
  return spelling::reader() == Reader::command ? for_command : for_caller;
}

std::string option(std::string_view name) {
  const std::string typed = "--" + spelling::with_hyphens(name);
  return std::string(spelled(name, typed));
}

std::string choice(std::string_view name, std::string_view value) {
  return option(name) + " " + std::string(value);
}

std::string preconditioner_name(std::string_view function) {
  const std::string_view name = function == "incomplete_cholesky" ? "ic0"
                                : function == "incomplete_lu"     ? "ilu0"
                                                                  : function;
  const std::string typed = spelling::with_hyphens(name);
  return std::string(spelled(function, typed));
}

}  // namespace shardsolve::krylov
