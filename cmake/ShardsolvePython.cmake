# libshardsolve_jax.so, the native part of the Python package: the handlers of jax/ and all of the library in one file
# that needs no other of ours but a bundled BLAS. Python loads it with ctypes, so it depends on no Python version. Beside
# it lies libshardsolve_cuda.so if that is built, and libshardsolve_cuda12.so if SHARDSOLVE_CUDA12_LIBRARY names one.
include(ShardsolvePythonPackage)

set(SHARDSOLVE_XLA_INCLUDE_DIR "" CACHE PATH "Directory with xla/ffi/api/ffi.h; empty: the one of Python's jaxlib")
set(xla_include "${SHARDSOLVE_XLA_INCLUDE_DIR}")
if(NOT xla_include)
  shardsolve_python_package(jaxlib jaxlib)
  set(xla_include "${jaxlib}/include")
endif()
if(NOT EXISTS "${xla_include}/xla/ffi/api/ffi.h")
  message(FATAL_ERROR "No xla/ffi/api/ffi.h in '${xla_include}'. Install jaxlib 0.8.1 for '${Python_EXECUTABLE}', or set "
                      "SHARDSOLVE_XLA_INCLUDE_DIR to the directory 'include' inside a jaxlib package.")
endif()

shardsolve_sources(jax_sources jax)
add_library(shardsolve_jax SHARED ${jax_sources} $<TARGET_OBJECTS:shardsolve_objects>)
set(export_map "${PROJECT_SOURCE_DIR}/cmake/shardsolve_jax.map")
set_target_properties(
  shardsolve_jax
  PROPERTIES CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON
             BUILD_WITH_INSTALL_RPATH ON
             INSTALL_RPATH "$ORIGIN"
             LINK_DEPENDS "${export_map}")
target_include_directories(
  shardsolve_jax PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                         "${generated_include}")
target_include_directories(shardsolve_jax SYSTEM PRIVATE "${xla_include}")
target_link_libraries(shardsolve_jax PRIVATE shardsolve_options shardsolve_blas shardsolve_fmt
                                             nlohmann_json::nlohmann_json Threads::Threads)
shardsolve_types_by_name(shardsolve_jax)
# XLA's C header names members like their types: no standard C++, and an error for GCC.
target_compile_options(shardsolve_jax PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpermissive>)
target_link_options(shardsolve_jax PRIVATE "LINKER:--version-script=${export_map}")
if(NOT SHARDSOLVE_SANITIZE)
  target_link_options(shardsolve_jax PRIVATE LINKER:-z,defs)
endif()

# Only `cmake --install <build> --component python` takes these; the prefix is the directory of the package's parent.
install(TARGETS shardsolve_jax LIBRARY DESTINATION shardsolve/lib COMPONENT python EXCLUDE_FROM_ALL)
if(SHARDSOLVE_BLAS_BUNDLED)
  install(FILES "${SHARDSOLVE_BLAS_BUNDLED}" DESTINATION shardsolve/lib COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(TARGET shardsolve_cuda)
  # cuBLAS as pip installs it, from beside our package.
  set_target_properties(shardsolve_cuda PROPERTIES INSTALL_RPATH "$ORIGIN/../../nvidia/cu13/lib")
  install(TARGETS shardsolve_cuda LIBRARY DESTINATION shardsolve/lib COMPONENT python EXCLUDE_FROM_ALL)
endif()
# It is of a build of its own, as CMake has one compiler for CUDA.
set(SHARDSOLVE_CUDA12_LIBRARY "" CACHE FILEPATH "libshardsolve_cuda12.so of `scripts/cuda12.sh wheel`, for the wheel; or empty")
if(SHARDSOLVE_CUDA12_LIBRARY)
  if(NOT EXISTS "${SHARDSOLVE_CUDA12_LIBRARY}")
    message(FATAL_ERROR "SHARDSOLVE_CUDA12_LIBRARY is no file: '${SHARDSOLVE_CUDA12_LIBRARY}'. Run scripts/cuda12.sh wheel")
  endif()
  install(FILES "${SHARDSOLVE_CUDA12_LIBRARY}" DESTINATION shardsolve/lib COMPONENT python EXCLUDE_FROM_ALL)
endif()

# A wheel carries the licences of what lies in it and is not ours; those of the headers lie in licenses/.
function(shardsolve_wheel_license file name)
  install(FILES "${file}" DESTINATION "${SKBUILD_METADATA_DIR}/licenses" RENAME "${name}" COMPONENT python
          EXCLUDE_FROM_ALL)
endfunction()
if(SKBUILD_METADATA_DIR AND SHARDSOLVE_BLAS_BUNDLED)
  # OpenBLAS and LAPACK (BSD), and the GCC runtime in it (GPL with the exception for runtime libraries).
  file(GLOB openblas_license "${openblas_package}-*.dist-info/licenses/LICENSE.txt")
  shardsolve_wheel_license("${openblas_license}" OpenBLAS.txt)
endif()
if(SKBUILD_METADATA_DIR AND SHARDSOLVE_ZIG_PACKAGE)
  # libc++, libc++abi and libunwind (Apache-2.0 with the LLVM exception), and zig's compiler runtime (MIT).
  shardsolve_wheel_license("${SHARDSOLVE_ZIG_PACKAGE}/lib/libcxx/LICENSE.TXT" libcxx.txt)
  shardsolve_wheel_license("${SHARDSOLVE_ZIG_PACKAGE}/LICENSE" zig.txt)
endif()
if(SKBUILD_METADATA_DIR AND (TARGET shardsolve_cuda OR SHARDSOLVE_CUDA12_LIBRARY))
  shardsolve_wheel_license("${PROJECT_SOURCE_DIR}/licenses/cuda/runtime.txt" CUDA.txt)
endif()
