# shardsolve_fmt: fmt, compiled here once, into what we link: Debian's library is a shared one, which our users would need.
# Another release of fmt may leave other functions to its library: then it is used header-only, which takes longer to build.
find_package(fmt REQUIRED)
set(fmt_functions "${CMAKE_CURRENT_LIST_DIR}/fmt_functions.cpp")
get_target_property(fmt_headers fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
# The system's compiler looks there by itself, and the wheel's must not (manylinux_2_28.cmake).
list(REMOVE_ITEM fmt_headers /usr/include)
file(WRITE "${PROJECT_BINARY_DIR}/fmt_trial.cpp" [[
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>
int main(int argc, char**) {
  const auto text = fmt::format("{} {:.3g} {:L} {:x} {} {:%H} {:%F %T}", argc, argc / 3.0, argc / 7.0F, argc,
                                std::vector<int>{argc}, std::chrono::seconds(argc), fmt::gmtime(argc));
  return static_cast<int>(text.size());
}
]])
try_compile(
  SHARDSOLVE_FMT_COMPILED "${PROJECT_BINARY_DIR}/fmt_trial"
  SOURCES "${PROJECT_BINARY_DIR}/fmt_trial.cpp" "${fmt_functions}"
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${fmt_headers}"
              "-DCMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES=${CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES}"
  CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
if(SHARDSOLVE_FMT_COMPILED)
  add_library(shardsolve_fmt STATIC "${fmt_functions}")
  set_target_properties(shardsolve_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(shardsolve_fmt PRIVATE shardsolve_options)
  target_include_directories(shardsolve_fmt SYSTEM PUBLIC "${fmt_headers}")
else()
  message(STATUS "fmt ${fmt_VERSION} is compiled into every file that uses it: fmt_functions.cpp does not suit it")
  add_library(shardsolve_fmt INTERFACE)
  target_link_libraries(shardsolve_fmt INTERFACE fmt::fmt-header-only)
endif()
