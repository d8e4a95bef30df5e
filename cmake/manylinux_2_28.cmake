# Toolchain of the Python wheel: clang as PyPI's ziglang carries it, linking for glibc 2.28 whatever the glibc of this
# machine, and with its own C++ runtime inside, so that the wheel runs on any Linux of the last years.
if(NOT SHARDSOLVE_ZIG)
  if(NOT Python_EXECUTABLE)
    find_program(Python_EXECUTABLE NAMES python3 python)
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import importlib.util as u; print(u.find_spec('ziglang').submodule_search_locations[0])"
    OUTPUT_VARIABLE zig_package
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT EXISTS "${zig_package}/zig")
    message(FATAL_ERROR "'${Python_EXECUTABLE}' has no package ziglang, the compiler of this toolchain. Install it with: "
                        "'${Python_EXECUTABLE}' -m pip install ziglang")
  endif()
  set(SHARDSOLVE_ZIG "${zig_package}/zig" CACHE FILEPATH "The program zig")
  mark_as_advanced(SHARDSOLVE_ZIG)
endif()
# CMake's trials of the compiler read this file again, without the cache.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SHARDSOLVE_ZIG SHARDSOLVE_WHEEL_PROCESSOR)

set(SHARDSOLVE_WHEEL_PROCESSOR x86_64 CACHE STRING "What the wheel is for: x86_64, or aarch64 from any machine")
if(NOT SHARDSOLVE_WHEEL_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  # Said where it is another one alone: CMake runs no program that it has compiled then.
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${SHARDSOLVE_WHEEL_PROCESSOR})
endif()
set(CMAKE_CXX_COMPILER "${SHARDSOLVE_ZIG}" c++ -target ${SHARDSOLVE_WHEEL_PROCESSOR}-linux-gnu.2.28)
# Unlike GCC, clang may contract a * b + c in standard C++ too.
set(CMAKE_CXX_FLAGS_INIT "-ffp-contract=off")
# zig's C++ runtime comes with its debug information.
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s")
# Whose licences the wheel takes from there: the runtime is part of it.
cmake_path(GET SHARDSOLVE_ZIG PARENT_PATH SHARDSOLVE_ZIG_PACKAGE)

# Where Debian keeps the CMake packages of libraries.
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
# zig does not look into /usr/include, which belongs to another glibc, and CMake names that directory to no compiler as all
# others look there. The headers we need from it are shown one by one.
get_property(in_trial GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT in_trial)
  foreach(header fmt nlohmann)
    if(EXISTS "/usr/include/${header}")
      file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/system-headers")
      file(CREATE_LINK "/usr/include/${header}" "${CMAKE_BINARY_DIR}/system-headers/${header}" SYMBOLIC)
    endif()
  endforeach()
  set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/system-headers")
endif()
# CUDA's static runtime needs librt: zig's.
set(CUDAToolkit_rt_LIBRARY rt CACHE STRING "librt of the toolchain")
mark_as_advanced(CUDAToolkit_rt_LIBRARY)
