# libshardsolve_mpi.so: messages between processes, by any MPI that CMake finds; loaded at run time when it is asked for.
# Without an MPI everything else is built all the same.
if(NOT SHARDSOLVE_MPI STREQUAL OFF)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
endif()
if(SHARDSOLVE_MPI STREQUAL ON AND NOT MPI_CXX_FOUND)
  message(FATAL_ERROR "SHARDSOLVE_MPI=ON, and no MPI was found: install one (Debian: libopenmpi-dev), or put its mpicxx "
                      "on PATH or into MPI_CXX_COMPILER")
endif()
if(SHARDSOLVE_MPI STREQUAL OFF OR NOT MPI_CXX_FOUND)
  message(STATUS "No MPI: ranks are threads of one process")
  return()
endif()

shardsolve_sources(mpi_sources src/comm/mpi)
add_library(shardsolve_mpi MODULE ${mpi_sources} src/core/error.cpp)
add_dependencies(shardsolve_mpi shardsolve_interface)
set_target_properties(
  shardsolve_mpi
  PROPERTIES CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(shardsolve_mpi PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                                                  "${generated_include}")
# Compiled in, not exported: nobody links this library.
target_compile_definitions(shardsolve_mpi PRIVATE shardsolve_EXPORTS)
target_link_libraries(shardsolve_mpi PRIVATE shardsolve_options MPI::MPI_CXX shardsolve_fmt)
