# Interface target shardsolve_blas: BLAS and LAPACK, called through their Fortran symbols (dgemm_, dpotrf_, ...) with
# 32-bit integers.
#
# The default is the static OpenBLAS of Debian and Ubuntu. Linked into us with its symbols hidden it is a copy of our own:
# a NumPy in the same process keeps its BLAS and that BLAS its threads, and neither sees the other. It is the pthread
# flavour, set to one thread when first used: the serial flavour hands the same work buffer to two threads that call it
# at the same time (0.3.21: blas_memory_alloc locks its initialisation only), and our ranks are such threads.
# Setting BLA_VENDOR or BLAS_LIBRARIES asks for any other one, found by FindBLAS and FindLAPACK.
#
# Compile definitions for those who link it:
#   SHARDSOLVE_BLAS_LIBRARY  file name of the library (no directory), for `shardsolve --version`
#   SHARDSOLVE_BLAS_LINKAGE  "static" or "shared"
#   SHARDSOLVE_BLAS_PRIVATE  defined if it is an OpenBLAS that nobody else in the process uses
include(CheckCXXSourceCompiles)

set(blas_probe
    "extern \"C\" { void dgemm_(); void zherk_(); void dpotrf_(); void ztrtri_(); }
     int main(int argc, char**) { if (argc > 9) { dgemm_(); zherk_(); dpotrf_(); ztrtri_(); } return 0; }")

add_library(shardsolve_blas INTERFACE)
# No symbol of an archive is exported from our shared library, where it could take the place of another library's.
target_link_options(shardsolve_blas INTERFACE LINKER:--exclude-libs,ALL)

if(NOT BLA_VENDOR AND NOT BLAS_LIBRARIES)
  find_library(
    SHARDSOLVE_OPENBLAS_ARCHIVE
    NAMES libopenblas.a
    PATH_SUFFIXES openblas-pthread
    DOC "Static OpenBLAS, linked into shardsolve alone")
  mark_as_advanced(SHARDSOLVE_OPENBLAS_ARCHIVE)
  # find_library may come back with another libopenblas.a of the search path, maybe a serial one.
  if(SHARDSOLVE_OPENBLAS_ARCHIVE MATCHES "/openblas-pthread/")
    set(blas_static TRUE)
  endif()
endif()

if(blas_static)
  # A few LAPACK routines of the archive need the Fortran runtime: it is linked only when one of them is. The archive's
  # package brings the runtime itself, but not the compiler's link to it.
  set(blas_libraries "${SHARDSOLVE_OPENBLAS_ARCHIVE}")
  find_library(SHARDSOLVE_FORTRAN_RUNTIME NAMES gfortran libgfortran.so.5 DOC "Fortran runtime of the OpenBLAS archive")
  mark_as_advanced(SHARDSOLVE_FORTRAN_RUNTIME)
  if(SHARDSOLVE_FORTRAN_RUNTIME)
    # One argument, so that the linker's state and the library stay together.
    list(APPEND blas_libraries "-Wl,--push-state,--as-needed,${SHARDSOLVE_FORTRAN_RUNTIME},--pop-state")
  endif()
  list(APPEND blas_libraries -lm -lpthread)
  file(REAL_PATH "${SHARDSOLVE_OPENBLAS_ARCHIVE}" blas_file)
  set(blas_linkage static)
else()
  if(BLA_SIZEOF_INTEGER EQUAL 8)
    message(FATAL_ERROR "BLA_SIZEOF_INTEGER is 8; shardsolve calls the BLAS with 32-bit integers (LP64). "
                        "Leave it unset or set it to 4.")
  endif()
  set(BLA_SIZEOF_INTEGER 4)
  find_package(BLAS)
  find_package(LAPACK)
  if(NOT BLAS_FOUND OR NOT LAPACK_FOUND)
    message(FATAL_ERROR "No BLAS and LAPACK found. On Debian or Ubuntu install libopenblas-pthread-dev; elsewhere "
                        "install any BLAS with LAPACK and name it, for example -DBLA_VENDOR=OpenBLAS.")
  endif()
  set(blas_libraries LAPACK::LAPACK BLAS::BLAS)
  list(GET BLAS_LIBRARIES 0 blas_file)
  if(blas_file MATCHES "\\.a$")
    set(blas_linkage static)
  else()
    set(blas_linkage shared)
    message(STATUS "The BLAS is a shared library: every other user of it in the process, NumPy for example, shares "
                   "it and its number of threads with shardsolve. Run with one BLAS thread "
                   "(OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1, ...): the ranks are the threads.")
  endif()
  if(EXISTS "${blas_file}")
    file(REAL_PATH "${blas_file}" blas_file)
  endif()
endif()
target_link_libraries(shardsolve_blas INTERFACE ${blas_libraries})
get_filename_component(blas_name "${blas_file}" NAME)
target_compile_definitions(shardsolve_blas INTERFACE SHARDSOLVE_BLAS_LIBRARY="${blas_name}"
                                                     SHARDSOLVE_BLAS_LINKAGE="${blas_linkage}")

if(blas_static)
  target_compile_definitions(shardsolve_blas INTERFACE SHARDSOLVE_BLAS_PRIVATE)
endif()

# The answer is kept for one BLAS and asked again for another.
if(NOT "${SHARDSOLVE_BLAS_PROBED}" STREQUAL "${blas_libraries} ${blas_file}")
  unset(SHARDSOLVE_BLAS_WORKS CACHE)
  set(SHARDSOLVE_BLAS_PROBED "${blas_libraries} ${blas_file}" CACHE INTERNAL "BLAS of the last link test")
endif()
set(CMAKE_REQUIRED_LIBRARIES ${blas_libraries})
check_cxx_source_compiles("${blas_probe}" SHARDSOLVE_BLAS_WORKS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT SHARDSOLVE_BLAS_WORKS)
  message(FATAL_ERROR "The BLAS '${blas_file}' does not link: dgemm_, zherk_, dpotrf_ and ztrtri_ are needed. "
                      "CMakeFiles/CMakeError.log in the build directory has the linker's message.")
endif()
message(STATUS "BLAS: ${blas_file} (${blas_linkage})")
