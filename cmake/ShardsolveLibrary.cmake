# The sources are compiled once, as objects, and used twice:
#   shardsolve           the shared library users get: only what is marked SHARDSOLVE_EXPORT is visible
#   shardsolve_internal  a static library with everything in it, for the command line tool and the tests
include(GenerateExportHeader)

set(generated_include "${PROJECT_BINARY_DIR}/generated/include")
configure_file("${PROJECT_SOURCE_DIR}/include/shardsolve/version.hpp.in"
               "${generated_include}/shardsolve/version.hpp" @ONLY)
include(ShardsolveInterface)

# All rooms but three: matgen and reference are for tests, benchmarks and the command's measurements, sparse_files for
# tests and the command. What needs CUDA or MPI are shared libraries of their own, loaded at run time.
shardsolve_sources(all_sources src)
set(library_sources)
foreach(source IN LISTS all_sources)
  file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src" "${source}")
  if(NOT path MATCHES "^(matgen|reference|sparse_files)/|/(cuda|mpi)/")
    list(APPEND library_sources "${source}")
  endif()
endforeach()

# Not in a batch with others: what they have for vector units, pragmas and inlining, is for themselves.
# And what has the name of another runtime.
foreach(source IN ITEMS fixed_dot fortran_runtime hermitian_multiply krylov_kernels krylov_program leaf_sums sparse_kernels)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/runtime/host/${source}.cpp"
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/fbpinn/features.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Its sums of few numbers are slower as vectors, which have to be put together.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/runtime/host/sparse_kernels.cpp"
                            PROPERTIES COMPILE_OPTIONS -fno-tree-slp-vectorize)
add_library(shardsolve_objects OBJECT ${library_sources})
add_dependencies(shardsolve_objects shardsolve_interface)
set_target_properties(
  shardsolve_objects
  PROPERTIES POSITION_INDEPENDENT_CODE ON
             CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(
  shardsolve_objects PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${generated_include}")
target_link_libraries(
  shardsolve_objects PUBLIC shardsolve_options shardsolve_blas shardsolve_fmt nlohmann_json::nlohmann_json
                            Threads::Threads)

add_library(shardsolve SHARED $<TARGET_OBJECTS:shardsolve_objects>)
add_library(shardsolve::shardsolve ALIAS shardsolve)
set_target_properties(
  shardsolve
  PROPERTIES LINKER_LANGUAGE CXX
             VERSION ${PROJECT_VERSION}
             # Before 1.0 a new minor version may break the interface.
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(shardsolve PUBLIC cxx_std_20)
target_include_directories(
  shardsolve PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<BUILD_INTERFACE:${generated_include}>"
                    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(shardsolve PRIVATE $<BUILD_INTERFACE:shardsolve_options> $<BUILD_INTERFACE:shardsolve_blas>
                                         $<BUILD_INTERFACE:shardsolve_fmt> Threads::Threads)
if(NOT SHARDSOLVE_SANITIZE)
  target_link_options(shardsolve PRIVATE LINKER:-z,defs)
endif()

generate_export_header(
  shardsolve
  BASE_NAME shardsolve
  EXPORT_MACRO_NAME SHARDSOLVE_EXPORT
  EXPORT_FILE_NAME "${generated_include}/shardsolve/export.hpp")

add_library(shardsolve_internal STATIC $<TARGET_OBJECTS:shardsolve_objects>)
set_target_properties(shardsolve_internal PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(
  shardsolve_internal PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${generated_include}")
target_link_libraries(
  shardsolve_internal PUBLIC shardsolve_options shardsolve_blas shardsolve_fmt
                             nlohmann_json::nlohmann_json Threads::Threads)

# shardsolve_room(<name> <directory>): a static library on top of the internal one, if the directory has sources.
# Linking ${SHARDSOLVE_ROOMS} takes those that exist.
set(SHARDSOLVE_ROOMS)
macro(shardsolve_room name directory)
  shardsolve_sources(room_sources ${directory})
  if(room_sources)
    add_library(${name} STATIC ${room_sources})
    target_link_libraries(${name} PUBLIC shardsolve_internal)
    list(APPEND SHARDSOLVE_ROOMS ${name})
  endif()
endmacro()

if(SHARDSOLVE_BUILD_TESTS OR SHARDSOLVE_BUILD_BENCH OR SHARDSOLVE_BUILD_CLI)
  shardsolve_room(shardsolve_matgen src/matgen)
  shardsolve_room(shardsolve_reference src/reference)
endif()
if(SHARDSOLVE_BUILD_CLI OR SHARDSOLVE_BUILD_TESTS)
  include(ShardsolveZlib)
  shardsolve_room(shardsolve_sparse_files src/sparse_files)
  target_link_libraries(shardsolve_sparse_files PUBLIC shardsolve_zlib)
endif()
# The command's doctor and what it measures with, apart from the command for the sake of their tests.
if(SHARDSOLVE_BUILD_CLI OR SHARDSOLVE_BUILD_TESTS)
  shardsolve_room(shardsolve_doctor cli/doctor)
  shardsolve_room(shardsolve_measure cli/bench)
  target_include_directories(shardsolve_measure PRIVATE "${PROJECT_SOURCE_DIR}/cli")
  target_link_libraries(shardsolve_measure PUBLIC shardsolve_doctor shardsolve_matgen)
endif()
