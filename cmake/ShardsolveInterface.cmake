# The number of the interface between the program and the libraries that it loads at run time (GPUs, MPI): a hash of the
# headers that both include. Of two builds of one version it says whether they fit. In
# ${generated_include}/shardsolve_interface.hpp; targets that include it depend on shardsolve_interface.
file(GLOB_RECURSE interface_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/*.hpp" "${PROJECT_SOURCE_DIR}/src/core/*.hpp"
     "${PROJECT_SOURCE_DIR}/src/runtime/*.hpp" "${PROJECT_SOURCE_DIR}/src/comm/*.hpp" "${PROJECT_SOURCE_DIR}/src/mesh/*.hpp")
# What is of one side alone.
list(FILTER interface_headers EXCLUDE REGEX "/src/[a-z]+/(host|cuda|mpi|tcp)/")
set(interface_header "${generated_include}/shardsolve_interface.hpp")
list(JOIN interface_headers "\n" interface_list)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/interface_headers.txt" CONTENT "${interface_list}\n" @ONLY)
add_custom_command(
  OUTPUT "${interface_header}"
  COMMAND "${CMAKE_COMMAND}" "-Dlist=${PROJECT_BINARY_DIR}/generated/interface_headers.txt" "-Dheader=${interface_header}"
          -P "${PROJECT_SOURCE_DIR}/cmake/interface_number.cmake"
  DEPENDS ${interface_headers} "${PROJECT_BINARY_DIR}/generated/interface_headers.txt"
          "${PROJECT_SOURCE_DIR}/cmake/interface_number.cmake"
  COMMENT "Number of the interface to libraries that are loaded at run time"
  VERBATIM)
add_custom_target(shardsolve_interface DEPENDS "${interface_header}")
