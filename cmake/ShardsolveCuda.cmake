# libshardsolve_cuda.so: the backend for NVIDIA GPUs, loaded at run time where there is a driver. Needs CUDA 13's
# compiler and cuBLAS to build; without them everything else is built all the same. SHARDSOLVE_CUDA=AUTO builds it where
# a GPU is, for the GPUs that are there; ON for all kinds.
# From the same sources libshardsolve_cuda12.so, with CUDA 12 and clang 20 or newer as CMAKE_CUDA_COMPILER: see
# scripts/cuda12.sh, which puts together what that needs.

# nvcc's flags for the kernels of one folder below src/runtime/cuda/kernels, beside those of all. "<folder>: <flag>..." a
# line. Where bits are to be those of the CPU, what is fused is written so.
set(cuda_folder_flags "dot: --fmad=false" "krylov: --fmad=false" "qr: --fmad=false" "sparse: --fmad=false"
                      "tridiagonal: --fmad=false --expt-relaxed-constexpr")
# What clang calls them; constexpr functions are for GPUs, too, without being asked.
set(clang_flags "--fmad=false: -ffp-contract=off" "--expt-relaxed-constexpr: ")

# Of the other rooms the library takes what has no state and no BLAS. What is missing here is named by the linker, which
# leaves no symbol undefined.
set(cuda_shared_sources
    src/comm/copy_window.cpp
    src/comm/data_messages.cpp
    src/comm/exchange_communicator.cpp
    src/comm/failure.cpp
    src/comm/process_group.cpp
    src/comm/pulses.cpp
    src/comm/release_agreement.cpp
    src/comm/ring.cpp
    src/comm/shared_memory.cpp
    src/comm/tell_all.cpp
    src/comm/topology.cpp
    src/comm/traced_messages.cpp
    src/core/error.cpp
    src/mesh/gpu_seats.cpp
    src/runtime/host/one_way_counter.cpp
    src/runtime/operand_shapes.cpp
    src/runtime/queue.cpp)

# shardsolve_architectures_here(<variable>): of the GPUs of this machine, as nvidia-smi tells them, those that CUDA 13
# compiles for, "90-real" and the like; empty where there are none.
function(shardsolve_architectures_here variable)
  set(architectures)
  find_program(SHARDSOLVE_NVIDIA_SMI nvidia-smi DOC "Tells which GPUs are here")
  mark_as_advanced(SHARDSOLVE_NVIDIA_SMI)
  if(SHARDSOLVE_NVIDIA_SMI)
    execute_process(COMMAND "${SHARDSOLVE_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE answer ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${answer}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." "" architecture "${capability}")
      if(architecture GREATER_EQUAL 75)
        list(APPEND architectures "${architecture}-real")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES architectures)
  endif()
  set(${variable} "${architectures}" PARENT_SCOPE)
endfunction()

if(SHARDSOLVE_CUDA STREQUAL OFF)
  message(STATUS "No CUDA backend: SHARDSOLVE_CUDA=OFF")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  find_program(nvcc nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin NO_CACHE)
  if(nvcc)
    set(CMAKE_CUDA_COMPILER "${nvcc}")
  endif()
endif()
set(cuda_by_clang OFF)
set(cuda_version 13)
if(CMAKE_CUDA_COMPILER MATCHES "clang[^/]*$")
  set(cuda_by_clang ON)
  # Of 12 what clang knows by name; driver and libraries of any 12 do.
  set(cuda_version 12.5)
endif()
if(CMAKE_CUDA_COMPILER)
  find_package(CUDAToolkit ${cuda_version} QUIET)
endif()
if(cuda_by_clang AND NOT (CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 13))
  message(FATAL_ERROR "CMAKE_CUDA_COMPILER is clang, which compiles for CUDA 12, and no CUDA 12.5 to 12.9 was found: run "
                      "scripts/cuda12.sh, which puts one together, or set CUDAToolkit_ROOT")
endif()
if(NOT (CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND TARGET CUDA::cublas AND TARGET CUDA::cublasLt))
  if(SHARDSOLVE_CUDA STREQUAL ON)
    message(FATAL_ERROR "SHARDSOLVE_CUDA=ON, and CUDA 13 with nvcc and cuBLAS was not found: put nvcc on PATH or set "
                        "CMAKE_CUDA_COMPILER")
  endif()
  message(STATUS "No CUDA backend (it needs nvcc and cuBLAS of CUDA 13)")
  return()
endif()
shardsolve_architectures_here(architectures_here)
if(SHARDSOLVE_CUDA STREQUAL AUTO AND NOT architectures_here)
  message(STATUS "No CUDA backend, as no GPU is here: SHARDSOLVE_CUDA=ON builds it for others (some minutes)")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  if(SHARDSOLVE_CUDA STREQUAL AUTO)
    set(CMAKE_CUDA_ARCHITECTURES ${architectures_here})
  else()
    # Machine code for A100, H100/H200 and B200, and PTX for what comes after.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
    if(cuda_by_clang)
      # V100, A100, A10 and the like, L4 and the like, H100/H200. PTX is for the library of CUDA 13.
      set(CMAKE_CUDA_ARCHITECTURES 70-real 80-real 86-real 89-real 90-real)
    endif()
  endif()
endif()
if(cuda_by_clang)
  # The C++ compiler links, so each object is to be whole by itself.
  set(CMAKE_CUDA_FLAGS_INIT "--no-offload-new-driver -Wno-unknown-cuda-version")
endif()
enable_language(CUDA)
if(cuda_by_clang AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 20)
  message(FATAL_ERROR "clang ${CMAKE_CUDA_COMPILER_VERSION} has no __grid_constant__, without which kernels cannot copy by "
                      "descriptors: set CMAKE_CUDA_COMPILER to clang 20 or newer")
endif()
message(STATUS "CUDA backend: CUDA ${CUDAToolkit_VERSION}, for architectures ${CMAKE_CUDA_ARCHITECTURES}")
# The C++ compiler links, with its own runtime; nvcc's host compiler, which may be another one, adds nothing.
set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")

# nvcc compiles the kernels with the system's g++, which it needs, and our compiler all else: nothing of the C++ standard
# library stands between the two. CMake 3.25 does not know nvcc's flag for C++20. Where clang compiles, the same.
set(cuda_kernels_directory "${PROJECT_SOURCE_DIR}/src/runtime/cuda/kernels")
file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS "${cuda_kernels_directory}/*.cu")
add_library(shardsolve_cuda_kernels OBJECT ${cuda_kernels})
set_target_properties(shardsolve_cuda_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_EXTENSIONS ON
                                                         CUDA_VISIBILITY_PRESET hidden UNITY_BUILD OFF)
if(cuda_by_clang)
  # Drivers before 12.4 do not read what fatbinary makes smaller by default.
  target_compile_options(shardsolve_cuda_kernels PRIVATE -std=c++20 -O3 -g0 -Wno-unused-command-line-argument
                                                         "SHELL:-Xcuda-fatbinary --compress-mode=speed"
                                                         # libdevice has square roots of floats approximated else.
                                                         "SHELL:-mllvm -nvvm-reflect-add=__CUDA_PREC_SQRT=1")
  # What a function of a kernel keeps in arrays is in registers only where that function is inlined, which nvcc does
  # without a limit. Krylov's kernels have no such arrays, and a state machine that would be there many times.
  set(inlined_kernels ${cuda_kernels})
  list(FILTER inlined_kernels EXCLUDE REGEX "/krylov/[^/]*$")
  set_property(SOURCE ${inlined_kernels} APPEND_STRING PROPERTY COMPILE_FLAGS " -mllvm -inline-threshold=5000")
else()
  target_compile_options(shardsolve_cuda_kernels PRIVATE -std=c++20 $<$<NOT:$<CONFIG:Release>>:-lineinfo> --diag-suppress=554)
endif()
foreach(line IN LISTS cuda_folder_flags)
  string(REGEX MATCH "^([a-z_]+): (.+)$" fits "${line}")
  if(NOT fits OR NOT IS_DIRECTORY "${cuda_kernels_directory}/${CMAKE_MATCH_1}")
    message(FATAL_ERROR "cuda_folder_flags: '${line}' is no \"<folder>: <flag>...\"")
  endif()
  set(flags "${CMAKE_MATCH_2}")
  set(folder "${CMAKE_MATCH_1}")
  if(cuda_by_clang)
    foreach(pair IN LISTS clang_flags)
      string(REGEX MATCH "^([^:]+): (.*)$" fits "${pair}")
      string(REPLACE "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" flags "${flags}")
    endforeach()
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  file(GLOB_RECURSE of_folder "${cuda_kernels_directory}/${folder}/*.cu")
  set_property(SOURCE ${of_folder} APPEND PROPERTY COMPILE_OPTIONS ${flags})
endforeach()
target_include_directories(shardsolve_cuda_kernels PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                                                           "${generated_include}")
shardsolve_sources(cuda_sources src/runtime/cuda src/comm/cuda src/mesh/cuda)
list(TRANSFORM cuda_shared_sources PREPEND "${PROJECT_SOURCE_DIR}/")
add_library(shardsolve_cuda MODULE ${cuda_sources} ${cuda_shared_sources} $<TARGET_OBJECTS:shardsolve_cuda_kernels>)
add_dependencies(shardsolve_cuda shardsolve_interface)
set(export_map "${PROJECT_SOURCE_DIR}/cmake/shardsolve_cuda.map")
set_target_properties(
  shardsolve_cuda
  PROPERTIES CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON
             CUDA_RUNTIME_LIBRARY None # named below
             OUTPUT_NAME $<IF:$<BOOL:${cuda_by_clang}>,shardsolve_cuda12,shardsolve_cuda>
             LINKER_LANGUAGE CXX
             LINK_DEPENDS "${export_map}")
if(cuda_by_clang)
  # cuBLAS as pip installs it, where the library lies in the Python package.
  set_target_properties(shardsolve_cuda PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                                   INSTALL_RPATH "$ORIGIN/../../nvidia/cublas/lib")
endif()
target_link_options(shardsolve_cuda PRIVATE "LINKER:--version-script=${export_map}")
if(NOT SHARDSOLVE_SANITIZE)
  target_link_options(shardsolve_cuda PRIVATE LINKER:-z,defs)
endif()
target_include_directories(shardsolve_cuda PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                                                   "${generated_include}")
# Compiled in, not exported: nobody links this library.
target_compile_definitions(shardsolve_cuda PRIVATE shardsolve_EXPORTS)
list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/mesh/cuda/cuda_facts.cpp"
                            "${PROJECT_SOURCE_DIR}/src/mesh/cuda/cuda_backend.cpp"
                            PROPERTIES COMPILE_DEFINITIONS SHARDSOLVE_CUDA_ARCHITECTURES="${architectures}")
target_link_libraries(shardsolve_cuda PRIVATE shardsolve_options CUDA::cudart_static CUDA::cublas CUDA::cublasLt
                                              shardsolve_fmt Threads::Threads ${CMAKE_DL_LIBS})
shardsolve_types_by_name(shardsolve_cuda)
